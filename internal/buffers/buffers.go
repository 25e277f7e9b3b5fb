// Package buffers keeps the memory of long messages, which mostly carry a block, for the next ones. New
// memory for each block would cost about as much as the copy of the block: it is cleared, the kernel maps it
// page by page, and a server with little other memory collects garbage after every few blocks.
package buffers

import "sync"

// Lengths of the memory that is kept, in bytes: a block with what a message has around it. A user that counts
// lengths has at most twice as much.
const (
	least = most / 2
	most  = 1<<20 + 4<<10
)

var kept = sync.Pool{New: func() any { return new([most]byte) }}

// Take returns n bytes of memory with any content.
func Take(n int) []byte {
	if n < least || n > most {
		return make([]byte, n)
	}
	return kept.Get().(*[most]byte)[:n]
}

// Give takes back memory that nobody uses any more. It ignores memory that is not of Take.
func Give(b []byte) {
	if cap(b) == most {
		kept.Put((*[most]byte)(b[:most]))
	}
}
