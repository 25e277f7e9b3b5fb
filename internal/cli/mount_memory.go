package cli

// spareHeap is the memory in bytes that a serving process may fill before the collector looks for memory that
// is not used any more, beside the memory in use. A mount has little in use and takes 20 KB of new memory for
// each new file: without this bound the collector takes an eighth of the CPU of a busy mount.
const spareHeap = 64 << 20

// reserveHeap makes the collector wait for spareHeap, as long as the result is reachable. The collector runs
// when the heap has grown by its own size. The result counts as heap, and takes no memory, as nothing
// is written to it.
func reserveHeap() []byte { return make([]byte, spareHeap) }
