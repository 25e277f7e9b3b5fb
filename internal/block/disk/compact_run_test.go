package disk_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/test/bubble"
)

// A compaction ends with its context, and with its store.
func TestCompactionEnds(t *testing.T) {
	blocktest.CheckLeaks(t)
	config := small(t.TempDir())
	s := open(t, config)
	fill(t, s, 9)
	remove(t, s, 0, 1, 3, 4)
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	err := s.Compact(stepping{ctx, func() {
		if n++; n == 2 {
			cancel()
		}
	}})
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, s.Audit())
	var running sync.WaitGroup
	running.Go(func() { s.Run(t.Context()) })
	require.NoError(t, s.Close())
	running.Wait()
	s.Run(t.Context())
	require.ErrorIs(t, s.Compact(t.Context()), block.ErrClosed)
	_, err = s.Stats()
	require.ErrorIs(t, err, block.ErrClosed)
}

// TestVersion1IsCounted once, when it is opened.
func TestVersion1IsCounted(t *testing.T) {
	config := small(t.TempDir())
	s := open(t, config)
	fill(t, s, 9)
	id, data := blocktest.Block(100, 20)
	require.NoError(t, s.Put(t.Context(), block.New(id, data)))
	remove(t, s, 0, 1, 3)
	want := stats(t, s)
	require.NoError(t, s.Downgrade())
	require.NoError(t, s.Close())
	for range 2 {
		s = open(t, config)
		require.NoError(t, s.Audit())
		got := stats(t, s)
		want.WrittenBytes = got.WrittenBytes
		require.Equal(t, want, got)
		require.NoError(t, s.Close())
	}
}

// TestCompactionRate: compaction moves records at the configured rate.
func TestCompactionRate(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		config := small(t.TempDir())
		config.SegmentBytes = 8 << 20
		config.CompactRate = 1 << 20
		s := open(t, config)
		fill(t, s, 60)
		var gone []int
		for i := range 56 {
			if i%2 == 0 {
				gone = append(gone, i)
			}
		}
		remove(t, s, gone...)
		began := time.Now()
		require.NoError(t, s.Compact(t.Context()))
		moved := time.Duration(stats(t, s).MovedBytes) * time.Second / time.Duration(config.CompactRate)
		took := time.Since(began)
		require.Greater(t, moved, 5*time.Second)
		require.Less(t, took, moved+time.Second)
		require.Greater(t, took, moved-3*time.Second, "the limit lets 2 MiB through at once")
		require.NoError(t, s.Close())
		time.Sleep(3 * time.Second) // of the bubble: LevelDB drains a buffer pool
	})
}

// Run compacts a segment after the delete, or the put in place of a bad block, that makes the segment due.
// Run does nothing in between.
func TestRunIsWoken(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		config := small(t.TempDir())
		s := open(t, config)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.Run(ctx) })
		fill(t, s, 12) // of which a segment takes four
		synctest.Wait()
		require.Zero(t, stats(t, s).Compactions)
		remove(t, s, 0)
		synctest.Wait()
		require.Zero(t, stats(t, s).Compactions)
		remove(t, s, 1, 2)
		synctest.Wait()
		require.EqualValues(t, 1, stats(t, s).Compactions)

		remove(t, s, 4)
		_, data := blocktest.Block(5, third)
		spoil(t, config.Dir, data)
		synctest.Wait()
		require.EqualValues(t, 1, stats(t, s).Compactions)
		id, data := blocktest.Block(5, third)
		require.NoError(t, s.Put(t.Context(), block.New(id, data)))
		synctest.Wait()
		require.EqualValues(t, 2, stats(t, s).Compactions)
		require.NoError(t, s.Audit())
		cancel()
		running.Wait()
		require.NoError(t, s.Close())
		time.Sleep(3 * time.Second) // of the bubble: LevelDB drains a buffer pool
	})
}
