package transport

import (
	"context"
	"sync"
)

// inbox is the queue of what arrived at one process. Its owner's mutex guards it:
// push, take and close are called with it held, ready without.
type inbox[T any] struct {
	mu     *sync.Mutex
	queue  []T
	next   int // queue[:next] is taken
	closed bool
	wake   chan struct{} // capacity 1: the queue is not empty, or closed
}

func newInbox[T any](mu *sync.Mutex) inbox[T] {
	return inbox[T]{mu: mu, wake: make(chan struct{}, 1)}
}

func (b *inbox[T]) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *inbox[T]) push(v T) {
	if b.closed {
		return
	}
	b.queue = append(b.queue, v)
	if len(b.queue) == b.next+1 {
		b.signal()
	}
}

// take gives the oldest element, if there is one.
func (b *inbox[T]) take() (v T, ok bool) {
	if b.next == len(b.queue) {
		return v, false
	}
	v = b.queue[b.next]
	var zero T
	b.queue[b.next] = zero
	b.next++
	switch {
	case b.next == len(b.queue):
		b.queue, b.next = b.queue[:0], 0
	case b.next > len(b.queue)/2 && b.next >= 1024: // do not let a queue that is never empty grow
		n := copy(b.queue, b.queue[b.next:])
		clear(b.queue[n:])
		b.queue, b.next = b.queue[:n], 0
	}
	return v, true
}

// lockReady waits until there is something to take and returns with the mutex held,
// or with an error and without it.
func (b *inbox[T]) lockReady(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		b.mu.Lock()
		if b.closed {
			b.mu.Unlock()
			return ErrClosed
		}
		if b.next < len(b.queue) {
			return nil
		}
		b.mu.Unlock()
		select {
		case <-b.wake:
		case <-ctx.Done():
		}
	}
}

// unlock ends what lockReady began; another receiver gets what is left.
func (b *inbox[T]) unlock() {
	if b.next < len(b.queue) {
		b.signal()
	}
	b.mu.Unlock()
}

func (b *inbox[T]) close() {
	b.closed = true
	b.queue, b.next = nil, 0
	close(b.wake) // push signals no more: closed is set
}
