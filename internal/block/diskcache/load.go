package diskcache

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/segfile"
)

// numbers returns the numbers of all segments of a cache, ascending.
func (c *Cache) numbers() ([]uint32, error) {
	names, err := os.ReadDir(c.dir)
	if err != nil {
		return nil, err
	}
	var numbers []uint32
	for _, name := range names {
		if n, ok := segfile.Number(name.Name()); ok {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// load indexes the segments of an earlier process, the newest first, and removes the excess.
func (w *writer) load() error {
	numbers, err := w.cache.numbers()
	if err != nil {
		return err
	}
	if len(numbers) > 0 {
		w.next = numbers[len(numbers)-1] + 1
	}
	for _, n := range slices.Backward(numbers) {
		select {
		case <-w.cache.stop:
			return block.ErrClosed
		default:
		}
		if err := w.loadSegment(n); err != nil {
			path := filepath.Join(w.cache.dir, segfile.Name(n))
			w.cache.config.Log.Warn("a segment of the block cache cannot be read: removed", "file", path, "error", err)
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	return w.shrink(w.cache.config.MaxBytes-2*w.cache.roll, 0)
}

// loadSegment indexes the records of a segment, up to the first incomplete one. Gets verify their bytes.
func (w *writer) loadSegment(number uint32) (err error) {
	c := w.cache
	file, err := os.Open(filepath.Join(c.dir, segfile.Name(number)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	s := segment{number: number, size: info.Size()}
	var header [segfile.HeaderSize]byte
	for at := int64(0); at+segfile.HeaderSize < min(s.size, maxSegment+block.MaxSize); {
		if _, err := file.ReadAt(header[:], at); err != nil {
			return err
		}
		r, ok := segfile.ParseHeader(&header)
		next := at + segfile.HeaderSize + int64(r.Length)
		if !ok || next > s.size {
			break
		}
		s.ids = append(s.ids, r.ID)
		c.remember(&r, cachedAt{segment: number, offset: uint32(at), length: r.Length, crc: r.Sum})
		at = next
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.segments = slices.Insert(c.segments, 0, s)
	return nil
}

// remember indexes a record, unless there is a newer one.
func (c *Cache) remember(r *segfile.Record, at cachedAt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if was, ok := c.index[r.ID]; !ok || was.segment == at.segment { // segments are read backwards, records forwards
		c.index[r.ID] = at
	}
}
