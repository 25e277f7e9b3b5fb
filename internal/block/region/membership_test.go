package region_test

import (
	"context"
	"errors"
	"slices"
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

func TestJoinMovesItsShare(t *testing.T) {
	healing(t, 5, 3, func(t *testing.T, r *blocktest.Region) {
		members := r.Node(1).Members()
		members.Version++
		members.Servers = append(members.Servers, region.Server{ID: 6, Datacenter: blocktest.Datacenter(6)})
		r.Add(t, 6, r.Node(1).Members(), blocktest.NewMemory(blocktest.Big))
		r.Run(6)
		admin := region.NewAdmin(r, time.Second)
		require.ErrorContains(t, admin.SetMembers(t.Context(), 6, members), "tell one that is")
		require.NoError(t, admin.SetMembers(t.Context(), 1, members))
		time.Sleep(soon) // virtual
		requireOwners(t, r, members, 3)
		moved := uint64(len(memory(r, 6).IDs()))
		require.Less(t, moved, uint64(60))
		require.Equal(t, moved, sum(r, func(s region.Status) uint64 { return s.Repair.Dropped }), "who gave way has dropped its copy, nobody else")
		time.Sleep(2 * blocktest.Healing().RepairInterval) // virtual: a round in which nothing is left to do
		for p := range r.Disks {
			s := r.Node(p).Status()
			require.Equal(t, members.Version, s.Members.Version, "all learn it from one")
			require.True(t, s.Repair.Last.Complete)
			require.Zero(t, s.Repair.Last.Missing+s.Repair.Last.Strays)
		}
	})
}

func TestLeavingServerIsDrained(t *testing.T) {
	healing(t, 5, 2, func(t *testing.T, r *blocktest.Region) {
		admin := region.NewAdmin(r, time.Second)
		members, err := admin.Members(t.Context(), 3)
		require.NoError(t, err)
		members.Version++
		members.Servers[1].Leaving = true
		require.NoError(t, admin.SetMembers(t.Context(), 4, members))
		had := uint64(len(memory(r, 2).IDs()))
		time.Sleep(soon) // virtual
		requireOwners(t, r, members, 2)
		status, err := admin.Status(t.Context(), 2)
		require.NoError(t, err)
		require.True(t, status.Drained)
		require.Equal(t, had, status.Repair.Dropped)
		require.Equal(t, members, status.Members)
		status, err = admin.Status(t.Context(), 1)
		require.NoError(t, err)
		require.False(t, status.Drained)

		members.Version++
		members.Servers = slices.Delete(members.Servers, 1, 2)
		require.NoError(t, admin.SetMembers(t.Context(), 1, members))
		r.Crash(2)
		time.Sleep(soon) // virtual
		requireOwners(t, r, members, 2)
		require.Empty(t, r.Node(1).Status().Down)
		members.Servers = nil
		require.Error(t, admin.SetMembers(t.Context(), 1, members))
	})
}

// TestNobodyDropsWhileAnOwnerDisagrees: the server that would drop a copy and an owner know different
// members. They must not be separated, so that they can learn them. The stand-in keeps its copy.
func TestNobodyDropsWhileAnOwnerDisagrees(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		disks := make([]region.Disk, 4)
		for i := range disks {
			disks[i] = blocktest.NewMemory(blocktest.Big)
		}
		r := blocktest.NewRegion(t, 2, disks...)
		defer r.Close()
		id, data := blocktest.Block(1, 100)
		walk := r.Ring.Walk(id)
		for _, p := range walk[:3] {
			require.NoError(t, r.Disks[p].Put(t.Context(), block.New(id, data)))
		}
		newer := r.Node(1).Members()
		newer.Version++
		require.NoError(t, r.Node(walk[1]).SetMembers(t.Context(), newer))
		// The owner takes no older members, and cannot be reached when it is asked for its own.
		r.SetCut(walk[1], walk[2], true)
		r.Run(walk[2])
		time.Sleep(soon) // virtual
		require.True(t, memory(r, walk[2]).Good(id))
		r.SetCut(walk[1], walk[2], false)
		time.Sleep(2 * blocktest.Healing().RepairInterval) // virtual
		require.False(t, memory(r, walk[2]).Good(id), "they have told each other")
		require.Equal(t, newer, r.Node(walk[2]).Members())
	})
}

// TestOtherMembersAreRefused: a server reports nothing of its blocks to a server that knows other members
// (M4).
func TestOtherMembersAreRefused(t *testing.T) {
	r := blocktest.NewMemoryRegion(t, 3)
	id, data := blocktest.Block(1, 100)
	require.NoError(t, r.Disks[1].Put(t.Context(), block.New(id, data)))
	members := []byte{1, 99} // version 1, but not these
	for name, request := range map[string][]byte{
		"have":   slices.Concat([]byte{15}, members, []byte{0, 1}, id[:]),
		"digest": slices.Concat([]byte{13}, members, []byte{2, 0}, id[:]),
		"scope":  slices.Concat([]byte{14}, members, []byte{2, 0}, id[:], id[:]),
	} {
		reply, err := r.Call(t.Context(), 1, request)
		require.NoError(t, err, name)
		require.EqualValues(t, 7, reply[0], "%s: %s", name, reply[1:])
	}
}

// TestMembersSurviveARestart: a server that has dropped copies by newer members must not go back to older
// ones.
func TestMembersSurviveARestart(t *testing.T) {
	healing(t, 4, 2, func(t *testing.T, r *blocktest.Region) {
		members := r.Node(1).Members()
		members.Version = 7
		require.NoError(t, r.Node(2).SetMembers(t.Context(), members))
		older := members
		older.Version = 6
		require.NoError(t, r.Node(2).SetMembers(t.Context(), older))
		time.Sleep(soon) // virtual
		for p := range r.Disks {
			r.Crash(p)
		}
		for p := range r.Disks {
			r.Restart(t, p)
			require.EqualValues(t, 7, r.Node(p).Members().Version)
		}
	})
}

// TestUnsavedMembersAreNotUsed: the node does not rely on members that it could forget.
func TestUnsavedMembersAreNotUsed(t *testing.T) {
	r := blocktest.NewMemoryRegion(t, 3)
	members := r.Node(1).Members()
	node, err := region.NewNode(region.Config{
		Self: 1, Members: members, Copies: 3, Disk: r.Disks[1], Peers: r, CallTimeout: time.Second, Healing: region.DefaultHealing(),
		Save: func(region.Members) error { return errors.New("read-only file system") },
	})
	require.NoError(t, err)
	members.Version++
	require.ErrorContains(t, node.SetMembers(t.Context(), members), "read-only file system")
	require.EqualValues(t, 1, node.Members().Version)
}

// TestTwoOperators make different members of one version: all servers end with the same.
func TestTwoOperators(t *testing.T) {
	healing(t, 6, 2, func(t *testing.T, r *blocktest.Region) {
		for i, p := range []multicast.ProcessID{1, 6} {
			members := r.Node(p).Members()
			members.Version++
			members.Servers[i].Leaving = true
			require.NoError(t, r.Node(p).SetMembers(t.Context(), members))
		}
		time.Sleep(soon) // virtual
		for p := range r.Disks {
			require.Equal(t, r.Node(1).Members(), r.Node(p).Members())
		}
		requireOwners(t, r, r.Node(1).Members(), 2)
	})
}

// TestFewerServersThanCopies: all servers that stay have all blocks.
func TestFewerServersThanCopies(t *testing.T) {
	healing(t, 3, 3, func(t *testing.T, r *blocktest.Region) {
		members := r.Node(1).Members()
		members.Version++
		members.Servers[0].Leaving = true
		require.NoError(t, r.Node(1).SetMembers(t.Context(), members))
		time.Sleep(soon) // virtual
		requireOwners(t, r, members, 2)
		id, data := blocktest.Block(99, 100)
		require.NoError(t, r.Client(t).Put(t.Context(), block.New(id, data)))
		require.Len(t, holders(t, r, id), 2)
	})
}

// TestProxyWithOldMembers finds blocks that have moved to servers that it does not know (B5).
func TestProxyWithOldMembers(t *testing.T) {
	healing(t, 3, 1, func(t *testing.T, r *blocktest.Region) {
		stale, err := region.NewNode(region.Config{
			Self: 99, Members: r.Node(1).Members(), Copies: 1, Disk: blocktest.NewMemory(blocktest.Big), Peers: r,
			CallTimeout: blocktest.CallTimeout, Healing: blocktest.Healing(),
		})
		require.NoError(t, err)
		members := r.Node(1).Members()
		members.Version++
		for i := range members.Servers {
			members.Servers[i].Leaving = true
		}
		members.Servers = append(members.Servers, region.Server{ID: 4, Datacenter: "dc0"})
		r.Add(t, 4, r.Node(1).Members(), blocktest.NewMemory(blocktest.Big))
		r.Run(4)
		require.NoError(t, r.Node(1).SetMembers(t.Context(), members))
		time.Sleep(soon) // virtual
		requireOwners(t, r, members, 1)
		for i := range 60 {
			id, data := blocktest.Block(i, 100)
			reply, err := stale.Handle(t.Context(), append([]byte{3}, id[:]...))
			require.NoError(t, err)
			require.Equal(t, data, reply[5:])
		}
		stale.Close()
	})
}

// TestBlockMovesWhileItIsLookedFor: the block leaves each server before the search asks it, and moves to a
// server that was asked already. It is not reported missing (B5).
func TestBlockMovesWhileItIsLookedFor(t *testing.T) {
	r := blocktest.NewMemoryRegion(t, 3)
	m := &moving{Region: r, asked: make(chan struct{})}
	m.id, m.data = blocktest.Block(1, 100)
	require.NoError(t, r.Disks[1].Put(t.Context(), block.New(m.id, m.data)))
	proxy, err := region.NewNode(region.Config{
		Self: 99, Members: r.Node(1).Members(), Copies: 3, Disk: blocktest.NewMemory(blocktest.Big), Peers: m,
		CallTimeout: blocktest.CallTimeout, Healing: blocktest.Healing(),
	})
	require.NoError(t, err)
	defer proxy.Close()
	reply, err := proxy.Handle(t.Context(), append([]byte{3}, m.id[:]...))
	require.NoError(t, err)
	require.Equal(t, m.data, reply[5:])
	require.True(t, m.moved.Load())
}

// moving is a region with a block that moves from server 1 to server 2 between two requests of one sweep.
type moving struct {
	*blocktest.Region
	id    block.ID
	data  []byte
	moved atomic.Bool
	asked chan struct{} // closed when server 2 has reported that it does not have the block
}

// Call implements region.Caller.
func (m *moving) Call(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error) {
	const fetch, have, notFound = 4, 15, 1
	if m.moved.Load() {
		return m.Region.Call(ctx, to, request)
	}
	switch {
	case request[0] == fetch: // it was elsewhere just then
		return []byte{notFound}, nil
	case request[0] == have && to == 1:
		<-m.asked
		if err := m.Disks[2].Put(ctx, block.New(m.id, m.data)); err != nil {
			return nil, err
		}
		if err := m.Disks[1].Delete(ctx, []block.ID{m.id}); err != nil {
			return nil, err
		}
		m.moved.Store(true)
	case request[0] == have && to == 2:
		defer close(m.asked)
	}
	return m.Region.Call(ctx, to, request)
}
