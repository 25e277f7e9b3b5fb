package block

import (
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"slices"
)

// DiskCached is a Store in front of which a DiskCache stands. Several may share a cache, if an id means the
// same bytes in all their stores. As with Cached, a deleted block may be read until it is pushed out.
type DiskCached struct {
	store Store
	cache *DiskCache
}

// Over gives store with the cache in front of it.
func (c *DiskCache) Over(store Store) *DiskCached { return &DiskCached{store: store, cache: c} }

// Put implements Store. What is written is often read soon, so it is remembered.
func (d *DiskCached) Put(ctx context.Context, b Block) error {
	if err := d.store.Put(ctx, b); err != nil {
		return err
	}
	if w := d.cache.accept(b.ID); w != nil {
		d.cache.enqueue(w, b)
	}
	return nil
}

// Get implements Store.
func (d *DiskCached) Get(ctx context.Context, id ID, into []byte) ([]byte, error) {
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

// Delete implements Store.
func (d *DiskCached) Delete(ctx context.Context, ids []ID) error {
	err := d.store.Delete(ctx, ids)
	d.cache.forget(ids)
	return err
}

// Range implements Store.
func (d *DiskCached) Range(ctx context.Context, from, to ID) iter.Seq2[ID, error] {
	return d.store.Range(ctx, from, to)
}

// get gives a block in into or memory of its own; false if it is not remembered or its copy is not good.
func (c *DiskCache) get(id ID, into []byte) ([]byte, bool) {
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
	case errors.Is(err, os.ErrNotExist) || errors.Is(err, io.ErrUnexpectedEOF): // pushed out meanwhile, or torn
	case errors.Is(err, ErrCorrupt):
		c.config.Log.Warn("bad copy in the block cache on disk: got again", "dir", c.dir, "error", err)
	default:
		c.turnOff(err)
	}
	return nil, false
}

// lookup says where a block is, which counts as a use.
func (c *DiskCache) lookup(id ID) (cachedAt, bool) {
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

// read gives the verified bytes of a copy.
func (c *DiskCache) read(id ID, at cachedAt, into []byte) ([]byte, error) {
	data := slices.Grow(into[:0], int(at.length))[:at.length]
	if err := c.files.read(place{segment: at.segment, offset: uint64(at.offset) + recordHeader}, data); err != nil {
		return nil, err
	}
	if Sum(id, data) != at.crc {
		return nil, &CorruptError{ID: id, File: segmentName(at.segment), Offset: int64(at.offset)}
	}
	return data, nil
}

// discard forgets a copy that could not be read.
func (c *DiskCache) discard(id ID, at cachedAt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Hits--
	c.stats.Misses++
	if now, ok := c.index[id]; ok && now.segment == at.segment && now.offset == at.offset {
		delete(c.index, id)
		c.stats.Bad++
	}
}

// forget drops blocks that were deleted, those on their way to the disk too.
func (c *DiskCache) forget(ids []ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		delete(c.index, id)
		delete(c.waiting, id)
	}
}

// offer remembers what the store gave, if there is room: data itself if it is shared, which nobody changes, else a copy.
func (d *DiskCached) offer(id ID, data []byte, shared bool) {
	w := d.cache.accept(id)
	if w == nil {
		return
	}
	if !shared {
		data = slices.Clone(data)
	}
	d.cache.enqueue(w, Block{ID: id, Sum: Sum(id, data), Data: data})
}

// enqueue gives a block that was accepted to the writer if there is room.
func (c *DiskCache) enqueue(w *waitingBlock, b Block) {
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

// accept notes that a block comes; nil if it is not wanted.
func (c *DiskCache) accept(id ID) *waitingBlock {
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
