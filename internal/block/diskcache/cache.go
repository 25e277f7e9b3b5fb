package diskcache

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/segfile"
)

// Config has the place and size of the cache, and the cluster of its blocks.
type Config struct {
	// Dir is a directory; the cache has its own below it. One process at a time uses it.
	Dir string
	// MaxBytes bounds the size of all files.
	MaxBytes int64
	// Cluster is the identity of the cluster of the blocks: ids are unique in a cluster only. Blocks of
	// another cluster in Dir are removed.
	Cluster string
	Log     *slog.Logger // nil: no log
}

// MinBytes is the smallest Config.MaxBytes.
const MinBytes = 4 * minSegment

// Bounds of the size of a segment of a cache, which is a sixteenth of the cache.
const (
	minSegment = 4 << 20
	maxSegment = 64 << 20
)

// grain bounds the number of blocks, and so the memory of the index: each block counts for at least this
// number of bytes.
const grain = 4 << 10

// offTime is the time for which a cache is off after a failure of its disk.
const offTime = time.Minute

// Validate returns an error with the wrong field and the remedy.
func (c *Config) Validate() error {
	switch {
	case c.Dir == "":
		return errors.New("block cache: no directory: name one")
	case c.MaxBytes < MinBytes:
		return fmt.Errorf("block cache: %d bytes: give at least %d", c.MaxBytes, MinBytes)
	}
	return nil
}

// Cache keeps blocks on a disk. Over puts it in front of a Store. Its methods may be called concurrently.
type Cache struct {
	config Config
	dir    string
	roll   int64 // size at which a segment is full
	files  *segfile.Files
	lock   *os.File
	queue  chan *waitingBlock
	stop   chan struct{} // closed by Close
	done   chan struct{} // closed when the writer has ended
	writer writer        // used only by the goroutine that closes done

	mu       sync.Mutex
	index    map[block.ID]cachedAt      // GUARDED_BY mu
	segments []segment                  // GUARDED_BY mu; changed by the writer only; the oldest first
	waiting  map[block.ID]*waitingBlock // GUARDED_BY mu; on the way to the disk
	pause    time.Duration              // GUARDED_BY mu; time off after a failure
	off      time.Time                  // GUARDED_BY mu; it is off until then; zero: it is on
	stats    Stats                      // GUARDED_BY mu
}

// Stats counts the work of a cache since it was opened.
type Stats struct {
	Hits, Misses uint64
	Written      uint64 // blocks, with those that were written again
	Dropped      uint64 // blocks not stored because the queue was full
	Bad          uint64 // copies that differed from the written block
	Bytes        int64  // of files, now
	Blocks       int    // now
}

// cachedAt is the place of a block.
type cachedAt struct {
	segment, offset, length, crc uint32
	used                         bool // since it was written
}

// segment is one file.
type segment struct {
	number uint32
	size   int64
	ids    []block.ID // of its records
}

// waitingBlock is a block on its way to the disk.
type waitingBlock struct{ block.Block }

// queueLength is the maximum number of blocks that wait for the disk.
const queueLength = 16

// Names below Config.Dir, of the directory with the segments and of the file in it with the cluster.
const (
	blocksDir   = "globalfs-blocks"
	clusterName = "cluster"
)

// Open opens or makes a cache. The caller closes it.
func Open(config Config) (*Cache, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	dir := filepath.Join(config.Dir, blocksDir) // other files in Dir are not touched
	c := &Cache{
		config: config, dir: dir,
		roll:    min(max(config.MaxBytes/16, minSegment), maxSegment),
		files:   segfile.NewFiles(dir, 64),
		queue:   make(chan *waitingBlock, queueLength),
		stop:    make(chan struct{}),
		done:    make(chan struct{}),
		index:   map[block.ID]cachedAt{},
		waiting: map[block.ID]*waitingBlock{},
		pause:   offTime,
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("block cache: %w", err)
	}
	if err := c.claim(); err != nil {
		return nil, err
	}
	c.writer.cache = c
	go c.writer.run()
	return c, nil
}

// claim locks the directory, and empties it if it belongs to another cluster.
func (c *Cache) claim() error {
	lock, err := os.OpenFile(filepath.Join(c.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("block cache: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return errors.Join(fmt.Errorf("block cache %s: %w: give each its own directory", c.config.Dir, ErrInUse), lock.Close())
	}
	if err := c.bind(); err != nil {
		return errors.Join(fmt.Errorf("block cache: %w", err), lock.Close())
	}
	c.lock = lock
	return nil
}

// bind makes the directory the cache of this cluster, and removes the blocks of another one.
func (c *Cache) bind() error {
	path := filepath.Join(c.dir, clusterName)
	was, err := os.ReadFile(path)
	if err == nil && string(was) == c.config.Cluster {
		return nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	numbers, err := c.numbers()
	if err != nil {
		return err
	}
	for _, n := range numbers {
		if err := os.Remove(filepath.Join(c.dir, segfile.Name(n))); err != nil {
			return err
		}
	}
	return os.WriteFile(path, []byte(c.config.Cluster), 0o600)
}

// Close writes the blocks that wait, unless the segments have not been read yet, and ends the cache. A Store
// over the cache continues without it.
func (c *Cache) Close() error {
	close(c.stop)
	<-c.done
	c.files.Close()
	return c.lock.Close()
}

// Stats returns the counts of the cache.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	for i := range c.segments {
		s.Bytes += c.segments[i].size
	}
	s.Blocks = len(c.index)
	return s
}

// cost returns the size for which all segments count, in bytes: their own, or more if they have many small
// blocks. The caller holds mu.
func (c *Cache) cost() (n int64) {
	for i := range c.segments {
		n += c.segments[i].cost()
	}
	return n
}

func (s *segment) cost() int64 { return max(s.size, int64(len(s.ids))*grain) }

// isOff reports whether the cache is off. The caller holds mu.
func (c *Cache) isOff() bool {
	if c.off.IsZero() {
		return false
	}
	if time.Now().Before(c.off) {
		return true
	}
	c.off = time.Time{}
	c.config.Log.Info("the block cache on disk is on again", "dir", c.dir)
	return false
}

// turnOff ends the use of the disk for a time.
func (c *Cache) turnOff(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isOff() {
		return
	}
	c.off = time.Now().Add(c.pause)
	c.config.Log.Warn("the block cache on disk is off for a while: blocks come from the servers; check its disk", "dir", c.dir, "for", c.pause, "error", err)
}
