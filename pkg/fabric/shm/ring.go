package shm

import (
	"errors"
	"sync/atomic"
)

var errCursor = errors.New("shm: the peer has moved a cursor to an impossible place: it is broken")

// producer is the writing end of a stream of bytes in shared memory. It believes nothing but its own cursor.
type producer struct {
	data []byte
	head *atomic.Uint64 // as far as the consumer may read
	tail *atomic.Uint64 // as far as the consumer has read
	at   uint64         // bytes put
	free uint64         // bytes that the consumer had released when room was last called
}

// room is how many bytes fit.
func (p *producer) room() (int, error) {
	tail := p.tail.Load()
	if tail < p.free || tail > p.at {
		return 0, errCursor
	}
	p.free = tail
	return len(p.data) - int(p.at-tail), nil
}

// put appends bytes, of which room has told that they fit. They are visible after publish.
func (p *producer) put(b []byte) {
	from := int(p.at & uint64(len(p.data)-1))
	n := copy(p.data[from:], b)
	copy(p.data, b[n:])
	p.at += uint64(len(b))
}

// publish makes all bytes visible.
func (p *producer) publish() { p.head.Store(p.at) }

// consumer is the reading end. It believes nothing but its own cursor.
type consumer struct {
	data []byte
	head *atomic.Uint64
	tail *atomic.Uint64
	at   uint64 // bytes taken
}

// available is how many bytes can be taken.
func (c *consumer) available() (int, error) {
	n := c.head.Load() - c.at
	if n > uint64(len(c.data)) {
		return 0, errCursor
	}
	return int(n), nil
}

// next takes n bytes, of which available has told that they are there. They are in shared memory: the caller
// copies them once, and looks at the copy only.
func (c *consumer) next(n int) (first, second []byte) {
	from := int(c.at & uint64(len(c.data)-1))
	c.at += uint64(n)
	if from+n <= len(c.data) {
		return c.data[from : from+n], nil
	}
	return c.data[from:], c.data[:from+n-len(c.data)]
}

// take copies the next bytes.
func (c *consumer) take(into []byte) {
	first, second := c.next(len(into))
	copy(into[copy(into, first):], second)
}

// release lets the producer use the room of all bytes that were taken.
func (c *consumer) release() { c.tail.Store(c.at) }
