// Package buffers keeps the memory of long messages for reuse. Most of these messages carry a block. To
// allocate memory for each block costs about as much as to copy the block: the runtime clears the memory, the
// kernel maps it page by page, and a server with little other memory collects garbage after every few blocks.
package buffers

import "sync"

// Memory for lengths from least to most is kept. Each such memory has most bytes: a block, and the other
// fields of its message. So it is at most twice as long as the requested length. Limits that count requested
// lengths rely on that.
const (
	least = most / 2
	most  = 1<<20 + 4<<10
)

var kept = sync.Pool{New: func() any { return new([most]byte) }}

// Take returns n bytes of memory. Their content is undefined.
func Take(n int) []byte {
	if n < least || n > most {
		return make([]byte, n)
	}
	return kept.Get().(*[most]byte)[:n]
}

// Give returns memory that has no users any more for reuse. It ignores memory that Take has not kept.
func Give(b []byte) {
	if cap(b) == most {
		kept.Put((*[most]byte)(b[:most]))
	}
}
