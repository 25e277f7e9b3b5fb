package block

import (
	"container/list"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// segmentName is the file name of a segment.
func segmentName(segment uint32) string { return fmt.Sprintf("%08x.seg", segment) }

// parseSegment is the inverse of segmentName.
func parseSegment(name string) (uint32, bool) {
	digits, ok := strings.CutSuffix(name, ".seg")
	n, err := strconv.ParseUint(digits, 16, 32)
	if !ok || err != nil || segmentName(uint32(n)) != name {
		return 0, false
	}
	return uint32(n), true
}

// sizeOf gives the size of a segment in bytes.
func sizeOf(dir string, segment uint32) (uint64, error) {
	info, err := os.Stat(filepath.Join(dir, segmentName(segment)))
	if err != nil {
		return 0, err
	}
	return uint64(info.Size()), nil
}

// files keeps the segments that were read last open, as many as max: a store has
// thousands of segments, and a process a limited number of descriptors.
type files struct {
	dir string

	mu   sync.Mutex
	max  int                  // GUARDED_BY mu
	open map[uint32]*openFile // GUARDED_BY mu
	lru  list.List            // GUARDED_BY mu; of *openFile, the last used in front
}

// openFile is one open segment. It is closed when it is neither in files.open nor used.
type openFile struct {
	*os.File
	segment uint32
	users   int           // GUARDED_BY files.mu; being in files.open counts as one
	element *list.Element // GUARDED_BY files.mu
}

// read fills into from a segment; os.ErrNotExist if it is missing, io.ErrUnexpectedEOF if
// it is too short.
func (f *files) read(at place, into []byte) error {
	file, err := f.acquire(at.segment)
	if err != nil {
		return err
	}
	defer f.release(file)
	if _, err := file.ReadAt(into, int64(at.offset)); errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	} else if err != nil {
		return err
	}
	return nil
}

func (f *files) acquire(segment uint32) (*openFile, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if file := f.open[segment]; file != nil {
		f.lru.MoveToFront(file.element)
		file.users++
		return file, nil
	}
	opened, err := os.Open(filepath.Join(f.dir, segmentName(segment)))
	if err != nil {
		return nil, err
	}
	file := &openFile{File: opened, segment: segment, users: 2}
	file.element = f.lru.PushFront(file)
	f.open[segment] = file
	for len(f.open) > f.max {
		f.evict(f.lru.Back().Value.(*openFile))
	}
	return file, nil
}

func (f *files) release(file *openFile) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop(file)
}

// forget closes a segment that goes, once nobody reads it: only then its space is free.
func (f *files) forget(segment uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if file := f.open[segment]; file != nil {
		f.evict(file)
	}
}

// evict takes file out of the cache. The caller holds mu.
func (f *files) evict(file *openFile) {
	delete(f.open, file.segment)
	f.lru.Remove(file.element)
	f.drop(file)
}

// drop ends one use of file. The caller holds mu. An error of closing a file that was
// only read says nothing about its data.
func (f *files) drop(file *openFile) {
	if file.users--; file.users == 0 {
		_ = file.Close()
	}
}

// close closes what is not being read; the rest is closed by its readers, and so is what a
// Get that overlaps with close still opens.
func (f *files) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.max = 0
	for f.lru.Len() > 0 {
		f.evict(f.lru.Back().Value.(*openFile))
	}
}
