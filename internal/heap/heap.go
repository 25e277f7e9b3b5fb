// Package heap is a binary min-heap of typed elements. Package container/heap boxes each element in an
// interface, which costs a simulator half of its time.
//
// Invariants, for every index i above 0:
//
//	H1  the element at i is not before the element at (i-1)/2
//	H2  the last call of Moved on the element at i had the argument i
package heap

// Item is an element of a Heap. An element is in at most one Heap at a time.
type Item[T any] interface {
	// Before is a strict weak order. Elements that are equal in it leave the heap in any order.
	Before(other T) bool
	// Moved receives the new index of the element, or -1 when it has left the heap. An element that is never
	// passed to Fix can ignore the call.
	Moved(to int)
}

// Heap has the least element at index 0. Its length and its elements can be read; only the methods change it.
// The zero Heap is empty. A Heap is not safe for concurrent use.
type Heap[T Item[T]] []T

// Push adds x.
func (h *Heap[T]) Push(x T) {
	*h = append(*h, x)
	h.up(x, len(*h)-1)
}

// Pop removes the least element and returns it. Pop panics if the heap is empty. The order of the removed
// element does not matter any more: Pop does not compare it.
func (h *Heap[T]) Pop() T {
	var zero T
	first, last := (*h)[0], len(*h)-1
	x := (*h)[last]
	(*h)[last] = zero
	*h = (*h)[:last]
	if last > 0 {
		h.down(x, 0)
	}
	first.Moved(-1)
	return first
}

// Fix restores the order after the element at index i has changed its own.
func (h Heap[T]) Fix(i int) {
	x := h[i]
	if i > 0 && x.Before(h[(i-1)/2]) {
		h.up(x, i)
		return
	}
	h.down(x, i)
}

// up puts x at i or above, where its parent is not after it.
func (h Heap[T]) up(x T, i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !x.Before(h[parent]) {
			break
		}
		h.set(i, h[parent])
		i = parent
	}
	h.set(i, x)
}

// down puts x at i or below, where neither child is before it.
func (h Heap[T]) down(x T, i int) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if right := child + 1; right < len(h) && h[right].Before(h[child]) {
			child = right
		}
		if !h[child].Before(x) {
			break
		}
		h.set(i, h[child])
		i = child
	}
	h.set(i, x)
}

func (h Heap[T]) set(i int, x T) {
	h[i] = x
	x.Moved(i)
}
