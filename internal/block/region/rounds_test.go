package region_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/block/region"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/test/bubble"
)

// Operations of the wire that the tests wait for.
const (
	opFetch = 4
	opHave  = 15
)

// TestRoundWithoutABlockIsNotComplete: a round that could not copy a block reports that, and is complete once
// it can. The removal and draining of servers rely on it.
func TestRoundWithoutABlockIsNotComplete(t *testing.T) {
	type fault func(r *blocktest.Region, on bool)
	for name, fail := range map[string]fault{
		"cannot be fetched": func(*blocktest.Region, bool) {}, // see Answered below
		"cannot be stored": func(r *blocktest.Region, on bool) {
			memory(r, 2).Resize(map[bool]int{true: 150, false: blocktest.Big}[on])
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				r := blocktest.NewRegion(t, 2, blocktest.NewMemory(blocktest.Big), blocktest.NewMemory(blocktest.Big))
				defer r.Close()
				var lost atomic.Bool
				r.Answered = func(from, _ multicast.ProcessID, request []byte) error {
					if from == 2 && request[0] == opFetch && lost.Load() {
						return errors.New("connection reset by peer")
					}
					return nil
				}
				for i := range 3 {
					id, data := blocktest.Block(i, 100)
					require.NoError(t, r.Disks[1].Put(t.Context(), block.New(id, data)))
				}
				lost.Store(name == "cannot be fetched")
				fail(r, true)
				r.Run(2)
				time.Sleep(soon) // virtual
				got := r.Node(2).Status().Repair
				require.False(t, got.Last.Complete)
				require.Zero(t, got.Rounds)
				require.NotEmpty(t, got.Last.Error)
				require.NotZero(t, got.Last.Failed)
				require.Less(t, len(memory(r, 2).IDs()), 3)

				lost.Store(false)
				fail(r, false)
				time.Sleep(2 * blocktest.Healing().RepairInterval) // virtual
				got = r.Node(2).Status().Repair
				require.True(t, got.Last.Complete)
				require.Empty(t, got.Last.Error)
				require.Len(t, memory(r, 2).IDs(), 3)
			})
		})
	}
}

// TestMembersChangeBeforeADrop: server 2 has learned that server 1, the owner, has a good copy of a block.
// Before server 2 drops its own copy, the members change: it is the owner now, and server 1 hands back to it
// and drops. So server 2 must not drop (M2).
func TestMembersChangeBeforeADrop(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := blocktest.NewRegion(t, 1, blocktest.NewMemory(blocktest.Big), blocktest.NewMemory(blocktest.Big))
		defer r.Close()
		id, data := blocktest.Block(0, 100)
		for i := 1; r.Ring.Owners(id, 1)[0] != 1; i++ {
			id, data = blocktest.Block(i, 100)
		}
		for _, d := range r.Disks {
			require.NoError(t, d.Put(t.Context(), block.New(id, data)))
		}
		members := r.Node(1).Members()
		members.Version++
		members.Servers[0].Leaving = true
		var changed atomic.Bool
		r.Answered = func(from, _ multicast.ProcessID, request []byte) error {
			if from != 2 || request[0] != opHave || changed.Swap(true) {
				return nil
			}
			for p := range multicast.ProcessID(2) {
				if err := r.Node(2-p).SetMembers(t.Context(), members); err != nil {
					return err
				}
			}
			for len(memory(r, 1).IDs()) > 0 {
				time.Sleep(10 * time.Millisecond) // virtual
			}
			return nil
		}
		r.Run(1, 2)
		time.Sleep(soon) // virtual
		require.True(t, changed.Load())
		require.True(t, memory(r, 2).Good(id), "nobody has it any more")
		require.Empty(t, memory(r, 1).IDs())
		require.Equal(t, []uint64{1, 0}, []uint64{r.Node(1).Status().Repair.Dropped, r.Node(2).Status().Repair.Dropped})
	})
}

// TestScrubReplacesStrays: a bad copy on a server that should have none is replaced like others. The owners
// may lose theirs before it is handed back.
func TestScrubReplacesStrays(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		disks := make([]region.Disk, 5)
		for i := range disks {
			disks[i] = blocktest.NewMemory(blocktest.Big)
		}
		r := blocktest.NewRegion(t, 2, disks...)
		defer r.Close()
		r.Healing.RepairInterval = time.Hour // no round hands the stray back meanwhile
		id, data := blocktest.Block(1, 100)
		walk := r.Ring.Walk(id)
		last := walk[4]
		for _, p := range walk[:2] {
			require.NoError(t, r.Disks[p].Put(t.Context(), block.New(id, data)))
		}
		r.Crash(last)
		r.Restart(t, last)
		time.Sleep(time.Minute) // virtual: the round and the scrub at the start
		require.NoError(t, r.Disks[last].Put(t.Context(), block.New(id, data)))
		memory(r, last).Spoil(id)
		time.Sleep(blocktest.Healing().ScrubPause) // virtual
		require.True(t, memory(r, last).Good(id))
		scrub := r.Node(last).Status().Scrub
		require.Equal(t, []uint64{1, 1, 0}, []uint64{scrub.Found, scrub.Fixed, scrub.Unfixed})
	})
}
