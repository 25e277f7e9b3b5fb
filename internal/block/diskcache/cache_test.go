package diskcache_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/block/diskcache"
	"github.com/globalfs/globalfs/test/logged"
)

var cacheSeed = flag.Uint64("block.cacheseed", 0, "seed of TestDiskCacheRandomly; 0: a new one")

// smallCache has room for some blocks of a MiB.
const smallCache = 32 << 20

// cacheIn opens a cache that the test closes, unless the test closed it before.
func cacheIn(t testing.TB, dir string, size int64) (c *diskcache.Cache, closeOnce func()) {
	c, err := diskcache.Open(diskcache.Config{Dir: dir, MaxBytes: size, Cluster: "one"})
	require.NoError(t, err)
	closeOnce = sync.OnceFunc(func() { require.NoError(t, c.Close()) })
	t.Cleanup(closeOnce)
	return c, closeOnce
}

// counter is a store that counts its gets.
type counter struct {
	*blocktest.Memory
	gets atomic.Int64
}

// Get implements block.Store.
func (c *counter) Get(ctx context.Context, id block.ID, into []byte) ([]byte, error) {
	c.gets.Add(1)
	return c.Memory.Get(ctx, id, into)
}

func counted() *counter { return &counter{Memory: blocktest.NewMemory(blocktest.Big)} }

// until waits for an effect of goroutines under way.
func until(t testing.TB, what string, done func() bool) {
	for deadline := time.Now().Add(20 * time.Second); !done(); runtime.Gosched() {
		require.True(t, time.Now().Before(deadline), "%s", what)
	}
}

// fillCache puts blocks and waits until the cache has them all.
func fillCache(t testing.TB, c *diskcache.Cache, s block.Store, from, to, size int) {
	for i := from; i < to; i++ {
		before := c.Stats().Written
		id, data := blocktest.Block(i, size)
		require.NoError(t, s.Put(t.Context(), block.New(id, data)))
		until(t, "block is written", func() bool { return c.Stats().Written > before })
	}
}

// cacheFiles returns the segments of the cache in a directory and their total size.
func cacheFiles(t testing.TB, dir string) (paths []string, total int64) {
	paths, err := filepath.Glob(filepath.Join(dir, "globalfs-blocks", "*.seg"))
	require.NoError(t, err)
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil {
			total += info.Size()
		}
	}
	return paths, total
}

func TestDiskCached(t *testing.T) {
	for name, size := range map[string]int64{"small": 16 << 20, "large": 256 << 20} {
		t.Run(name, func(t *testing.T) {
			blocktest.TestStore(t, func(t *testing.T) block.Store {
				c, _ := cacheIn(t, t.TempDir(), size)
				return c.Over(blocktest.NewMemory(blocktest.Big))
			})
		})
	}
}

// TestCachesOverHedgedRegions stacks all stores of a client, as package dev does.
func TestCachesOverHedgedRegions(t *testing.T) {
	blocktest.TestStore(t, func(t *testing.T) block.Store {
		nearest, err := block.NewNearest(blocktest.NewMemoryRegion(t, 5).Client(t), blocktest.NewMemoryRegion(t, 3).Client(t))
		require.NoError(t, err)
		c, _ := cacheIn(t, t.TempDir(), smallCache)
		return block.NewCached(c.Over(nearest), block.NewMemory(1<<20))
	})
}

// TestDiskCacheSurvives: written blocks are there when the cache is opened again.
func TestDiskCacheSurvives(t *testing.T) {
	blocktest.CheckLeaks(t)
	dir, store := t.TempDir(), counted()
	c, closeOnce := cacheIn(t, dir, smallCache)
	fillCache(t, c, c.Over(store), 0, 20, 50000)
	closeOnce()
	c, closeOnce = cacheIn(t, dir, smallCache)
	until(t, "loaded", func() bool { return c.Stats().Blocks == 20 })
	for i := range 20 {
		id, data := blocktest.Block(i, 50000)
		blocktest.RequireBlock(t, c.Over(store), id, data)
	}
	require.Zero(t, store.gets.Load())
	require.EqualValues(t, 20, c.Stats().Hits)

	_, err := diskcache.Open(diskcache.Config{Dir: dir, MaxBytes: smallCache})
	require.ErrorContains(t, err, "in use by another globalfs")
	closeOnce()
	other, err := diskcache.Open(diskcache.Config{Dir: dir, MaxBytes: smallCache, Cluster: "two"})
	require.NoError(t, err)
	paths, _ := cacheFiles(t, dir)
	require.Empty(t, paths, "another cluster has other blocks with the same ids")
	require.NoError(t, other.Close())
}

// TestDiskCacheTorn damages the files at random: gets return right bytes, from the store if necessary.
func TestDiskCacheTorn(t *testing.T) {
	for _, damage := range []func(b []byte, at int) []byte{
		func(b []byte, at int) []byte { b[at] ^= 1; return b },
		func(b []byte, at int) []byte { return b[:at] },
		func(b []byte, at int) []byte { clear(b[at:]); return b },
	} {
		for round := range 8 {
			dir, store := t.TempDir(), counted()
			c, closeOnce := cacheIn(t, dir, smallCache)
			fillCache(t, c, c.Over(store), 0, 30, 20000)
			closeOnce()
			paths, _ := cacheFiles(t, dir)
			require.Len(t, paths, 1)
			content, err := os.ReadFile(paths[0])
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(paths[0], damage(content, rand.IntN(len(content))), 0o600), "round %d", round)
			c, closeOnce = cacheIn(t, dir, smallCache)
			fillCache(t, c, c.Over(store), 30, 31, 20000) // written after the load of all existing blocks
			for i := range 30 {
				id, data := blocktest.Block(i, 20000)
				blocktest.RequireBlock(t, c.Over(store), id, data)
			}
			require.Positive(t, store.gets.Load())
			closeOnce()
		}
	}
}

// TestDiskCacheNewestCopy: a block that was fetched in place of a bad copy counts after a restart.
func TestDiskCacheNewestCopy(t *testing.T) {
	dir, store := t.TempDir(), counted()
	c, closeOnce := cacheIn(t, dir, smallCache)
	fillCache(t, c, c.Over(store), 0, 1, 20000)
	closeOnce()
	paths, _ := cacheFiles(t, dir)
	content, err := os.ReadFile(paths[0])
	require.NoError(t, err)
	content[len(content)-1] ^= 1
	require.NoError(t, os.WriteFile(paths[0], content, 0o600))
	for range 3 {
		c, closeOnce := cacheIn(t, dir, smallCache)
		until(t, "loaded", func() bool { return c.Stats().Blocks == 1 })
		id, data := blocktest.Block(0, 20000)
		blocktest.RequireBlock(t, c.Over(store), id, data)
		closeOnce()
	}
	require.EqualValues(t, 1, store.gets.Load())
}

// TestDiskCacheForgets: the files stay within their bytes, and used blocks stay in the cache.
func TestDiskCacheForgets(t *testing.T) {
	dir, store := t.TempDir(), counted()
	c, _ := cacheIn(t, dir, smallCache)
	s := c.Over(store)
	const hot, size = 4, 200_000
	fillCache(t, c, s, 0, hot, size)
	for i := hot; i < 300; i++ {
		fillCache(t, c, s, i, i+1, size)
		_, total := cacheFiles(t, dir)
		require.LessOrEqual(t, total, int64(smallCache))
		require.LessOrEqual(t, c.Stats().Bytes, int64(smallCache))
		for k := range hot {
			id, data := blocktest.Block(k, size)
			blocktest.RequireBlock(t, s, id, data)
		}
	}
	require.LessOrEqual(t, store.gets.Load(), int64(hot), "hot blocks are got from the cache")
	require.Greater(t, c.Stats().Blocks, smallCache/2/size)
	before := store.gets.Load()
	id, data := blocktest.Block(hot, size)
	blocktest.RequireBlock(t, s, id, data)
	require.Equal(t, before+1, store.gets.Load(), "cold blocks go")
}

// TestDiskCacheSmallBlocks: the memory of the index is bounded too.
func TestDiskCacheSmallBlocks(t *testing.T) {
	c, _ := cacheIn(t, t.TempDir(), 16<<20)
	s := c.Over(blocktest.NewMemory(blocktest.Big))
	for i := range 20000 {
		id := block.ID{byte(i >> 8), byte(i)}
		require.NoError(t, s.Put(t.Context(), block.New(id, id[:2])))
		if i%8 == 0 {
			until(t, "written", func() bool { return c.Stats().Written+c.Stats().Dropped > uint64(i) })
		}
	}
	require.LessOrEqual(t, c.Stats().Blocks, 16<<20/4096)
}

// TestDiskCacheDeletesWhatWaits: a block that is deleted while it waits for the disk does not come back.
func TestDiskCacheDeletesWhatWaits(t *testing.T) {
	c, closeOnce := cacheIn(t, t.TempDir(), 256<<20)
	s := c.Over(blocktest.NewMemory(blocktest.Big))
	var ids []block.ID
	for i := range 12 {
		id, data := blocktest.Block(i, block.MaxSize)
		require.NoError(t, s.Put(t.Context(), block.New(id, data)))
		ids = append(ids, id)
	}
	require.NoError(t, s.Delete(t.Context(), ids))
	closeOnce() // when all has been written
	require.Zero(t, c.Stats().Blocks)
}

// The disk cache shrinks when it is opened with a smaller size.
func TestDiskCacheShrinks(t *testing.T) {
	dir, store := t.TempDir(), counted()
	c, closeOnce := cacheIn(t, dir, 64<<20)
	fillCache(t, c, c.Over(store), 0, 50, block.MaxSize)
	closeOnce()
	c, _ = cacheIn(t, dir, 16<<20)
	until(t, "small", func() bool {
		_, total := cacheFiles(t, dir)
		return total > 0 && total <= 16<<20 && c.Stats().Bytes == total
	})
	id, data := blocktest.Block(49, block.MaxSize)
	blocktest.RequireBlock(t, c.Over(store), id, data)
}

// TestDiskCacheFullDisk: no call fails, the log reports it, the cache frees space, and is on again when there
// is space.
func TestDiskCacheFullDisk(t *testing.T) {
	dir := blocktest.SmallDisk(t, "6m")
	var log logged.Text
	c, err := diskcache.Open(diskcache.Config{Dir: dir, MaxBytes: smallCache, Log: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	c.SetPause(time.Millisecond)
	s := c.Over(blocktest.NewMemory(blocktest.Big))
	var was uint64
	for i := range 40 {
		id, data := blocktest.Block(i, 600_000)
		require.NoError(t, s.Put(t.Context(), block.New(id, data)))
		blocktest.RequireBlock(t, s, id, data)
		was = c.Stats().Written
	}
	until(t, "the log says it", func() bool { return strings.Contains(log.String(), "no space left on device") })
	i := 100
	until(t, "on again", func() bool {
		i++
		id, data := blocktest.Block(i, 600_000)
		require.NoError(t, s.Put(t.Context(), block.New(id, data)))
		return c.Stats().Written > was+3
	})
}

// The cache works without its disk after its directory was removed.
func TestDiskCacheLosesItsDisk(t *testing.T) {
	dir, store := t.TempDir(), counted()
	c, _ := cacheIn(t, dir, smallCache)
	s := c.Over(store)
	fillCache(t, c, s, 0, 10, block.MaxSize)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "globalfs-blocks")))
	for i := range 60 {
		id, data := blocktest.Block(i, block.MaxSize)
		require.NoError(t, s.Put(t.Context(), block.New(id, data)))
		blocktest.RequireBlock(t, s, id, data)
	}
}

// TestDiskCacheRandomly reads, writes and reopens while segments are removed: gets never return other bytes,
// and the files never exceed their limit.
func TestDiskCacheRandomly(t *testing.T) {
	seed := *cacheSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("replay: -block.cacheseed=%d", seed)
	dir, store := t.TempDir(), blocktest.NewMemory(blocktest.Big)
	sizes := []int{100, 5000, 70_000, block.MaxSize}
	for round := range 3 {
		c, closeOnce := cacheIn(t, dir, 16<<20)
		s := c.Over(store)
		var all sync.WaitGroup
		for worker := range 4 {
			all.Go(func() {
				random := rand.New(rand.NewPCG(seed, uint64(10*round+worker)))
				var buffer []byte
				for range 80 {
					i := int(random.ExpFloat64() * 15)
					id, data := blocktest.Block(i, sizes[i%len(sizes)])
					if err := s.Put(t.Context(), block.New(id, data)); err != nil {
						t.Errorf("put: %v", err)
					}
					got, err := s.Get(t.Context(), id, buffer)
					if err != nil || !bytes.Equal(got, data) {
						t.Errorf("block %d: %v", i, err)
					}
					if cap(buffer) == 0 {
						buffer = make([]byte, block.MaxSize)
					}
				}
			})
		}
		all.Wait()
		require.LessOrEqual(t, c.Stats().Bytes, int64(16<<20))
		closeOnce()
		_, total := cacheFiles(t, dir)
		require.LessOrEqual(t, total, int64(16<<20))
	}
}

func TestDiskCacheConfig(t *testing.T) {
	for name, bad := range map[string]diskcache.Config{
		"no directory":    {MaxBytes: smallCache},
		"too small":       {Dir: t.TempDir(), MaxBytes: 1 << 20},
		"not a directory": {Dir: "/dev/null", MaxBytes: smallCache},
	} {
		_, err := diskcache.Open(bad)
		require.Error(t, err, name)
	}
}

// BenchmarkDiskCached reads cached blocks ("hit"), compared with the read of a plain file of the same size
// ("file"). It also reads uncached blocks that are stored meanwhile ("miss"), compared with a store without a
// cache ("store").
func BenchmarkDiskCached(b *testing.B) {
	const blocks = 24
	for _, size := range []int{32 << 10, 1 << 20} {
		store := blocktest.NewMemory(blocktest.Big)
		c, _ := cacheIn(b, b.TempDir(), 256<<20)
		s := c.Over(store)
		fillCache(b, c, s, 0, blocks, size)
		small, _ := cacheIn(b, b.TempDir(), 16<<20)
		file := filepath.Join(b.TempDir(), "file")
		require.NoError(b, os.WriteFile(file, make([]byte, blocks*size), 0o600))
		plain, err := os.Open(file)
		require.NoError(b, err)
		defer plain.Close()
		buffer := make([]byte, 0, size)
		var ids []block.ID
		for i := range blocks {
			id, _ := blocktest.Block(i, size)
			ids = append(ids, id)
		}
		get := func(s block.Store) func(i int) error {
			return func(i int) error {
				_, err := s.Get(b.Context(), ids[i%blocks], buffer)
				return err
			}
		}
		for _, run := range []struct {
			name string
			read func(i int) error
		}{
			{"file", func(i int) error { _, err := plain.ReadAt(buffer[:size], int64(i%blocks*size)); return err }},
			{"hit", get(s)},
			{"store", get(store)},
			{"miss", get(small.Over(store))},
		} {
			b.Run(fmt.Sprintf("%s/%dKiB", run.name, size>>10), func(b *testing.B) {
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if err := run.read(i); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
