package segfile

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

// Name returns the file name of a segment.
func Name(segment uint32) string { return fmt.Sprintf("%08x.seg", segment) }

// Number is the inverse of Name. It returns false for other files.
func Number(name string) (uint32, bool) {
	digits, ok := strings.CutSuffix(name, ".seg")
	n, err := strconv.ParseUint(digits, 16, 32)
	if !ok || err != nil || Name(uint32(n)) != name {
		return 0, false
	}
	return uint32(n), true
}

// Size returns the size of a segment in bytes.
func Size(dir string, segment uint32) (uint64, error) {
	info, err := os.Stat(filepath.Join(dir, Name(segment)))
	if err != nil {
		return 0, err
	}
	return uint64(info.Size()), nil
}

// Files reads segments and keeps those that were read last open, up to a maximum: a store has thousands of
// segments, and a process has a limited number of descriptors. Its methods may be called concurrently.
type Files struct {
	dir string

	mu   sync.Mutex
	max  int                  // GUARDED_BY mu
	open map[uint32]*openFile // GUARDED_BY mu
	lru  list.List            // GUARDED_BY mu; of *openFile, the last used in front
}

// NewFiles reads the segments in dir and keeps at most max of them open.
func NewFiles(dir string, max int) *Files {
	return &Files{dir: dir, max: max, open: make(map[uint32]*openFile)}
}

// openFile is one open segment. It is closed when it is neither in Files.open nor used.
type openFile struct {
	*os.File
	segment uint32
	users   int           // GUARDED_BY Files.mu; being in Files.open counts as one
	element *list.Element // GUARDED_BY Files.mu
}

// Read fills into with the bytes at a place. It returns os.ErrNotExist if the segment is missing, and
// io.ErrUnexpectedEOF if the segment is too short.
func (f *Files) Read(at Place, into []byte) error {
	file, err := f.acquire(at.Segment)
	if err != nil {
		return err
	}
	defer f.release(file)
	if _, err := file.ReadAt(into, int64(at.Offset)); errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	} else if err != nil {
		return err
	}
	return nil
}

func (f *Files) acquire(segment uint32) (*openFile, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if file := f.open[segment]; file != nil {
		f.lru.MoveToFront(file.element)
		file.users++
		return file, nil
	}
	opened, err := os.Open(filepath.Join(f.dir, Name(segment)))
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

func (f *Files) release(file *openFile) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop(file)
}

// Forget closes a segment that was removed, once all reads of it have ended. Only then its space is free.
func (f *Files) Forget(segment uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if file := f.open[segment]; file != nil {
		f.evict(file)
	}
}

// evict takes file out of the cache. The caller holds mu.
func (f *Files) evict(file *openFile) {
	delete(f.open, file.segment)
	f.lru.Remove(file.element)
	f.drop(file)
}

// drop ends one use of file. The caller holds mu. It ignores the error of Close: the file was only read, so
// the error says nothing about its data.
func (f *Files) drop(file *openFile) {
	if file.users--; file.users == 0 {
		_ = file.Close()
	}
}

// Close closes the segments that are not being read. Each other segment is closed at the end of its last
// read, also a segment that a concurrent Read opens only now.
func (f *Files) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.max = 0
	for f.lru.Len() > 0 {
		f.evict(f.lru.Back().Value.(*openFile))
	}
}
