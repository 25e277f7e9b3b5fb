package block

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// Config is how one server stores its blocks.
type Config struct {
	Dir string // made if it does not exist; one process at a time uses it
	// NoSync answers a put before the block is on stable storage: it survives the
	// death of the process, but not a loss of power.
	NoSync bool
	// SegmentBytes is the size at which a segment is full, in bytes.
	SegmentBytes uint64
	// ReserveBytes are left free on the disk: puts beyond them fail with ErrNoSpace, so
	// that there is room for the index and for deleting.
	ReserveBytes uint64
	// OpenFiles bounds the descriptors that are kept open for reading.
	OpenFiles int
}

// DefaultConfig is for a server's own disk.
func DefaultConfig(dir string) Config {
	return Config{Dir: dir, SegmentBytes: 64 << 20, ReserveBytes: 64 << 20, OpenFiles: 64}
}

// Validate says which field cannot be used, and what to do.
func (c *Config) Validate() error {
	switch {
	case c.Dir == "":
		return errors.New("block store: Dir is empty: name a directory")
	case c.SegmentBytes < MaxSize || c.SegmentBytes > 1<<36:
		return fmt.Errorf("block store: SegmentBytes is %d: use %d to %d", c.SegmentBytes, MaxSize, 1<<36)
	case c.OpenFiles < 1:
		return fmt.Errorf("block store: OpenFiles is %d: use 1 or more", c.OpenFiles)
	}
	return nil
}

// maxInline is the largest block in bytes that is kept in LevelDB, which
// writes each value again with each compaction.
const maxInline = 4 << 10

// rangePage is how many ids Range takes from the index at a time.
const rangePage = 1024

// Segments is the Store of one server on its disk. See the package comment for the
// format and for what it guarantees. It does not interrupt a disk access when a context
// ends.
type Segments struct {
	config Config
	index  *index
	files  files

	waiting sync.Mutex
	queue   []*update // GUARDED_BY waiting

	// committing is held by whoever writes; it comes before waiting.
	committing sync.Mutex
	appender   appender // GUARDED_BY committing
	closed     bool     // GUARDED_BY committing
}

// OpenSegments opens or makes the store of a server and repairs what a crash left.
func OpenSegments(config Config) (*Segments, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(config.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("block store: %w", err)
	}
	if err := syncDir(filepath.Dir(config.Dir)); err != nil {
		return nil, fmt.Errorf("block store: %w", err)
	}
	x, err := openIndex(filepath.Join(config.Dir, "index"))
	if err != nil {
		return nil, err
	}
	s := &Segments{
		config:   config,
		index:    x,
		files:    files{dir: config.Dir, max: config.OpenFiles, open: make(map[uint32]*openFile)},
		appender: appender{dir: config.Dir, roll: config.SegmentBytes},
	}
	if err := s.recover(); err != nil {
		return nil, errors.Join(fmt.Errorf("block store %s: %w", config.Dir, err), s.Close())
	}
	return s, nil
}

// Close makes all blocks durable and ends the store; calls after it give ErrClosed.
func (s *Segments) Close() error {
	s.committing.Lock()
	defer s.committing.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.closed = true
	err := s.appender.close()
	s.files.close()
	return errors.Join(err, s.index.close())
}

// Put implements Store.
func (s *Segments) Put(ctx context.Context, id ID, data []byte) error {
	if err := checkSize(id, data); err != nil {
		return err
	}
	return s.submit(ctx, &update{id: id, data: data, crc: checksum(id, data)})
}

// Delete implements Store. It removes all of ids or none.
func (s *Segments) Delete(ctx context.Context, ids []ID) error {
	return s.submit(ctx, &update{remove: ids})
}

// Get implements Store.
func (s *Segments) Get(ctx context.Context, id ID, into []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e, err := s.index.get(id)
	if err != nil {
		return nil, err
	}
	return s.read(id, &e, into)
}

// read gives the verified bytes of e in into.
func (s *Segments) read(id ID, e *entry, into []byte) ([]byte, error) {
	if e.inline != nil {
		if checksum(id, e.inline) != e.crc {
			return nil, &CorruptError{ID: id, File: "index"}
		}
		return append(into[:0], e.inline...), nil
	}
	data := slices.Grow(into[:0], int(e.length))[:e.length]
	err := s.files.read(place{segment: e.at.segment, offset: e.at.offset + recordHeader}, data)
	switch {
	case err == nil && checksum(id, data) == e.crc:
		return data, nil
	case err == nil || isBadCopy(err):
		return nil, &CorruptError{ID: id, File: segmentName(e.at.segment), Offset: int64(e.at.offset), Cause: err}
	}
	return nil, fmt.Errorf("read block %v: %w", id, err)
}

// isBadCopy tells errors that concern the place read from those that concern the process.
func isBadCopy(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, unix.EIO)
}

// Range implements Store.
func (s *Segments) Range(ctx context.Context, from, to ID) iter.Seq2[ID, error] {
	return pages(from, to, func(from ID) ([]ID, bool, error) {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		ids, err := s.index.scan(from, to, rangePage)
		return ids, len(ids) == rangePage, err
	})
}

// Sizes implements Disk.
func (s *Segments) Sizes(ctx context.Context, ids []ID) ([]uint32, error) {
	sizes := make([]uint32, len(ids))
	for i, id := range ids {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		e, err := s.index.get(id)
		switch {
		case errors.Is(err, ErrNotFound) || errors.Is(err, ErrCorrupt):
		case err != nil:
			return nil, err
		case e.inline != nil:
			sizes[i] = uint32(len(e.inline))
		default:
			sizes[i] = e.length
		}
	}
	return sizes, nil
}

// Usage gives the size of the disk of the store and what is free for blocks, in bytes.
func (s *Segments) Usage() (total, free uint64, err error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(s.config.Dir, &fs); err != nil {
		return 0, 0, fmt.Errorf("statfs %s: %w", s.config.Dir, err)
	}
	size := uint64(fs.Bsize)
	available := fs.Bavail * size
	return fs.Blocks * size, available - min(available, s.config.ReserveBytes), nil
}
