// Package queues has the FIFO queue of the baseline protocols.
package queues

// FIFO holds things in the order in which they were put in.
type FIFO[T any] struct {
	all  []T
	head int // of all, those before are gone
}

// Push makes room at the end. The result is valid until the next call.
func (f *FIFO[T]) Push() *T {
	var zero T
	f.all = append(f.all, zero)
	return &f.all[len(f.all)-1]
}

// First returns the oldest one, or nil.
func (f *FIFO[T]) First() *T {
	if f.head == len(f.all) {
		return nil
	}
	return &f.all[f.head]
}

// Pop drops the oldest one. When half of the space is unused, the rest moves down.
func (f *FIFO[T]) Pop() {
	var zero T
	f.all[f.head] = zero
	f.head++
	if 2*f.head >= len(f.all) {
		n := copy(f.all, f.all[f.head:])
		clear(f.all[n:])
		f.all, f.head = f.all[:n], 0
	}
}

// Len is how many there are.
func (f *FIFO[T]) Len() int { return len(f.all) - f.head }
