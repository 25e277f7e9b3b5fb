package block_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/test/bubble"
)

// gate is a Store. Its Get waits for open, and counts.
type gate struct {
	*blocktest.Memory
	open chan struct{}
	gets atomic.Int64
}

func (g *gate) Get(ctx context.Context, id block.ID, into []byte) ([]byte, error) {
	g.gets.Add(1)
	select {
	case <-g.open:
		return g.Memory.Get(ctx, id, into)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestCachedAsksOnce: many gets of a block at once are one get of the store, and the end of
// the context of the one that asks does not fail the others.
func TestCachedAsksOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := &gate{Memory: blocktest.NewMemory(blocktest.Big), open: make(chan struct{})}
		id, data := blocktest.Block(1, 5000)
		require.NoError(t, g.Put(t.Context(), block.New(id, data)))
		cached := block.NewCached(g, block.NewMemory(1<<20))

		first, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := cached.Get(first, id, nil)
			failed <- err
		}()
		synctest.Wait()
		good := make(chan error, 20)
		for range cap(good) {
			go func() {
				_, err := cached.Get(t.Context(), id, nil)
				good <- err
			}()
		}
		synctest.Wait()
		require.EqualValues(t, 1, g.gets.Load())
		cancel()
		require.ErrorIs(t, <-failed, context.Canceled)
		synctest.Wait()
		require.EqualValues(t, 2, g.gets.Load(), "one of the others asks again")
		close(g.open)
		for range cap(good) {
			require.NoError(t, <-good)
		}
		blocktest.RequireBlock(t, cached, id, data)
		require.EqualValues(t, 2, g.gets.Load())
	})
}

// TestCachedPushesOut: a cache keeps the blocks that were used last, within its bytes.
func TestCachedPushesOut(t *testing.T) {
	g := &gate{Memory: blocktest.NewMemory(blocktest.Big), open: make(chan struct{})}
	close(g.open)
	cached := block.NewCached(g, block.NewMemory(3000))
	use := func(i, size int) int64 {
		before := g.gets.Load()
		id, data := blocktest.Block(i, size)
		require.NoError(t, g.Put(t.Context(), block.New(id, data)))
		blocktest.RequireBlock(t, cached, id, data)
		return g.gets.Load() - before
	}
	for i := range 3 {
		require.EqualValues(t, 1, use(i, 1000))
	}
	require.EqualValues(t, 0, use(0, 1000))
	require.EqualValues(t, 1, use(3, 1000), "pushes out 1")
	require.EqualValues(t, 0, use(0, 1000))
	require.EqualValues(t, 1, use(1, 1000))
	for range 2 {
		require.EqualValues(t, 1, use(4, 3001), "never fits")
	}
}

// TestNearestFallsBack: a read uses the next region if the nearest one fails. The error distinguishes a lost
// block from an unreachable region.
func TestNearestFallsBack(t *testing.T) {
	near, far := blocktest.NewMemory(blocktest.Big), blocktest.NewMemory(blocktest.Big)
	s, err := block.NewNearest(near, far)
	require.NoError(t, err)
	id, data := blocktest.Block(1, 5000)
	require.NoError(t, s.Put(t.Context(), block.New(id, data)))
	for name, hurt := range map[string]func(){
		"corrupt": func() { near.Spoil(id) },
		"down":    func() { near.Fail(errors.New("connection refused")) },
	} {
		hurt()
		blocktest.RequireBlock(t, s, id, data)
		near.Fail(nil)
		if name == "corrupt" {
			blocktest.RequireBlock(t, near, id, data) // healed
		}
		require.NoError(t, near.Put(t.Context(), block.New(id, data)), name)
	}
	require.NoError(t, far.Delete(t.Context(), []block.ID{id}))
	near.Spoil(id)
	_, err = s.Get(t.Context(), id, nil)
	require.ErrorIs(t, err, block.ErrCorrupt)
	near.Fail(errors.New("connection refused"))
	_, err = s.Get(t.Context(), id, nil)
	require.ErrorIs(t, err, block.ErrUnavailable)
	require.Error(t, s.Put(t.Context(), block.New(id, data)), "all regions must take it")
	_, err = block.NewNearest()
	require.Error(t, err)
}
