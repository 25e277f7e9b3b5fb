package diskcache

import (
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"slices"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/segfile"
)

// Store is a block.Store with a Cache in front of it. Several stores may share a cache if an id means the
// same bytes in all of them. As with block.Cached, a deleted block may be read until it is evicted.
type Store struct {
	store block.Store
	cache *Cache
}

// Over returns store with the cache in front of it.
func (c *Cache) Over(store block.Store) *Store { return &Store{store: store, cache: c} }

// Put implements block.Store. Written blocks are often read soon, so they are cached.
func (d *Store) Put(ctx context.Context, b block.Block) error {
	if err := d.store.Put(ctx, b); err != nil {
		return err
	}
	if w := d.cache.accept(b.ID); w != nil {
		d.cache.enqueue(w, b)
	}
	return nil
}

// Get implements block.Store.
func (d *Store) Get(ctx context.Context, id block.ID, into []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if data, ok := d.cache.get(id, into); ok {
		return data, nil
	}
	data, err := d.store.Get(ctx, id, into)
	if err == nil {
		d.offer(id, data, cap(into) < len(data))
	}
	return data, err
}

// Delete implements block.Store.
func (d *Store) Delete(ctx context.Context, ids []block.ID) error {
	err := d.store.Delete(ctx, ids)
	d.cache.forget(ids)
	return err
}

// Range implements block.Store.
func (d *Store) Range(ctx context.Context, from, to block.ID) iter.Seq2[block.ID, error] {
	return d.store.Range(ctx, from, to)
}

// get returns a block in into or in memory of its own; false if it is not cached or its copy is bad.
func (c *Cache) get(id block.ID, into []byte) ([]byte, bool) {
	at, ok := c.lookup(id)
	if !ok {
		return nil, false
	}
	data, err := c.read(id, at, into)
	if err == nil {
		return data, true
	}
	c.discard(id, at)
	switch {
	case errors.Is(err, os.ErrNotExist) || errors.Is(err, io.ErrUnexpectedEOF): // evicted meanwhile, or torn
	case errors.Is(err, block.ErrCorrupt):
		c.config.Log.Warn("bad copy in the block cache on disk: fetched again", "dir", c.dir, "error", err)
	default:
		c.turnOff(err)
	}
	return nil, false
}

// lookup returns the place of a block, and counts as a use.
func (c *Cache) lookup(id block.ID) (cachedAt, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.index[id]
	if !ok || c.isOff() {
		c.stats.Misses++
		return at, false
	}
	if !at.used {
		at.used = true
		c.index[id] = at
	}
	c.stats.Hits++
	return at, true
}

// read returns the verified bytes of a copy.
func (c *Cache) read(id block.ID, at cachedAt, into []byte) ([]byte, error) {
	data := slices.Grow(into[:0], int(at.length))[:at.length]
	if err := c.files.Read(segfile.Place{Segment: at.segment, Offset: uint64(at.offset) + segfile.HeaderSize}, data); err != nil {
		return nil, err
	}
	if block.Sum(id, data) != at.crc {
		return nil, &block.CorruptError{ID: id, File: segfile.Name(at.segment), Offset: int64(at.offset)}
	}
	return data, nil
}

// discard forgets an unreadable copy.
func (c *Cache) discard(id block.ID, at cachedAt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Hits--
	c.stats.Misses++
	if now, ok := c.index[id]; ok && now.segment == at.segment && now.offset == at.offset {
		delete(c.index, id)
		c.stats.Bad++
	}
}

// forget drops deleted blocks, also those that wait for the disk.
func (c *Cache) forget(ids []block.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		delete(c.index, id)
		delete(c.waiting, id)
	}
}

// offer passes a block from the store to the cache, if there is room: data itself if it is shared, since
// shared data never changes, otherwise a copy.
func (d *Store) offer(id block.ID, data []byte, shared bool) {
	w := d.cache.accept(id)
	if w == nil {
		return
	}
	if !shared {
		data = slices.Clone(data)
	}
	d.cache.enqueue(w, block.Block{ID: id, Sum: block.Sum(id, data), Data: data})
}

// enqueue passes an accepted block to the writer if there is room.
func (c *Cache) enqueue(w *waitingBlock, b block.Block) {
	w.Block = b
	select {
	case c.queue <- w:
	default:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.stats.Dropped++
		if c.waiting[b.ID] == w {
			delete(c.waiting, b.ID)
		}
	}
}

// accept records that a block comes; nil if the cache does not need it.
func (c *Cache) accept(id block.ID) *waitingBlock {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, known := c.index[id]
	if known || c.waiting[id] != nil || c.isOff() {
		return nil
	}
	if len(c.queue) == cap(c.queue) {
		c.stats.Dropped++
		return nil
	}
	w := &waitingBlock{}
	c.waiting[id] = w
	return w
}
