package region_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/block/region"
	"github.com/globalfs/globalfs/internal/block/ring"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/test/bubble"
)

// soon is the time after which a region is whole again after a noticed change.
const soon = 30 * time.Second

// healing runs a test on a region of n servers that keep it whole, with the given number of copies and 60
// blocks.
func healing(t *testing.T, n, copies int, test func(t *testing.T, r *blocktest.Region)) {
	bubble.Test(t, func(t *testing.T) {
		blocktest.CheckLeaks(t)
		disks := make([]region.Disk, n)
		for i := range disks {
			disks[i] = blocktest.NewMemory(blocktest.Big)
		}
		r := blocktest.NewRegion(t, copies, disks...)
		defer r.Close()
		for i := range n {
			r.Run(multicast.ProcessID(i + 1))
		}
		remote := r.Client(t)
		for i := range 60 {
			id, data := blocktest.Block(i, 100)
			require.NoError(t, remote.Put(t.Context(), block.New(id, data)))
		}
		test(t, r)
	})
}

// requireOwners fails unless the blocks are on their owners by the ring of members, and nowhere else.
func requireOwners(t *testing.T, r *blocktest.Region, members region.Members, copies int) {
	t.Helper()
	var staying []ring.Member
	for _, s := range members.Servers {
		if !s.Leaving {
			staying = append(staying, ring.Member{ID: s.ID, Datacenter: s.Datacenter})
		}
	}
	placement, err := ring.New(staying)
	require.NoError(t, err)
	for i := range 60 {
		id, _ := blocktest.Block(i, 100)
		var has []multicast.ProcessID
		for p := range r.Disks {
			if memory(r, p).Good(id) {
				has = append(has, p)
			}
		}
		require.ElementsMatch(t, placement.Owners(id, copies), has, "block %v", id)
	}
}

// sum returns the sum of a count of all servers.
func sum(r *blocktest.Region, count func(region.Status) uint64) (total uint64) {
	for p := range r.Disks {
		if node := r.Node(p); node != nil {
			total += count(node.Status())
		}
	}
	return total
}

// TestTakeover: when a server is down, the next ones take over. They hand back when it returns, with its disk
// or with an empty one.
func TestTakeover(t *testing.T) {
	for _, empty := range []bool{false, true} {
		healing(t, 6, 3, func(t *testing.T, r *blocktest.Region) {
			members := r.Node(1).Members()
			before := memory(r, 4).IDs()
			r.Crash(4)
			time.Sleep(blocktest.Healing().DownAfter / 2) // virtual
			require.Empty(t, r.Node(1).Status().Down, "it may come back")
			time.Sleep(blocktest.Healing().DownAfter + soon) // virtual
			for i := range 60 {
				id, _ := blocktest.Block(i, 100)
				want := r.Ring.OwnersAmong(id, 3, []multicast.ProcessID{4})
				require.ElementsMatch(t, want, slices.DeleteFunc(holders(t, r, id), func(p multicast.ProcessID) bool { return p == 4 }))
			}
			require.Equal(t, []multicast.ProcessID{4}, r.Node(1).Status().Down)
			require.Zero(t, sum(r, func(s region.Status) uint64 { return s.Repair.Dropped }))
			require.EqualValues(t, len(before), sum(r, func(s region.Status) uint64 { return s.Repair.Fetched }))
			if empty {
				memory(r, 4).Lose()
			}
			r.Restart(t, 4)
			time.Sleep(soon) // virtual
			requireOwners(t, r, members, 3)
			require.Empty(t, r.Node(1).Status().Down)
			require.EqualValues(t, len(before), sum(r, func(s region.Status) uint64 { return s.Repair.Dropped }))
		})
	}
}

// TestFailingDiskIsDown: a server with a failing disk answers, but others take over.
func TestFailingDiskIsDown(t *testing.T) {
	healing(t, 5, 2, func(t *testing.T, r *blocktest.Region) {
		memory(r, 3).Fail(errors.New("input/output error"))
		time.Sleep(blocktest.Healing().DownAfter + soon) // virtual
		require.Equal(t, []multicast.ProcessID{3}, r.Node(1).Status().Down)
		for i := range 60 {
			id, _ := blocktest.Block(i, 100)
			for _, p := range r.Ring.OwnersAmong(id, 2, []multicast.ProcessID{3}) {
				require.True(t, memory(r, p).Good(id))
			}
		}
	})
}

// TestOwnerProvesItsCopy: an owner with a bad copy does not make the stand-in drop the only good one.
func TestOwnerProvesItsCopy(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := blocktest.NewRegion(t, 1, blocktest.NewMemory(blocktest.Big), blocktest.NewMemory(blocktest.Big))
		defer r.Close()
		id, data := blocktest.Block(1, 100)
		owner, standIn := r.Ring.Walk(id)[0], r.Ring.Walk(id)[1]
		for _, p := range []multicast.ProcessID{owner, standIn} {
			require.NoError(t, r.Disks[p].Put(t.Context(), block.New(id, data)))
		}
		memory(r, owner).Spoil(id)
		r.Run(standIn)
		time.Sleep(soon) // virtual
		require.True(t, memory(r, owner).Good(id))
		require.Empty(t, memory(r, standIn).IDs())
		s := r.Node(standIn).Status().Repair
		require.EqualValues(t, []uint64{1, 100, 1}, []uint64{s.HandedBack, s.HandedBackBytes, s.Dropped})
	})
}

// Deleted blocks come back with a server that was away during the delete. They are garbage in the whole
// region until they are deleted once more.
func TestDeletedBlocksComeBack(t *testing.T) {
	healing(t, 5, 3, func(t *testing.T, r *blocktest.Region) {
		id, _ := blocktest.Block(1, 100)
		owner := r.Ring.Owners(id, 3)[1]
		r.Crash(owner)
		remote := r.Client(t)
		require.ErrorIs(t, remote.Delete(t.Context(), []block.ID{id}), block.ErrUnavailable)
		require.Equal(t, []multicast.ProcessID{owner}, holders(t, r, id))
		r.Restart(t, owner)
		time.Sleep(2 * blocktest.Healing().RepairInterval) // virtual
		require.Equal(t, r.Ring.Owners(id, 3), holders(t, r, id))
		require.NoError(t, remote.Delete(t.Context(), []block.ID{id}))
		time.Sleep(2 * blocktest.Healing().RepairInterval) // virtual
		require.Empty(t, holders(t, r, id))
	})
}

// TestScrub finds and fixes bad copies, reports blocks without a good one, and counts exactly.
func TestScrub(t *testing.T) {
	healing(t, 5, 2, func(t *testing.T, r *blocktest.Region) {
		time.Sleep(time.Minute) // virtual: the scrub at the start
		begin := sum(r, func(s region.Status) uint64 { return s.Scrub.Blocks })
		rounds := sum(r, func(s region.Status) uint64 { return s.Scrub.Rounds })
		for i := range 10 {
			id, _ := blocktest.Block(i, 100)
			owners := r.Ring.Owners(id, 2)
			memory(r, owners[i%2]).Spoil(id)
			if i >= 7 {
				memory(r, owners[1-i%2]).Spoil(id)
			}
		}
		time.Sleep(blocktest.Healing().ScrubPause) // virtual
		got := region.ScrubStatus{
			Rounds: sum(r, func(s region.Status) uint64 { return s.Scrub.Rounds }) - rounds,
			Blocks: sum(r, func(s region.Status) uint64 { return s.Scrub.Blocks }) - begin,
			Found:  sum(r, func(s region.Status) uint64 { return s.Scrub.Found }),
			Fixed:  sum(r, func(s region.Status) uint64 { return s.Scrub.Fixed }), Unfixed: sum(r, func(s region.Status) uint64 { return s.Scrub.Unfixed }),
		}
		require.Equal(t, region.ScrubStatus{Rounds: 5, Blocks: 120, Found: 13, Fixed: 7, Unfixed: 6}, got)
		for i := range 10 {
			id, _ := blocktest.Block(i, 100)
			require.Len(t, holders(t, r, id), map[bool]int{true: 0, false: 2}[i >= 7])
		}
	})
}

// TestReadRepairOfMissingCopies: a get that finds an owner without its copy has the copy put there.
func TestReadRepairOfMissingCopies(t *testing.T) {
	healing(t, 5, 3, func(t *testing.T, r *blocktest.Region) {
		time.Sleep(time.Minute) // virtual: nothing else is to do
		id, data := blocktest.Block(5, 100)
		owners := r.Ring.Owners(id, 3)
		require.NoError(t, r.Disks[owners[0]].Delete(t.Context(), []block.ID{id}))
		near, err := region.NewRemote(r, owners[:1], time.Minute)
		require.NoError(t, err)
		blocktest.RequireBlock(t, near, id, data)
		synctest.Wait()
		require.Equal(t, owners, holders(t, r, id))
		require.EqualValues(t, 1, r.Node(owners[0]).Status().Repair.Cured)
	})
}

// TestSlowServersHoldUpNobody: with a hung first owner, or a hung disk of it, a get takes a small part of
// CallTimeout; and a put a part of CallTimeout.
func TestSlowServersHoldUpNobody(t *testing.T) {
	for name, hang := range map[string]func(*blocktest.Region, multicast.ProcessID, bool){
		"server": func(r *blocktest.Region, p multicast.ProcessID, hung bool) { r.SetHung(p, hung) },
		"disk":   func(r *blocktest.Region, p multicast.ProcessID, hung bool) { memory(r, p).Hang(hung) },
	} {
		t.Run(name, func(t *testing.T) {
			healing(t, 5, 2, func(t *testing.T, r *blocktest.Region) {
				for i := range 60 {
					id, data := blocktest.Block(i, 100)
					walk := r.Ring.Walk(id)
					near, err := region.NewRemote(r, walk[4:], time.Minute)
					require.NoError(t, err)
					blocktest.RequireBlock(t, near, id, data)
					hang(r, walk[0], true)
					began := time.Now()
					blocktest.RequireBlock(t, near, id, data)
					require.Less(t, time.Since(began), blocktest.CallTimeout/10)
					if i%10 == 0 {
						other, data := walkAlike(r, id, i)
						began = time.Now()
						require.NoError(t, near.Put(t.Context(), block.New(other, data)))
						require.LessOrEqual(t, time.Since(began), blocktest.CallTimeout/8)
					}
					hang(r, walk[0], false)
					time.Sleep(10 * time.Second) // virtual: it is trusted again
				}
			})
		})
	}
}

// walkAlike returns a block with the same first owner.
func walkAlike(r *blocktest.Region, id block.ID, i int) (block.ID, []byte) {
	for j := 1000 * (i + 1); ; j++ {
		if other, data := blocktest.Block(j, 50); r.Ring.Walk(other)[0] == r.Ring.Walk(id)[0] {
			return other, data
		}
	}
}

// TestRepairIsThrottled moves no more than RepairBytes a second, and clients do not wait for it.
func TestRepairIsThrottled(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := blocktest.NewRegion(t, 2, blocktest.NewMemory(blocktest.Big), blocktest.NewMemory(blocktest.Big))
		defer r.Close()
		for i := range 40 {
			id, data := blocktest.Block(i, block.MaxSize)
			require.NoError(t, r.Disks[1].Put(t.Context(), block.New(id, data)))
		}
		h := blocktest.Healing()
		h.RepairBytes = block.MaxSize // a second
		node, err := region.NewNode(region.Config{
			Self: 2, Members: r.Node(1).Members(), Copies: 2, Disk: r.Disks[2], Peers: r, CallTimeout: blocktest.CallTimeout, Healing: h,
		})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); node.Run(ctx) }()
		time.Sleep(20 * time.Second) // virtual
		require.InDelta(t, 20, len(memory(r, 2).IDs()), 3)
		time.Sleep(25 * time.Second) // virtual
		require.Len(t, memory(r, 2).IDs(), 40)
		require.EqualValues(t, 40*block.MaxSize, node.Status().Repair.FetchedBytes)
		stop()
		<-ended
	})
}

// TestLargeScopesInPages repairs more blocks than one digest covers, with few missing ones.
func TestLargeScopesInPages(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := blocktest.NewRegion(t, 2, blocktest.NewMemory(blocktest.Big), blocktest.NewMemory(blocktest.Big))
		defer r.Close()
		for i := range 5000 {
			id, data := blocktest.Block(i, 10)
			require.NoError(t, r.Disks[1].Put(t.Context(), block.New(id, data)))
			if i%700 != 0 {
				require.NoError(t, r.Disks[2].Put(t.Context(), block.New(id, data)))
			}
		}
		r.Run(2)
		time.Sleep(soon) // virtual
		require.Len(t, memory(r, 2).IDs(), 5000)
		s := r.Node(2).Status().Repair
		require.EqualValues(t, 8, s.Fetched)
		require.EqualValues(t, 8, s.Last.Missing, fmt.Sprint(s))
	})
}
