package disk_test

import (
	"bytes"
	"context"
	"math/rand/v2"
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

// small has segments that three blocks of 300 KiB fill.
func small(dir string) disk.Config {
	config := noSync(dir)
	config.SegmentBytes = block.MaxSize
	config.CompactRate = 1 << 30
	return config
}

const third = 300 << 10

// fill puts blocks with numbers up to n.
func fill(t testing.TB, s block.Store, n int) {
	for i := range n {
		id, data := blocktest.Block(i, third)
		require.NoError(t, s.Put(t.Context(), block.New(id, data)))
	}
}

func remove(t testing.TB, s block.Store, numbers ...int) {
	var ids []block.ID
	for _, i := range numbers {
		id, _ := blocktest.Block(i, third)
		ids = append(ids, id)
	}
	require.NoError(t, s.Delete(t.Context(), ids))
}

func stats(t testing.TB, s *disk.Store) disk.Stats {
	got, err := s.Stats()
	require.NoError(t, err)
	return got
}

// stepping is a context that calls step before each access of compaction to the disk.
type stepping struct {
	context.Context
	step func()
}

func (c stepping) Err() error {
	c.step()
	return c.Context.Err()
}

func withDir(config disk.Config, dir string) disk.Config {
	config.Dir = dir
	return config
}

// A compaction gives space back, and keeps live blocks.
func TestCompactionGivesSpaceBack(t *testing.T) {
	config := small(t.TempDir())
	s := open(t, config)
	const blocks = 40
	fill(t, s, blocks)
	var gone []int
	for i := range blocks {
		if i%4 != 0 {
			gone = append(gone, i)
		}
	}
	remove(t, s, gone...)
	before := stats(t, s)
	for i := range blocks {
		requireHas(t, s, i, third, i%4 == 0) // opens the segments
	}
	require.NoError(t, s.Compact(t.Context()))
	require.Empty(t, deletedFiles(t), "a file that is open takes space")
	after := stats(t, s)
	require.EqualValues(t, blocks/4, after.Blocks)
	require.Equal(t, before.LiveBytes, after.LiveBytes)
	require.Less(t, after.SegmentBytes, before.SegmentBytes/2)
	require.Positive(t, after.Compactions)
	require.Positive(t, after.MovedBlocks)
	require.Equal(t, after.MovedBlocks*(third+header), after.MovedBytes)
	moved := after.MovedBlocks
	require.NoError(t, s.Compact(t.Context()), "nothing is due any more")
	require.Equal(t, moved, stats(t, s).MovedBlocks)
	require.NoError(t, s.Close())
	requireAfterCrash(t, config, blocks, gone)
}

// deletedFiles returns the segments that this process has open though they are deleted.
func deletedFiles(t testing.TB) (names []string) {
	links, err := filepath.Glob("/proc/self/fd/*")
	require.NoError(t, err)
	for _, link := range links {
		if name, err := os.Readlink(link); err == nil && strings.HasSuffix(name, ".seg (deleted)") {
			names = append(names, name)
		}
	}
	return names
}

// TestChangesDuringAMove: a block may be deleted, or deleted and put again, while compaction has its bytes.
// The change stays, and the block is not moved.
func TestChangesDuringAMove(t *testing.T) {
	config := small(t.TempDir())
	config.SegmentBytes = 8 << 20
	s := open(t, config)
	fill(t, s, 30)
	var gone []int
	for i := range 24 {
		if i%4 > 0 {
			gone = append(gone, i)
		}
	}
	remove(t, s, gone...)
	steps := 0
	require.NoError(t, s.Compact(stepping{t.Context(), func() {
		if steps++; steps == 2 { // of the first four of six live blocks
			remove(t, s, 0, 4)
			id, data := blocktest.Block(4, third)
			require.NoError(t, s.Put(t.Context(), block.New(id, data)))
		}
	}}))
	require.Greater(t, steps, 3)
	got := stats(t, s)
	require.EqualValues(t, 1, got.Compactions)
	for i := range 30 {
		requireHas(t, s, i, third, i >= 24 || i%4 == 0 && i > 0)
	}
	live := 0
	for i := range 28 { // in the removed segment
		if i >= 24 || i%4 == 0 && i > 4 {
			live++
		}
	}
	require.EqualValues(t, live, got.MovedBlocks)
	require.NoError(t, s.Audit())
}

// A reader finds a block although its segment is removed before the read, and a block whose bad copy is
// replaced before the read.
func TestAReaderFollows(t *testing.T) {
	config := small(t.TempDir())
	s := open(t, config)
	fill(t, s, 9)
	id, data := blocktest.Block(1, third)
	got, err := s.GetSlowly(id, func() {
		remove(t, s, 0, 2, 3)
		require.NoError(t, s.Compact(t.Context()))
		require.NoFileExists(t, filepath.Join(config.Dir, segment))
	})
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, got))
	got, err = s.GetSlowly(id, func() {
		spoil(t, config.Dir, data)
		require.NoError(t, s.Put(t.Context(), block.New(id, data)))
	})
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, got))
	other, _ := blocktest.Block(5, third)
	_, err = s.GetSlowly(other, func() {
		remove(t, s, 4, 5, 6, 7)
		require.NoError(t, s.Compact(t.Context()))
	})
	require.ErrorIs(t, err, block.ErrNotFound)
}

// TestDeadSegmentsGoUnread removes a segment without live blocks, though its bytes cannot be read.
func TestDeadSegmentsGoUnread(t *testing.T) {
	config := small(t.TempDir())
	s := open(t, config)
	fill(t, s, 9)
	remove(t, s, 0, 1, 2, 3, 4, 5, 6, 7, 8)
	names, err := filepath.Glob(filepath.Join(config.Dir, "*.seg"))
	require.NoError(t, err)
	for _, name := range names[:2] {
		require.NoError(t, os.WriteFile(name, nil, 0o600))
	}
	require.NoError(t, s.Compact(t.Context()))
	got := stats(t, s)
	require.Zero(t, got.MovedBlocks)
	require.Zero(t, got.SegmentBytes)
	require.Zero(t, got.DeadBytes)
	fill(t, s, 3)
	require.NoError(t, s.Audit())
}

// TestBadBlocksAreNotLostByCompaction: their segment stays until the block is put again or
// deleted (S8).
func TestBadBlocksAreNotLostByCompaction(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		config := small(t.TempDir())
		s := open(t, config)
		fill(t, s, 8)
		remove(t, s, 0, 3)
		_, data := blocktest.Block(1, third)
		spoil(t, config.Dir, data)
		remove(t, s, 2)
		require.NoError(t, s.Compact(t.Context()))
		got := stats(t, s)
		require.EqualValues(t, 1, got.BadRecords)
		require.Zero(t, got.Compactions)
		id, data := blocktest.Block(1, third)
		_, err := s.Get(t.Context(), id, nil)
		require.ErrorIs(t, err, block.ErrCorrupt)
		require.NoError(t, s.Compact(t.Context()))
		require.EqualValues(t, 1, stats(t, s).BadRecords, "it is not read again and again")

		if deleted {
			remove(t, s, 1)
		} else {
			require.NoError(t, s.Put(t.Context(), block.New(id, data)))
		}
		require.NoError(t, s.Compact(t.Context()))
		require.EqualValues(t, 1, stats(t, s).Compactions)
		requireHas(t, s, 1, third, !deleted)
		require.NoError(t, s.Audit())
	}
}

// Compaction finds a record with a damaged header, and the records behind it, because the index has their
// places.
func TestCompactionFindsRecordsBehindBadHeaders(t *testing.T) {
	config := small(t.TempDir())
	s := open(t, config)
	fill(t, s, 8)
	remove(t, s, 0, 2, 3)
	flip(t, filepath.Join(config.Dir, segment), header+third+9) // the header of block 1
	require.NoError(t, s.Compact(t.Context()))
	require.NoFileExists(t, filepath.Join(config.Dir, segment))
	for i := range 8 {
		requireHas(t, s, i, third, i != 0 && i != 2 && i != 3)
	}
	require.Zero(t, stats(t, s).BadRecords)
}

// TestCompactionUnderLoad compacts during concurrent puts, gets and deletes. No reader misses an existing
// block, and no deleted block comes back.
func TestCompactionUnderLoad(t *testing.T) {
	blocktest.CheckLeaks(t)
	config := small(t.TempDir())
	config.CompactShare = 0.2
	config.OpenFiles = 2
	s := open(t, config)
	ctx, cancel := context.WithCancel(t.Context())
	var background, workers sync.WaitGroup
	background.Go(func() { s.Run(ctx) })
	const stay, rounds = 12, 60
	for i := range stay {
		id, data := blocktest.Block(i, 20000)
		require.NoError(t, s.Put(ctx, block.New(id, data)))
	}
	for worker := range 4 {
		workers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(worker), 1))
			for round := range rounds {
				n := 1000 + worker*rounds + round
				id, data := blocktest.Block(n, 100_000)
				assert.NoError(t, s.Put(ctx, block.New(id, data)))
				kept, want := blocktest.Block(rng.IntN(stay), 20000)
				got, err := s.Get(ctx, kept, nil)
				if assert.NoError(t, err) {
					assert.Equal(t, want, got)
				}
				assert.NoError(t, s.Delete(ctx, []block.ID{id}))
				_, err = s.Get(ctx, id, nil)
				assert.ErrorIs(t, err, block.ErrNotFound)
			}
		})
	}
	done := make(chan struct{})
	for reader := range 2 {
		background.Go(func() {
			var buffer []byte
			for i := reader; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				kept, want := blocktest.Block(i%stay, 20000)
				got, err := s.Get(t.Context(), kept, buffer)
				if !assert.NoError(t, err) || !assert.True(t, bytes.Equal(want, got)) {
					return
				}
				buffer = got
			}
		})
	}
	workers.Wait()
	close(done)
	cancel()
	background.Wait()
	require.Positive(t, stats(t, s).Compactions)
	require.NoError(t, s.Compact(t.Context()))
	require.Len(t, all(t, s), stay)
	require.NoError(t, s.Audit())
	require.Less(t, stats(t, s).SegmentBytes, uint64(5<<20))
}
