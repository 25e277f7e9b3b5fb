package ring

import (
	"sync/atomic"
	"unsafe"
)

// Memory is memory that two processes share. The other process may change any byte at any time.
type Memory []byte

// Word returns a word that both sides use. The peer may change it at any time.
func (m Memory) Word(at int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&m[at]))
}
