package ring

import (
	"errors"
	"sync/atomic"
)

// ErrCursor means that the peer breaks the rules of a ring.
var ErrCursor = errors.New("the peer has moved a cursor in shared memory to an impossible place: it is broken")

// Producer is the writing end of a stream of bytes in shared memory. It keeps its own cursor in private
// memory and checks each value of the peer's cursor. One goroutine uses it at a time.
type Producer struct {
	data []byte
	head *atomic.Uint64 // as far as the consumer may read
	tail *atomic.Uint64 // as far as the consumer has read
	at   uint64         // bytes put
	free uint64         // bytes that the consumer had released when Room was last called
}

// NewProducer makes the writing end of a new stream. The length of data is a power of two.
func NewProducer(data []byte, head, tail *atomic.Uint64) Producer {
	return Producer{data: data, head: head, tail: tail}
}

// At returns the number of bytes that were ever put.
func (p *Producer) At() uint64 { return p.at }

// Released returns the number of bytes that the consumer had ever released when Room was last called.
func (p *Producer) Released() uint64 { return p.free }

// Room returns the number of bytes that fit.
func (p *Producer) Room() (int, error) {
	tail := p.tail.Load()
	if tail < p.free || tail > p.at {
		return 0, ErrCursor
	}
	p.free = tail
	return len(p.data) - int(p.at-tail), nil
}

// Put appends at most as many bytes as Room has returned. They are visible to the consumer after Publish.
func (p *Producer) Put(b []byte) {
	from := int(p.at & uint64(len(p.data)-1))
	n := copy(p.data[from:], b)
	copy(p.data, b[n:])
	p.at += uint64(len(b))
}

// Publish makes all appended bytes visible to the consumer.
func (p *Producer) Publish() { p.head.Store(p.at) }

// Consumer is the reading end. It keeps its own cursor in private memory and checks each value of the peer's
// cursor. One goroutine uses it at a time.
type Consumer struct {
	data []byte
	head *atomic.Uint64
	tail *atomic.Uint64
	at   uint64 // bytes taken
}

// NewConsumer makes the reading end of a new stream.
func NewConsumer(data []byte, head, tail *atomic.Uint64) Consumer {
	return Consumer{data: data, head: head, tail: tail}
}

// At returns the number of bytes that were ever taken.
func (c *Consumer) At() uint64 { return c.at }

// Available returns the number of bytes that can be taken.
func (c *Consumer) Available() (int, error) {
	n := c.head.Load() - c.at
	if n > uint64(len(c.data)) {
		return 0, ErrCursor
	}
	return int(n), nil
}

// Next takes n bytes, at most as many as Available has returned. The slices are in shared memory, which the
// peer can change: the caller copies them once, and reads only the copy.
func (c *Consumer) Next(n int) (first, second []byte) {
	from := int(c.at & uint64(len(c.data)-1))
	c.at += uint64(n)
	if from+n <= len(c.data) {
		return c.data[from : from+n], nil
	}
	return c.data[from:], c.data[:from+n-len(c.data)]
}

// Take copies the next bytes.
func (c *Consumer) Take(into []byte) {
	first, second := c.Next(len(into))
	copy(into[copy(into, first):], second)
}

// Release lets the producer use the room of all bytes that were taken.
func (c *Consumer) Release() { c.tail.Store(c.at) }
