package block_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/test/bubble"
)

// farStore takes a while, for ever if it is down.
type farStore struct {
	*blocktest.Memory
	delay time.Duration
	down  bool
}

func (s *farStore) Put(ctx context.Context, b block.Block) error {
	after := time.After(s.delay)
	if s.down {
		after = nil
	}
	select {
	case <-after:
		return s.Memory.Put(ctx, b)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A region that is down delays one write by a moment, the next ones not at all, and takes part again when it
// is back.
func TestPutGoesOnWithoutARegion(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		regions := make([]*farStore, 3)
		var stores []block.Store
		for i := range regions {
			regions[i] = &farStore{Memory: blocktest.NewMemory(1 << 20), delay: time.Duration(i) * 50 * time.Millisecond}
			stores = append(stores, regions[i])
		}
		s, err := block.NewNearest(stores...)
		require.NoError(t, err)
		number := byte(0)
		put := func() (time.Duration, error) {
			number++
			began := time.Now()
			err := s.Put(t.Context(), block.New(block.ID{number}, []byte("data")))
			return time.Since(began), err
		}
		has := func(region int) bool {
			_, err := regions[region].Get(t.Context(), block.ID{number}, nil)
			return err == nil
		}
		took, err := put()
		require.NoError(t, err)
		require.Equal(t, 100*time.Millisecond, took, "all of them")

		regions[2].down = true
		took, err = put()
		require.NoError(t, err)
		require.Greater(t, took, time.Second, "it may come yet")
		took, err = put()
		require.NoError(t, err)
		require.Equal(t, 50*time.Millisecond, took, "not waited for")
		require.True(t, has(0) && has(1) && !has(2))
		there, err := block.NewNearest(regions[2], regions[0])
		require.NoError(t, err)
		regions[2].down = false
		_, err = there.Get(t.Context(), block.ID{number}, nil)
		require.NoError(t, err)
		require.True(t, has(2), "a reader there brings what it has missed")

		regions[1].down, regions[2].down = true, true
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		require.ErrorIs(t, s.Put(ctx, block.New(block.ID{99}, []byte("data"))), context.DeadlineExceeded, "no majority")

		regions[1].down, regions[2].down = false, false
		time.Sleep(time.Minute) // fake time
		took, err = put()
		require.NoError(t, err)
		require.Equal(t, 100*time.Millisecond, took)
		require.True(t, has(2))

		regions[0].Fail(block.ErrNoSpace)
		regions[2].down = true
		took, err = put()
		require.ErrorIs(t, err, block.ErrNoSpace)
		require.Zero(t, took, "what one refuses needs no other")
		regions[0].Fail(nil)
		regions[2].down = false
		took, err = put()
		require.NoError(t, err)
		require.Equal(t, 100*time.Millisecond, took, "who was given up is not away")
	})
}

// A put needs a majority, also when those that cannot take it say so at once.
func TestPutNeedsAMajorityThatStoredIt(t *testing.T) {
	for n := 2; n <= 5; n++ {
		for reached := range n + 1 {
			regions := make([]block.Store, n)
			for i := range regions {
				memory := blocktest.NewMemory(blocktest.Big)
				if i >= reached {
					memory.Fail(block.ErrUnavailable)
				}
				regions[i] = memory
			}
			s, err := block.NewNearest(regions...)
			require.NoError(t, err)
			for range 2 { // the second time those are known to be away
				err = s.Put(t.Context(), block.New(block.ID{1}, []byte("data")))
				if reached > n/2 {
					require.NoError(t, err, "%d of %d", reached, n)
				} else {
					require.ErrorIs(t, err, block.ErrUnavailable, "%d of %d", reached, n)
				}
			}
		}
	}
}

// lateStore does not return the error of its context when it is given up. A region does the same if the call
// of its server was cut short.
type lateStore struct{ *blocktest.Memory }

func (s lateStore) Put(ctx context.Context, _ block.Block) error {
	<-ctx.Done()
	return errors.New("storage server failed")
}

// The error of the region that has refused counts, not the errors of the regions that are given up for it.
func TestPutRefusedByOneRegion(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		near := blocktest.NewMemory(1 << 20)
		near.Fail(block.ErrNoSpace)
		s, err := block.NewNearest(near, lateStore{}, lateStore{})
		require.NoError(t, err)
		require.ErrorIs(t, s.Put(t.Context(), block.New(block.ID{1}, []byte("data"))), block.ErrNoSpace)
	})
}

// A region that is away keeps no other one from deleting.
func TestDeleteGoesOnWithoutARegion(t *testing.T) {
	id, data := blocktest.Block(1, 10)
	regions := []*blocktest.Memory{blocktest.NewMemory(blocktest.Big), blocktest.NewMemory(blocktest.Big), blocktest.NewMemory(blocktest.Big)}
	nearest, err := block.NewNearest(regions[0], regions[1], regions[2])
	require.NoError(t, err)
	require.NoError(t, nearest.Put(t.Context(), block.New(id, data)))
	regions[0].Fail(block.ErrUnavailable)
	require.ErrorIs(t, nearest.Delete(t.Context(), []block.ID{id}), block.ErrUnavailable)
	regions[0].Fail(nil)
	for i, r := range regions {
		require.Len(t, r.IDs(), map[bool]int{true: 1}[i == 0])
	}
	require.NoError(t, nearest.Delete(t.Context(), []block.ID{id}))
	require.Empty(t, regions[0].IDs())
}

// Nobody waits for a region that is known to be away, but its copies stay: that is an error.
func TestDeleteFailsIfARegionIsAway(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		id, data := blocktest.Block(1, 10)
		regions := []*blocktest.Memory{blocktest.NewMemory(blocktest.Big), blocktest.NewMemory(blocktest.Big), blocktest.NewMemory(blocktest.Big)}
		nearest, err := block.NewNearest(regions[0], regions[1], regions[2])
		require.NoError(t, err)
		require.NoError(t, nearest.Put(t.Context(), block.New(id, data)))
		other, data := blocktest.Block(2, 10)
		regions[2].Fail(block.ErrUnavailable)
		require.NoError(t, nearest.Put(t.Context(), block.New(other, data)), "two of three")
		regions[2].Fail(nil)
		require.ErrorIs(t, nearest.Delete(t.Context(), []block.ID{id}), block.ErrUnavailable, "it was away a moment ago")
		for _, region := range regions[:2] {
			require.Equal(t, []block.ID{other}, region.IDs())
		}
		require.Equal(t, []block.ID{id}, regions[2].IDs())
		time.Sleep(time.Minute) // fake time
		require.NoError(t, nearest.Delete(t.Context(), []block.ID{id}))
		require.Empty(t, regions[2].IDs())
	})
}

// A region that hangs delays a delete only for a short time.
func TestDeleteDoesNotWaitForARegionThatHangs(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		regions := []*blocktest.Memory{blocktest.NewMemory(blocktest.Big), blocktest.NewMemory(blocktest.Big), blocktest.NewMemory(blocktest.Big)}
		nearest, err := block.NewNearest(regions[0], regions[1], regions[2])
		require.NoError(t, err)
		regions[2].Hang(true)
		began := time.Now()
		require.ErrorIs(t, nearest.Delete(t.Context(), []block.ID{{1}}), block.ErrUnavailable)
		require.LessOrEqual(t, time.Since(began), 3*time.Second)
	})
}

// The only region is asked, also after it has failed.
func TestDeleteInTheOnlyRegion(t *testing.T) {
	id, data := blocktest.Block(1, 10)
	region := blocktest.NewMemory(blocktest.Big)
	nearest, err := block.NewNearest(region)
	require.NoError(t, err)
	require.NoError(t, nearest.Put(t.Context(), block.New(id, data)))
	region.Fail(block.ErrUnavailable)
	_, err = nearest.Get(t.Context(), id, nil)
	require.ErrorIs(t, err, block.ErrUnavailable)
	region.Fail(nil)
	require.NoError(t, nearest.Delete(t.Context(), []block.ID{id}))
	require.Empty(t, region.IDs())
}
