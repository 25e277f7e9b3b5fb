package diskcache

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/segfile"
)

// writer is the goroutine that changes the files of a cache.
type writer struct {
	cache  *Cache
	active *os.File // the last segment; nil: the next block begins one
	next   uint32   // number of the next segment
	buffer []byte   // of blocks that are written again
}

// run loads the existing segments, then writes the queued blocks, until the cache is closed.
func (w *writer) run() {
	defer close(w.cache.done)
	defer w.leave()
	switch err := w.load(); {
	case errors.Is(err, block.ErrClosed):
		return // new blocks would come on top of segments that are not counted (K2)
	case err != nil:
		w.cache.turnOff(err)
	}
	for {
		select {
		case b := <-w.cache.queue:
			w.write(b)
		case <-w.cache.stop:
			for {
				select {
				case b := <-w.cache.queue:
					w.write(b)
				default:
					return
				}
			}
		}
	}
}

// write stores one block.
func (w *writer) write(b *waitingBlock) {
	c, id := w.cache, b.ID
	c.mu.Lock()
	_, known := c.index[id] // loaded meanwhile
	wanted := c.waiting[id] == b && !known && !c.isOff()
	c.mu.Unlock()
	var at cachedAt
	var err error
	if wanted {
		if at, err = w.append(&segfile.Record{ID: id, Length: uint32(len(b.Data)), Sum: b.Sum}, b.Data); err != nil {
			w.failed(err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting[id] != b {
		return // deleted meanwhile
	}
	delete(c.waiting, id)
	if wanted && err == nil {
		c.index[id] = at
	}
}

// append writes a record to the last segment, or to a new one if that is full.
func (w *writer) append(r *segfile.Record, data []byte) (cachedAt, error) {
	if w.active != nil && w.isFull(segfile.HeaderSize+len(data)) {
		w.leave()
	}
	if w.active == nil {
		if err := w.begin(); err != nil {
			return cachedAt{}, err
		}
	}
	return w.appendHere(r, data)
}

// isFull reports whether the last segment has no room for n bytes more.
func (w *writer) isFull(n int) bool {
	c := w.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	last := &c.segments[len(c.segments)-1]
	return last.size+int64(n) > c.roll || last.cost()+grain > c.roll
}

// appendHere writes a record to the last segment.
func (w *writer) appendHere(r *segfile.Record, data []byte) (cachedAt, error) {
	c := w.cache
	last := &c.segments[len(c.segments)-1] // only the writer changes segments
	header := r.Header()
	_, err := w.active.WriteAt(header[:], last.size)
	if err == nil {
		_, err = w.active.WriteAt(data, last.size+segfile.HeaderSize)
	}
	if err != nil {
		_ = w.active.Truncate(last.size) // a rest of the record counts when the cache is opened again
		return cachedAt{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	at := cachedAt{segment: last.number, offset: uint32(last.size), length: r.Length, crc: r.Sum}
	last.size += segfile.HeaderSize + int64(r.Length)
	last.ids = append(last.ids, r.ID)
	c.stats.Written++
	return at, nil
}

// begin makes a new segment and room for it.
func (w *writer) begin() error {
	c := w.cache
	path := filepath.Join(c.dir, segfile.Name(w.next))
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	w.active = file
	c.mu.Lock()
	c.segments = append(c.segments, segment{number: w.next})
	c.mu.Unlock()
	w.next++
	return w.shrink(c.config.MaxBytes-2*c.roll, c.roll/2)
}

// shrink removes the oldest segments, but not the active one, until the others count for at most room bytes.
// It writes up to keep bytes of the used blocks again.
func (w *writer) shrink(room, keep int64) error {
	c := w.cache
	for {
		c.mu.Lock()
		enough := c.cost() <= room || w.active != nil && len(c.segments) == 1
		c.mu.Unlock()
		if enough {
			return nil
		}
		kept, err := w.evict(keep)
		if err != nil {
			return err
		}
		keep -= kept
	}
}

// evict removes the oldest segment. Blocks in it that were used since they were written move to the last
// segment, up to keep bytes.
func (w *writer) evict(keep int64) (kept int64, err error) {
	c := w.cache
	oldest := c.segments[0] // only the writer changes segments
	for _, id := range oldest.ids {
		at, ok := w.take(id, oldest.number)
		if !ok || !at.used || err != nil {
			continue
		}
		if size := max(segfile.HeaderSize+int64(at.length), grain); kept+size <= keep {
			if err = w.again(id, at); err == nil {
				kept += size
			}
		}
	}
	c.mu.Lock()
	c.segments = slices.Delete(c.segments, 0, 1)
	c.mu.Unlock()
	removed := os.Remove(filepath.Join(c.dir, segfile.Name(oldest.number)))
	c.files.Forget(oldest.number) // not before: a get with the looked-up place would open it again, and keep its space
	if errors.Is(removed, os.ErrNotExist) {
		removed = nil
	}
	return kept, errors.Join(err, removed)
}

// take removes a block from the index if it is in a segment.
func (w *writer) take(id block.ID, segment uint32) (cachedAt, bool) {
	c := w.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.index[id]
	if !ok || at.segment != segment {
		return at, false
	}
	delete(c.index, id)
	return at, true
}

// again writes a block of the oldest segment to the last one. An unreadable block is not written again.
func (w *writer) again(id block.ID, from cachedAt) error {
	c := w.cache
	if w.buffer == nil {
		w.buffer = make([]byte, block.MaxSize)
	}
	data, err := c.read(id, from, w.buffer)
	if err != nil {
		return nil
	}
	at, err := w.appendHere(&segfile.Record{ID: id, Length: from.length, Sum: from.crc}, data)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.index[id] = at
	return nil
}

// failed abandons the last segment, and the disk for a time. On a full disk it frees space.
func (w *writer) failed(err error) {
	w.leave()
	w.cache.turnOff(err)
	if errors.Is(err, unix.ENOSPC) && len(w.cache.segments) > 0 {
		if _, err := w.evict(0); err != nil {
			w.cache.config.Log.Warn("the block cache cannot give space back", "dir", w.cache.dir, "error", err)
		}
	}
}

// leave ends the last segment: further blocks go to a new one. It removes a segment without blocks.
func (w *writer) leave() {
	if w.active == nil {
		return
	}
	_ = w.active.Close() // a reader notices lost data
	w.active = nil
	c := w.cache
	last := len(c.segments) - 1
	if c.segments[last].size > 0 {
		return
	}
	_ = os.Remove(filepath.Join(c.dir, segfile.Name(c.segments[last].number)))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.segments = c.segments[:last]
}
