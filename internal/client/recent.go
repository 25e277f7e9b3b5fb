package client

import (
	"container/list"
	"sync"
)

// recent remembers a bounded number of things: what was used longest ago goes first.
type recent[K comparable, V any] struct {
	limit int

	mu    sync.Mutex
	known map[K]*list.Element // GUARDED_BY mu; of order
	order list.List           // GUARDED_BY mu; of remembered[K, V], the one used last in front
}

type remembered[K comparable, V any] struct {
	key   K
	value V
}

func newRecent[K comparable, V any](limit int) *recent[K, V] {
	return &recent[K, V]{limit: limit, known: map[K]*list.Element{}}
}

func (r *recent[K, V]) get(key K) (value V, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.known[key]
	if e == nil {
		return value, false
	}
	r.order.MoveToFront(e)
	return e.Value.(remembered[K, V]).value, true
}

func (r *recent[K, V]) put(key K, value V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.known[key]; e != nil {
		e.Value = remembered[K, V]{key, value}
		r.order.MoveToFront(e)
		return
	}
	r.known[key] = r.order.PushFront(remembered[K, V]{key, value})
	if r.order.Len() > r.limit {
		last := r.order.Remove(r.order.Back()).(remembered[K, V])
		delete(r.known, last.key)
	}
}

func (r *recent[K, V]) drop(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.known[key]; e != nil {
		r.order.Remove(e)
		delete(r.known, key)
	}
}
