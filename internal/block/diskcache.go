package block

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// DiskCacheConfig is how much of a disk remembers blocks.
type DiskCacheConfig struct {
	// Dir is a directory; the cache has its own below it. One process at a time uses it.
	Dir string
	// MaxBytes bounds the size of all files.
	MaxBytes int64
	// Cluster is the identity of the cluster whose blocks these are: ids are unique in a cluster only. What Dir holds
	// of another one is removed.
	Cluster string
	Log     *slog.Logger // nil: no log
}

// minDiskCache is the smallest DiskCacheConfig.MaxBytes.
const minDiskCache = 4 * minCacheSegment

// Bounds of the size of a segment of a cache, which is a sixteenth of the cache.
const (
	minCacheSegment = 4 << 20
	maxCacheSegment = 64 << 20
)

// cacheGrain bounds the number of blocks, and so the memory of the index: a block counts as this many bytes at least.
const cacheGrain = 4 << 10

// cachePause is how long a cache is off after its disk has failed.
const cachePause = time.Minute

// Validate says which field cannot be used, and what to do.
func (c *DiskCacheConfig) Validate() error {
	switch {
	case c.Dir == "":
		return errors.New("block cache: no directory: name one")
	case c.MaxBytes < minDiskCache:
		return fmt.Errorf("block cache: %d bytes: give at least %d", c.MaxBytes, minDiskCache)
	}
	return nil
}

// DiskCache remembers blocks on the disk of a client, beyond its end. Over puts it in front of a Store.
//
// The blocks are in segments, in the format of Segments, without an index and never synced: when it is opened, the
// headers of all records are read, and each get verifies what it reads, so what a crash has torn is got again. The index in
// memory takes some 80 bytes a block. Segments rather than a file a block: two writes a block instead of making, writing and removing a
// file, and eviction removes a file in 64 MiB. Segments rather than the engine of servers: that looks for each block before a put, keeps its
// index in LevelDB, and cannot forget.
//
//	K1  What a cache gives has the checksum that was made when it came from the store.
//	K2  The files have at most MaxBytes, while segments are rewritten too.
//	K3  The oldest segment goes first. What was used since it was written is written again, as far as that is at most
//	    half of a segment: approximately, what was used last stays.
//	K4  No failure of the disk fails a get or put: the cache turns itself off for a minute, and says so in the log.
//	K5  A get waits for reading the disk only. Blocks are written in the background; those for which the queue has no room
//	    are not remembered.
type DiskCache struct {
	config DiskCacheConfig
	dir    string
	roll   int64 // size at which a segment is full
	files  files
	lock   *os.File
	queue  chan *waitingBlock
	stop   chan struct{} // closed by Close
	done   chan struct{} // closed when the writer has ended
	writer cacheWriter   // of the goroutine that done belongs to

	mu       sync.Mutex
	index    map[ID]cachedAt      // GUARDED_BY mu
	segments []cacheSegment       // GUARDED_BY mu; changed by the writer only; the oldest first
	waiting  map[ID]*waitingBlock // GUARDED_BY mu; on the way to the disk
	pause    time.Duration        // GUARDED_BY mu; how long it is off after a failure
	off      time.Time            // GUARDED_BY mu; it is off until then; zero: it is on
	stats    DiskCacheStats       // GUARDED_BY mu
}

// DiskCacheStats counts what a cache did since it was opened.
type DiskCacheStats struct {
	Hits, Misses uint64
	Written      uint64 // blocks, those that were written again included
	Dropped      uint64 // blocks not remembered for want of room in the queue
	Bad          uint64 // copies that were not what had been written
	Bytes        int64  // of files, now
	Blocks       int    // now
}

// cachedAt says where a block is.
type cachedAt struct {
	segment, offset, length, crc uint32
	used                         bool // since it was written
}

// cacheSegment is one file.
type cacheSegment struct {
	number uint32
	size   int64
	ids    []ID // of its records
}

// waitingBlock is a block on its way to the disk.
type waitingBlock struct{ Block }

// cacheQueue is how many blocks wait for the disk at most.
const cacheQueue = 16

// OpenDiskCache opens or makes a cache. The caller closes it.
func OpenDiskCache(config DiskCacheConfig) (*DiskCache, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	dir := filepath.Join(config.Dir, "globalfs-blocks") // whatever else is in Dir is not ours
	c := &DiskCache{
		config: config, dir: dir,
		roll:    min(max(config.MaxBytes/16, minCacheSegment), maxCacheSegment),
		files:   files{dir: dir, max: 64, open: map[uint32]*openFile{}},
		queue:   make(chan *waitingBlock, cacheQueue),
		stop:    make(chan struct{}),
		done:    make(chan struct{}),
		index:   map[ID]cachedAt{},
		waiting: map[ID]*waitingBlock{},
		pause:   cachePause,
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

// claim locks the directory, and empties it if it is another cluster's.
func (c *DiskCache) claim() error {
	lock, err := os.OpenFile(filepath.Join(c.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("block cache: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return errors.Join(fmt.Errorf("block cache %s is in use by another globalfs: give each its own directory", c.config.Dir), lock.Close())
	}
	if err := c.bind(); err != nil {
		return errors.Join(fmt.Errorf("block cache: %w", err), lock.Close())
	}
	c.lock = lock
	return nil
}

// bind makes what is there the blocks of this cluster.
func (c *DiskCache) bind() error {
	path := filepath.Join(c.dir, "cluster")
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
		if err := os.Remove(filepath.Join(c.dir, segmentName(n))); err != nil {
			return err
		}
	}
	return os.WriteFile(path, []byte(c.config.Cluster), 0o600)
}

// Close writes what waits, unless what is there has not been read yet, and ends the cache: what it is in front of works without it.
func (c *DiskCache) Close() error {
	close(c.stop)
	<-c.done
	c.files.close()
	return c.lock.Close()
}

// Stats says what the cache did.
func (c *DiskCache) Stats() DiskCacheStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	for i := range c.segments {
		s.Bytes += c.segments[i].size
	}
	s.Blocks = len(c.index)
	return s
}

// cost is what all segments count in bytes: their sizes, or more if they have many small blocks. The caller holds mu.
func (c *DiskCache) cost() (n int64) {
	for i := range c.segments {
		n += c.segments[i].cost()
	}
	return n
}

func (s *cacheSegment) cost() int64 { return max(s.size, int64(len(s.ids))*cacheGrain) }

// isOff reports whether the cache is off. The caller holds mu.
func (c *DiskCache) isOff() bool {
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

// turnOff ends the use of the disk for a while.
func (c *DiskCache) turnOff(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isOff() {
		return
	}
	c.off = time.Now().Add(c.pause)
	c.config.Log.Warn("the block cache on disk is off for a while: blocks come from the servers; check its disk", "dir", c.dir, "for", c.pause, "error", err)
}
