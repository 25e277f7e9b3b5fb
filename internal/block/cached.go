package block

import (
	"container/list"
	"context"
	"errors"
	"iter"
	"sync"
)

// Cached is a Store that keeps recently used blocks of another store in memory. Blocks never change, so
// cached blocks are never out of date. A deleted block can be read until it is evicted. Concurrent Gets of
// the same block cause one Get of the store.
type Cached struct {
	store Store
	max   int

	mu      sync.Mutex
	blocks  map[ID]*list.Element // GUARDED_BY mu; of *cachedBlock
	lru     list.List            // GUARDED_BY mu; the last used in front
	bytes   int                  // GUARDED_BY mu; of the data of blocks; at most max
	flights map[ID]*flight       // GUARDED_BY mu
	hits    uint64               // GUARDED_BY mu
	misses  uint64               // gets that asked the store, except those that waited for another get
}

type cachedBlock struct {
	id   ID
	data []byte // never changed
}

// flight is a Get of the store that others wait for.
type flight struct {
	done chan struct{} // closed when the rest is set
	data []byte
	err  error
}

// NewCached remembers up to maxBytes of data of store.
func NewCached(store Store, maxBytes int) *Cached {
	return &Cached{store: store, max: maxBytes, blocks: make(map[ID]*list.Element), flights: make(map[ID]*flight)}
}

// Stats returns the number of gets that the cache has answered, the number that asked the store, and the
// present size in bytes.
func (c *Cached) Stats() (hits, misses uint64, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hits, c.misses, c.bytes
}

// Put implements Store. It also caches the block, because a written block is often read soon.
func (c *Cached) Put(ctx context.Context, b Block) error {
	if err := c.store.Put(ctx, b); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.blocks[b.ID] == nil && len(b.Data) <= c.max {
		c.remember(b.ID, b.Data)
	}
	return nil
}

// Get implements Store. If the data do not fit in into, it returns the slice of the cache without a copy.
func (c *Cached) Get(ctx context.Context, id ID, into []byte) ([]byte, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c.mu.Lock()
		if element := c.blocks[id]; element != nil {
			c.lru.MoveToFront(element)
			c.hits++
			c.mu.Unlock()
			return Into(into, element.Value.(*cachedBlock).data), nil
		}
		f := c.flights[id]
		if f == nil {
			f = &flight{done: make(chan struct{})}
			c.flights[id] = f
			c.misses++
			c.mu.Unlock()
			c.fly(ctx, id, f)
		} else {
			c.mu.Unlock()
			select {
			case <-f.done:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			if isContextError(f.err) {
				continue // it was the other one's context that ended
			}
		}
		if f.err != nil {
			return nil, f.err
		}
		return Into(into, f.data), nil
	}
}

// Into returns data, copied to into if the capacity of into suffices.
func Into(into, data []byte) []byte {
	if cap(into) < len(data) {
		return data
	}
	return append(into[:0], data...)
}

// fly gets a block from the store for all gets that wait for f.
func (c *Cached) fly(ctx context.Context, id ID, f *flight) {
	f.data, f.err = c.store.Get(ctx, id, nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.err == nil && c.blocks[id] == nil {
		c.remember(id, f.data)
	}
	delete(c.flights, id)
	close(f.done)
}

// isContextError reports whether err says that a context ended.
func isContextError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// remember adds a block that is not there. The caller holds mu.
func (c *Cached) remember(id ID, data []byte) {
	c.blocks[id] = c.lru.PushFront(&cachedBlock{id: id, data: data})
	c.bytes += len(data)
	for c.bytes > c.max {
		c.forget(c.lru.Back())
	}
}

// forget drops one block. The caller holds mu.
func (c *Cached) forget(element *list.Element) {
	b := c.lru.Remove(element).(*cachedBlock)
	delete(c.blocks, b.id)
	c.bytes -= len(b.data)
}

// Delete implements Store.
func (c *Cached) Delete(ctx context.Context, ids []ID) error {
	err := c.store.Delete(ctx, ids)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		if element := c.blocks[id]; element != nil {
			c.forget(element)
		}
	}
	return err
}

// Range implements Store.
func (c *Cached) Range(ctx context.Context, from, to ID) iter.Seq2[ID, error] {
	return c.store.Range(ctx, from, to)
}
