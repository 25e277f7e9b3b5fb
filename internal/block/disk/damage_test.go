package disk_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/block/disk"
)

// The blocks of the damage tests: small ones, which are in the index only, and large ones.
var damageSizes = []int{200, 5000, 30000, 100, 9000}

const damageBlocks = 40

func damageBlock(i int) (block.ID, []byte) {
	return blocktest.Block(i, damageSizes[i%len(damageSizes)])
}

// damageConfig has segments of a few blocks.
func damageConfig(dir string) disk.Config {
	config := noSync(dir)
	config.SegmentBytes = block.MaxSize
	return config
}

// damageImage makes a store with index tables, a journal and two segments, some blocks deleted.
func damageImage(t testing.TB) string {
	dir := filepath.Join(t.TempDir(), "store")
	put := func(s *disk.Store, from, to int) {
		for i := from; i < to; i++ {
			id, data := damageBlock(i)
			require.NoError(t, s.Put(t.Context(), block.New(id, data)))
		}
	}
	s := open(t, damageConfig(dir))
	put(s, 0, damageBlocks/2)
	require.NoError(t, s.Close())
	s = open(t, damageConfig(dir))
	id, _ := damageBlock(1000)
	put(s, 1000, 1001)
	require.NoError(t, s.Delete(t.Context(), []block.ID{id}))
	put(s, damageBlocks/2, damageBlocks)
	require.NoError(t, s.Close())
	return dir
}

// places returns offsets spread over a file.
func places(t testing.TB, path string, n int) (at []int64) {
	info, err := os.Stat(path)
	require.NoError(t, err)
	step := max(info.Size()/int64(n), 1)
	for i := int64(0); i < info.Size(); i += step {
		at = append(at, i)
	}
	return at
}

// requireHarmless fails unless each block is right or reported as missing, at most bad of the large ones are
// missing, and the store takes all blocks again.
func requireHarmless(t testing.TB, s *disk.Store, bad int, what string) {
	t.Helper()
	for i := range damageBlocks {
		id, data := damageBlock(i)
		got, err := s.Get(t.Context(), id, nil)
		if err == nil {
			require.True(t, bytes.Equal(data, got), "%s: wrong bytes of block %d", what, i)
			continue
		}
		require.True(t, errors.Is(err, block.ErrNotFound) || errors.Is(err, block.ErrCorrupt), "%s: block %d: %v", what, i, err)
		if len(data) > 4096 {
			bad--
		}
	}
	require.GreaterOrEqual(t, bad, 0, "%s: too many blocks are gone", what)
	require.NoError(t, s.Compact(t.Context()), what)
	for i := range damageBlocks {
		id, data := damageBlock(i)
		require.NoError(t, s.Put(t.Context(), block.New(id, data)), what)
		blocktest.RequireBlock(t, s, id, data)
	}
	require.NoError(t, s.Compact(t.Context()), what)
	require.NoError(t, s.Audit(), what)
}

// TestDamage flips bits of each file of a store, while it is closed and while it is open (S9).
func TestDamage(t *testing.T) {
	made := damageImage(t)
	var files []string
	for _, pattern := range []string{"index/*", "*.seg"} {
		names, err := filepath.Glob(filepath.Join(made, pattern))
		require.NoError(t, err)
		files = append(files, names...)
	}
	rebuilds := uint64(0)
	for _, file := range files {
		name, err := filepath.Rel(made, file)
		require.NoError(t, err)
		bad, n := 0, 12
		if strings.HasSuffix(name, ".seg") {
			bad, n = 1, 40
		}
		for i, at := range places(t, file, n) {
			dir := clone(t, made)
			before := func() {}
			if i%2 == 0 {
				flip(t, filepath.Join(dir, name), at)
			} else {
				before = func() {
					if _, err := os.Stat(filepath.Join(dir, name)); err == nil { // LevelDB deletes journals
						flip(t, filepath.Join(dir, name), at)
					}
				}
			}
			s := open(t, damageConfig(dir))
			before()
			requireHarmless(t, s, bad, name)
			rebuilds += stats(t, s).Rebuilds
			require.NoError(t, s.Close())
			s = open(t, damageConfig(dir))
			requireHarmless(t, s, 0, name+", opened again")
			require.NoError(t, s.Close())
		}
	}
	require.Positive(t, rebuilds)
}

// If the index is lost, a damaged header hides only its own record.
func TestBadHeaderAndLostIndex(t *testing.T) {
	made := damageImage(t)
	for _, at := range []int64{0, 3, 20, 30} { // block 1 is the first in the segment
		dir := clone(t, made)
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "index")))
		flip(t, filepath.Join(dir, segment), at)
		requireHarmless(t, open(t, damageConfig(dir)), 1, segment)
	}
}

// spoilIndex damages all tables and journals of an index.
func spoilIndex(t testing.TB, dir string) {
	names, err := filepath.Glob(filepath.Join(dir, "index", "*.ldb"))
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		for _, at := range places(t, name, 100) {
			flip(t, name, at)
		}
	}
}

// The store keeps at most two damaged indexes, and logs each damage.
func TestDamagedIndexesAreKept(t *testing.T) {
	config := damageConfig(clone(t, damageImage(t)))
	var log bytes.Buffer
	config.Log = slog.New(slog.NewTextHandler(&log, nil))
	for i := range 5 {
		s := open(t, config)
		requireHarmless(t, s, 0, "whole")
		require.NoError(t, s.Close())
		s = open(t, config) // LevelDB makes a table of its journal
		require.NoError(t, s.Close())
		spoilIndex(t, config.Dir)
		s = open(t, config)
		requireHarmless(t, s, 0, "spoiled")
		require.EqualValues(t, 1, stats(t, s).Rebuilds, "round %d", i)
		require.NoError(t, s.Close())
	}
	names, err := filepath.Glob(filepath.Join(config.Dir, "index.damaged-*"))
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(config.Dir, "index.damaged-4"), filepath.Join(config.Dir, "index.damaged-5")}, names)
	require.Equal(t, 5, strings.Count(log.String(), "block index is damaged"))
}

// TestDamageUnderLoad damages the index during many reads and writes: each answer is right, or an error that
// does not report a block as missing.
func TestDamageUnderLoad(t *testing.T) {
	blocktest.CheckLeaks(t)
	config := damageConfig(clone(t, damageImage(t)))
	s := open(t, config)
	for i := range 300 { // more than LevelDB reads when it opens
		id, data := blocktest.Block(2000+i, 300)
		require.NoError(t, s.Put(t.Context(), block.New(id, data)))
	}
	require.NoError(t, s.Close())
	s = open(t, config)
	spoilIndex(t, config.Dir)
	var workers sync.WaitGroup
	for worker := range 6 {
		workers.Go(func() {
			for k := range 3 * damageBlocks {
				i := (k*7 + worker) % damageBlocks
				id, data := damageBlock(i)
				if len(data) <= 4096 {
					continue // only in the index
				}
				got, err := s.Get(t.Context(), id, nil)
				if err == nil {
					assert.True(t, bytes.Equal(data, got))
				}
				assert.False(t, errors.Is(err, block.ErrNotFound) || errors.Is(err, block.ErrCorrupt), "block %d: %v", i, err)
				if worker == 1 { // may be lost, and finds the damage
					id, data := blocktest.Block(2000+k, 300)
					if got, err := s.Get(t.Context(), id, nil); err == nil {
						assert.Equal(t, data, got)
					}
				}
				if worker == 0 {
					if err := s.Put(t.Context(), block.New(id, data)); err != nil {
						assert.ErrorContains(t, err, "being rebuilt")
					}
				}
			}
		})
	}
	workers.Wait()
	require.EqualValues(t, 1, stats(t, s).Rebuilds)
	requireHarmless(t, s, 0, "after")
}

// An index that cannot be opened because the disk fails is not damaged: it is neither moved nor rebuilt.
func TestIndexOfAFailingDisk(t *testing.T) {
	dir := clone(t, damageImage(t))
	require.NoError(t, os.Rename(filepath.Join(dir, "index"), filepath.Join(dir, "elsewhere")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "index"), nil, 0o600))
	_, err := disk.Open(damageConfig(dir))
	require.Error(t, err)
	require.NoError(t, os.Remove(filepath.Join(dir, "index")))
	require.NoError(t, os.Rename(filepath.Join(dir, "elsewhere"), filepath.Join(dir, "index")))
	s := open(t, damageConfig(dir))
	requireHarmless(t, s, 0, "index")
	require.Zero(t, stats(t, s).Rebuilds)
}
