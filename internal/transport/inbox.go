package transport

// inbox is the queue of the frames that arrived at one process. The mutex of its owner guards it.
type inbox[T any] struct {
	queue  []T
	next   int // queue[:next] is taken
	closed bool
}

func (b *inbox[T]) push(v T) {
	if !b.closed {
		b.queue = append(b.queue, v)
	}
}

// take removes and returns the oldest element, if there is one.
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
	case b.next > len(b.queue)/2 && b.next >= 1024: // bounds the memory of a queue that is never empty
		n := copy(b.queue, b.queue[b.next:])
		clear(b.queue[n:])
		b.queue, b.next = b.queue[:n], 0
	}
	return v, true
}

func (b *inbox[T]) close() {
	b.closed = true
	b.queue, b.next = nil, 0
}
