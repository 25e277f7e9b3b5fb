package block

import (
	"container/list"
	"context"
	"errors"
	"iter"
	"sync"
)

// Memory keeps recently used blocks in memory. Blocks never change, so cached blocks are never out of date. A
// deleted block can be read until it is evicted.
type Memory struct {
	max int

	mu      sync.Mutex
	blocks  map[ID]*list.Element // GUARDED_BY mu; of *cachedBlock
	lru     list.List            // GUARDED_BY mu; the last used in front
	bytes   int                  // GUARDED_BY mu; of the data of blocks; at most max
	flights map[origin]*flight   // GUARDED_BY mu
	hits    uint64               // GUARDED_BY mu
	misses  uint64               // GUARDED_BY mu; gets that asked a store, without those that waited for another
}

type cachedBlock struct {
	id   ID
	data []byte // never changed
}

// origin is a block in a store.
type origin struct {
	store *Cached
	id    ID
}

// flight is a Get of a store that others wait for.
type flight struct {
	done chan struct{} // closed when the rest is set
	data []byte
	err  error
}

// NewMemory returns an empty Memory for up to maxBytes of data.
func NewMemory(maxBytes int) *Memory {
	return &Memory{max: maxBytes, blocks: make(map[ID]*list.Element), flights: make(map[origin]*flight)}
}

// Stats returns the number of gets that were answered from memory, the number that asked a store, and the
// present size in bytes.
func (m *Memory) Stats() (hits, misses uint64, bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hits, m.misses, m.bytes
}

// remember adds a block. The caller holds mu.
func (m *Memory) remember(id ID, data []byte) {
	if m.blocks[id] != nil || len(data) > m.max {
		return
	}
	m.blocks[id] = m.lru.PushFront(&cachedBlock{id: id, data: data})
	m.bytes += len(data)
	for m.bytes > m.max {
		m.forget(m.lru.Back())
	}
}

// forget drops one block. The caller holds mu.
func (m *Memory) forget(element *list.Element) {
	b := m.lru.Remove(element).(*cachedBlock)
	delete(m.blocks, b.id)
	m.bytes -= len(b.data)
}

// Cached is a Store with a Memory in front of it. Several stores may share the Memory. Concurrent Gets of the
// same block cause one Get of the store.
type Cached struct {
	store Store
	*Memory
}

// NewCached returns store with memory in front of it.
func NewCached(store Store, memory *Memory) *Cached { return &Cached{store, memory} }

// Put implements Store. It caches the block: a written block is often read soon.
func (c *Cached) Put(ctx context.Context, b Block) error {
	if err := c.store.Put(ctx, b); err != nil {
		return err
	}
	c.wrote(&b)
	return nil
}

// wrote caches a block that was put.
func (c *Cached) wrote(b *Block) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remember(b.ID, b.Data)
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
		f := c.flights[origin{c, id}]
		if f == nil {
			f = &flight{done: make(chan struct{})}
			c.flights[origin{c, id}] = f
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
	if f.err == nil {
		c.remember(id, f.data)
	}
	delete(c.flights, origin{c, id})
	close(f.done)
}

// isContextError reports whether err says that a context ended.
func isContextError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
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
