// Package recent keeps a bounded number of entries: those that were used last. It is for caches of hints, in
// which an entry may be wrong or missing.
package recent

import (
	"container/list"
	"sync"
)

// Map remembers a bounded number of values by their keys. The value that was used longest ago goes first. Its
// methods may be called concurrently.
type Map[K comparable, V any] struct {
	limit int

	mu       sync.Mutex
	elements map[K]*list.Element // GUARDED_BY mu; of order
	order    list.List           // GUARDED_BY mu; of remembered[K, V], the one used last in front
}

type remembered[K comparable, V any] struct {
	key   K
	value V
}

// New makes a map of at most limit values.
func New[K comparable, V any](limit int) *Map[K, V] {
	return &Map[K, V]{limit: limit, elements: map[K]*list.Element{}}
}

// Get returns the value of key, and counts as a use.
func (r *Map[K, V]) Get(key K) (value V, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.elements[key]
	if e == nil {
		return value, false
	}
	r.order.MoveToFront(e)
	return e.Value.(remembered[K, V]).value, true
}

// Put sets the value of key, and counts as a use.
func (r *Map[K, V]) Put(key K, value V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.elements[key]; e != nil {
		e.Value = remembered[K, V]{key, value}
		r.order.MoveToFront(e)
		return
	}
	r.elements[key] = r.order.PushFront(remembered[K, V]{key, value})
	if r.order.Len() > r.limit {
		last := r.order.Remove(r.order.Back()).(remembered[K, V])
		delete(r.elements, last.key)
	}
}

// Drop forgets the value of key.
func (r *Map[K, V]) Drop(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.elements[key]; e != nil {
		r.order.Remove(e)
		delete(r.elements, key)
	}
}
