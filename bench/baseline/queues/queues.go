// Package queues has the two queues that the baseline protocols wait in: by position, and by arrival.
package queues

// Item is what stands in a Heap, in one at a time.
type Item[T any] interface {
	Before(other T) bool
	// Slot is where the Heap keeps the item's place.
	Slot() *int
}

// Heap has the item that is before all others first.
type Heap[T Item[T]] []T

func (h Heap[T]) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	*h[i].Slot(), *h[j].Slot() = i, j
}

// Push puts an item in.
func (h *Heap[T]) Push(x T) {
	i := len(*h)
	*x.Slot() = i
	*h = append(*h, x)
	for s := *h; i > 0 && s[i].Before(s[(i-1)/2]); i = (i - 1) / 2 {
		s.swap(i, (i-1)/2)
	}
}

// Pop takes the first item out; there must be one.
func (h *Heap[T]) Pop() T {
	var zero T
	first, last := (*h)[0], len(*h)-1
	h.swap(0, last)
	(*h)[last] = zero
	*h = (*h)[:last]
	h.down(0)
	return first
}

// Raised restores the order after x has moved back.
func (h Heap[T]) Raised(x T) { h.down(*x.Slot()) }

func (h Heap[T]) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && h[child+1].Before(h[child]) {
			child++
		}
		if !h[child].Before(h[i]) {
			return
		}
		h.swap(i, child)
		i = child
	}
}

// FIFO holds things in the order in which they were put in.
type FIFO[T any] struct {
	all  []T
	head int // of all, those before are gone
}

// Push makes room at the end. What it gives is valid until the next call.
func (f *FIFO[T]) Push() *T {
	var zero T
	f.all = append(f.all, zero)
	return &f.all[len(f.all)-1]
}

// First is the oldest one, or nil.
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
