package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/segfile"
	"github.com/globalfs/globalfs/internal/durable"
)

// Config of the block store of one server.
type Config struct {
	Dir string // made if it does not exist; one process at a time uses it
	// NoSync answers a put before the block is on stable storage: it survives the
	// death of the process, but not a loss of power.
	NoSync bool
	// SegmentBytes is the size at which a segment is full, in bytes.
	SegmentBytes uint64
	// ReserveBytes are left free on the disk: puts beyond them fail with ErrNoSpace, so
	// that there is room for the index, for deleting and for compaction.
	ReserveBytes uint64
	// OpenFiles bounds the descriptors that are kept open for reading.
	OpenFiles int
	// CompactShare is the dead share from which on a segment is compacted, above 0 and up to 1. When the disk
	// is nearly full, a smaller share suffices.
	CompactShare float64
	// CompactRate bounds the data that compaction moves, in bytes per second, unless the disk is nearly full.
	CompactRate int
	Log         *slog.Logger // nil: no log
}

// DefaultConfig returns a configuration for a server's own disk.
func DefaultConfig(dir string) Config {
	return Config{
		Dir: dir, SegmentBytes: 64 << 20, ReserveBytes: 64 << 20, OpenFiles: 64,
		CompactShare: 0.5, CompactRate: 32 << 20,
	}
}

// Validate returns an error with the wrong field and the remedy.
func (c *Config) Validate() error {
	switch {
	case c.Dir == "":
		return errors.New("block store: Dir is empty: name a directory")
	case c.SegmentBytes < block.MaxSize || c.SegmentBytes > 1<<36:
		return fmt.Errorf("block store: SegmentBytes is %d: use %d to %d", c.SegmentBytes, block.MaxSize, 1<<36)
	case c.OpenFiles < 1:
		return fmt.Errorf("block store: OpenFiles is %d: use 1 or more", c.OpenFiles)
	case !(c.CompactShare > 0 && c.CompactShare <= 1):
		return fmt.Errorf("block store: CompactShare is %v: use a share above 0 and up to 1", c.CompactShare)
	case c.CompactRate < moveBytes:
		return fmt.Errorf("block store: CompactRate is %d: use %d bytes per second or more", c.CompactRate, moveBytes)
	}
	return nil
}

// maxInline is the largest block in bytes that is stored in LevelDB. LevelDB writes each value again with
// each compaction, and a damaged index loses it. For larger blocks, a record in a segment costs less
// processor time and half the bytes written (BenchmarkPut).
const maxInline = 256

// rangePage is the number of ids that Range reads from the index at a time.
const rangePage = 1024

// Store is the block.Store of one server on its disk. The package comment has the format and the guarantees.
// It does not interrupt a disk access when a context ends. The order of its locks: compacting, committing,
// waiting and reading.
type Store struct {
	config  Config
	files   *segfile.Files
	limiter *rate.Limiter
	due     chan struct{} // holds one token when a segment may have become due for compaction
	low     atomic.Bool   // the disk is nearly full
	closing atomic.Bool   // Close was called

	written, compactions, movedBlocks, movedBytes, badRecords, rebuilds atomic.Uint64

	waiting sync.Mutex
	queue   []*update // GUARDED_BY waiting

	// reading protects the readers of the index from its replacement. A change needs both locks.
	reading    sync.RWMutex
	index      *index // GUARDED_BY reading or committing; nil: there is none, by indexError
	indexError error  // GUARDED_BY reading or committing

	// committing is held by the goroutine that writes a batch.
	committing  sync.Mutex
	appender    appender // GUARDED_BY committing
	indexFailed error    // GUARDED_BY committing; of a failed write: the index must be opened again before the next
	unsynced    bool     // GUARDED_BY committing; with NoSync: the index has blocks or deletes that are not durable
	closed      bool     // GUARDED_BY committing

	compacting chan struct{}         // a lock: it holds one token, which the compacting call takes
	stuck      map[uint32]badRecords // GUARDED_BY compacting; segments that are not compacted again
}

// Open opens or makes the store of a server and repairs the effects of a crash.
func Open(config Config) (*Store, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(config.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("block store: %w", err)
	}
	if err := durable.SyncDir(filepath.Dir(config.Dir)); err != nil {
		return nil, fmt.Errorf("block store: %w", err)
	}
	s := &Store{
		config:     config,
		files:      segfile.NewFiles(config.Dir, config.OpenFiles),
		limiter:    rate.NewLimiter(rate.Limit(config.CompactRate), 2*moveBytes),
		due:        make(chan struct{}, 1),
		compacting: make(chan struct{}, 1),
		stuck:      make(map[uint32]badRecords),
	}
	s.committing.Lock()
	defer s.committing.Unlock()
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("block store %s: %w", config.Dir, err)
	}
	return s, nil
}

// Close makes all blocks durable and ends the store; later calls return ErrClosed.
func (s *Store) Close() error {
	s.closing.Store(true)
	s.committing.Lock()
	defer s.committing.Unlock()
	if s.closed {
		return block.ErrClosed
	}
	s.closed = true
	s.wake() // Run ends
	err := s.appender.close()
	s.files.Close()
	return errors.Join(err, s.withdraw(block.ErrClosed))
}

// Put implements block.Store.
func (s *Store) Put(ctx context.Context, b block.Block) error {
	if err := b.CheckSize(); err != nil {
		return err
	}
	u := &update{id: b.ID, data: b.Data, crc: b.Sum}
	for {
		if err := s.submit(ctx, u); err != nil || u.found == nil {
			return err
		}
		// Read without the lock, so that no other update waits for the read.
		if good, err := s.verify(u, u.found); good || err != nil {
			return err
		}
		u = &update{id: u.id, data: u.data, crc: u.crc, bad: u.found}
	}
}

// PutAll implements block.Batcher.
func (s *Store) PutAll(ctx context.Context, blocks []block.Block) error {
	updates := make([]*update, len(blocks))
	for i := range blocks {
		b := &blocks[i]
		if err := b.CheckSize(); err != nil {
			return err
		}
		updates[i] = &update{id: b.ID, data: b.Data, crc: b.Sum}
	}
	if err := s.submit(ctx, updates...); err != nil {
		return err
	}
	for i, u := range updates {
		if u.found == nil {
			continue
		}
		if err := s.Put(ctx, blocks[i]); err != nil { // reads the existing copy
			return err
		}
	}
	return nil
}

// verify reports whether the copy that e names is good; ErrConflict if it has other bytes.
func (s *Store) verify(u *update, e *entry) (bool, error) {
	_, err := s.read(u.id, e, nil)
	switch {
	case errors.Is(err, block.ErrCorrupt):
		return false, nil
	case err == nil && e.crc != u.crc:
		return false, fmt.Errorf("put block %v: %w", u.id, block.ErrConflict)
	}
	return err == nil, err
}

// Delete implements block.Store. It removes all of ids or none.
func (s *Store) Delete(ctx context.Context, ids []block.ID) error {
	return s.submit(ctx, &update{remove: ids})
}

// Get implements block.Store.
func (s *Store) Get(ctx context.Context, id block.ID, into []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e, err := s.lookup(id)
	if err != nil {
		return nil, err
	}
	return s.follow(id, e, into)
}

// follow returns the verified bytes of a block whose entry was e. If the segment is gone, or the bytes are
// bad, it reads the entry again: the block may have been moved, put again or deleted meanwhile.
func (s *Store) follow(id block.ID, e entry, into []byte) ([]byte, error) {
	for {
		data, err := s.read(id, &e, into)
		if !errors.Is(err, block.ErrCorrupt) {
			return data, err
		}
		again, lost := s.lookup(id)
		if lost != nil {
			return nil, lost
		}
		if again.same(&e) {
			return nil, err
		}
		e = again
	}
}

// read returns the verified bytes of e in into.
func (s *Store) read(id block.ID, e *entry, into []byte) ([]byte, error) {
	if e.inline != nil {
		if block.Sum(id, e.inline) != e.crc {
			return nil, &block.CorruptError{ID: id, File: "index"}
		}
		return append(into[:0], e.inline...), nil
	}
	data := slices.Grow(into[:0], int(e.length))[:e.length]
	err := s.files.Read(segfile.Place{Segment: e.at.Segment, Offset: e.at.Offset + segfile.HeaderSize}, data)
	switch {
	case err == nil && block.Sum(id, data) == e.crc:
		return data, nil
	case err == nil || isBadCopy(err):
		return nil, &block.CorruptError{ID: id, File: segfile.Name(e.at.Segment), Offset: int64(e.at.Offset), Cause: err}
	}
	return nil, fmt.Errorf("read block %v: %w", id, err)
}

// isBadCopy reports whether a read failed because of this copy: its bytes are bad or cannot be read. Other
// errors, such as too many open files, are of the process.
func isBadCopy(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, unix.EIO)
}

// Range implements block.Store.
func (s *Store) Range(ctx context.Context, from, to block.ID) iter.Seq2[block.ID, error] {
	return block.IDs(from, to, func(from block.ID) ([]block.ID, bool, error) {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		var ids []block.ID
		err := s.withIndex(func(x *index) (err error) {
			ids, err = x.scan(from, to, rangePage)
			return err
		})
		return ids, len(ids) == rangePage, err
	})
}

// Sizes implements region.Disk.
func (s *Store) Sizes(ctx context.Context, ids []block.ID) ([]uint32, error) {
	sizes := make([]uint32, len(ids))
	for i, id := range ids {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		e, err := s.lookup(id)
		switch {
		case errors.Is(err, block.ErrNotFound):
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

// Usage returns the size of the disk of the store and the free space for blocks, in bytes.
func (s *Store) Usage() (total, free uint64, err error) {
	total, available, err := s.space()
	return total, s.free(available), err
}

// Stats returns the content and the work of the store.
func (s *Store) Stats() (Stats, error) {
	stats := Stats{
		WrittenBytes: s.written.Load(),
		Compactions:  s.compactions.Load(),
		MovedBlocks:  s.movedBlocks.Load(),
		MovedBytes:   s.movedBytes.Load(),
		BadRecords:   s.badRecords.Load(),
		Rebuilds:     s.rebuilds.Load(),
	}
	err := s.withIndex(func(x *index) error {
		x.ledger.count(&stats)
		return nil
	})
	return stats, err
}
