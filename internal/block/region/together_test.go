package region_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/block/region"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/test/bubble"
)

// The first byte of the requests that put one block and several ones.
const (
	opPut, opStore, opPutAll, opStoreAll = 1, 2, 21, 22
)

// counted counts the answered requests of a region by their first byte. Servers that are old do not know
// requests with several blocks.
func counted(r *blocktest.Region, old ...multicast.ProcessID) (take func() map[byte]int) {
	var mu sync.Mutex
	seen := map[byte]int{}
	r.Answered = func(_, to multicast.ProcessID, request []byte) error {
		mu.Lock()
		defer mu.Unlock()
		seen[request[0]]++
		for _, p := range old {
			if p == to && request[0] >= opPutAll {
				return fmt.Errorf("block request: unknown operation %d", request[0])
			}
		}
		return nil
	}
	return func() map[byte]int {
		mu.Lock()
		defer mu.Unlock()
		taken := seen
		seen = map[byte]int{}
		return taken
	}
}

func someBlocks(from, n int) (all []block.Block) {
	for i := range n {
		id, data := blocktest.Block(from+i, 5000)
		all = append(all, block.New(id, data))
	}
	return all
}

// Several blocks are on their owners after one request to each server.
func TestPutAllIsOneRequestToEachServer(t *testing.T) {
	for servers, requests := range map[int]int{3: 2, 7: 6} {
		r := blocktest.NewMemoryRegion(t, servers)
		took := counted(r)
		all := someBlocks(0, 30)
		require.NoError(t, r.Client(t).PutAll(t.Context(), all))
		require.Equal(t, map[byte]int{opPutAll: 1, opStoreAll: requests}, took(), "of the others")
		for _, b := range all {
			require.Equal(t, r.Ring.Owners(b.ID, 3), holders(t, r, b.ID))
			blocktest.RequireBlock(t, r.Client(t), b.ID, b.Data)
		}
	}
}

// With a server that fails, PutAll acknowledges no block with fewer copies than r.
func TestPutAllWithAFailedServer(t *testing.T) {
	for name, fail := range map[string]func(*blocktest.Region, multicast.ProcessID){
		"down":      func(r *blocktest.Region, p multicast.ProcessID) { r.SetDown(p, true) },
		"hung":      func(r *blocktest.Region, p multicast.ProcessID) { r.SetHung(p, true) },
		"hung disk": func(r *blocktest.Region, p multicast.ProcessID) { memory(r, p).Hang(true) },
		"full":      func(r *blocktest.Region, p multicast.ProcessID) { memory(r, p).Fail(block.ErrNoSpace) },
		"error":     func(r *blocktest.Region, p multicast.ProcessID) { memory(r, p).Fail(errors.New("input/output error")) },
	} {
		for _, failed := range []multicast.ProcessID{1, 4} { // 1 is asked
			t.Run(fmt.Sprint(name, failed), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					r := blocktest.NewMemoryRegion(t, 5)
					defer memory(r, failed).Hang(false)
					fail(r, failed)
					all, began := someBlocks(0, 12), time.Now()
					require.NoError(t, r.Client(t).PutAll(t.Context(), all))
					require.Less(t, time.Since(began), 5*blocktest.CallTimeout)
					memory(r, failed).Hang(false)
					memory(r, failed).Fail(nil)
					for _, b := range all {
						require.GreaterOrEqual(t, len(holders(t, r, b.ID)), 3)
					}
				})
			})
		}
	}
}

// TestPutAllWithTooFewServers: no server has the third copy, so the put fails.
func TestPutAllWithTooFewServers(t *testing.T) {
	r := blocktest.NewMemoryRegion(t, 3)
	r.SetDown(2, true)
	require.ErrorIs(t, r.Client(t).PutAll(t.Context(), someBlocks(0, 3)), block.ErrUnavailable)
}

// A block that came with a wrong checksum is not stored, and no other block with it.
func TestPutAllVerifies(t *testing.T) {
	r := blocktest.NewMemoryRegion(t, 3)
	all := someBlocks(0, 3)
	all[1].Sum ^= 1
	require.ErrorContains(t, r.Client(t).PutAll(t.Context(), all), "wrong checksum")
	for _, b := range all {
		require.Empty(t, holders(t, r, b.ID))
	}
}

// While servers of an older version are in the region, blocks are put one by one. Each minute is another try.
func TestPutAllWithOldServers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := blocktest.NewMemoryRegion(t, 3)
		took := counted(r, 3)
		remote := r.Client(t)
		for i := range 2 {
			require.NoError(t, remote.PutAll(t.Context(), someBlocks(10*i, 4)))
			counts := took()
			require.Equal(t, 8, counts[opStore])
			require.Equal(t, i == 0, counts[opStoreAll] > 0, "only the first request asks for several")
		}
		time.Sleep(2 * time.Minute) // virtual
		took = counted(r)
		require.NoError(t, remote.PutAll(t.Context(), someBlocks(30, 4)))
		require.Equal(t, map[byte]int{opPutAll: 1, opStoreAll: 2}, took())
		require.NoError(t, remote.Put(t.Context(), someBlocks(40, 1)[0]))
		require.Equal(t, map[byte]int{opPut: 1, opStore: 2}, took())
	})
	bubble.Test(t, func(t *testing.T) {
		r := blocktest.NewMemoryRegion(t, 3)
		took := counted(r, 1, 2, 3)
		remote, other := r.Client(t), r.Client(t)
		require.ErrorContains(t, remote.PutAll(t.Context(), someBlocks(0, 4)), "unknown operation")
		require.Equal(t, 1, took()[opPutAll], "no other server is asked")
		require.ErrorIs(t, remote.PutAll(t.Context(), someBlocks(0, 4)), errors.ErrUnsupported)
		require.Empty(t, took(), "without a request")
		asked := make(chan multicast.ProcessID, 9)
		r.Answered = func(from, to multicast.ProcessID, _ []byte) error {
			if from == 0 {
				asked <- to
			}
			return nil
		}
		for _, client := range []*region.Remote{remote, other} {
			require.NoError(t, client.Put(context.Background(), someBlocks(5, 1)[0]))
			require.EqualValues(t, 1, <-asked, "no server is suspected")
		}
	})
}
