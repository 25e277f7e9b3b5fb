package region_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/block/region"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/test/bubble"
)

// memory returns the memory of a server.
func memory(r *blocktest.Region, server multicast.ProcessID) *blocktest.Memory {
	return r.Disk(server).(*blocktest.Memory)
}

// holders returns the servers that have a good copy, in ring order.
func holders(t testing.TB, r *blocktest.Region, id block.ID) []multicast.ProcessID {
	var has []multicast.ProcessID
	for _, p := range r.Ring.Walk(id) {
		if _, err := r.Disks[p].Get(t.Context(), id, nil); err == nil {
			has = append(has, p)
		}
	}
	return has
}

func TestPutIsOnTheOwners(t *testing.T) {
	r := blocktest.NewMemoryRegion(t, 7)
	remote := r.Client(t)
	for i := range 50 {
		id, data := blocktest.Block(i, 100)
		require.NoError(t, remote.Put(t.Context(), block.New(id, data)))
		require.Equal(t, r.Ring.Owners(id, 3), holders(t, r, id))
	}
}

// TestStandIns puts while owners fail in all ways: the next servers on the ring take the copies, and the
// block can be read from any server.
func TestStandIns(t *testing.T) {
	id, data := blocktest.Block(1, 5000)
	for name, fail := range map[string]func(*blocktest.Region, multicast.ProcessID){
		"down":  func(r *blocktest.Region, p multicast.ProcessID) { r.SetDown(p, true) },
		"hung":  func(r *blocktest.Region, p multicast.ProcessID) { r.SetHung(p, true) },
		"full":  func(r *blocktest.Region, p multicast.ProcessID) { memory(r, p).Fail(block.ErrNoSpace) },
		"error": func(r *blocktest.Region, p multicast.ProcessID) { memory(r, p).Fail(errors.New("input/output error")) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				r := blocktest.NewMemoryRegion(t, 7)
				walk := r.Ring.Walk(id)
				fail(r, walk[0])
				fail(r, walk[2])
				begin := time.Now()
				require.NoError(t, r.Client(t).Put(t.Context(), block.New(id, data)))
				require.LessOrEqual(t, time.Since(begin), 5*blocktest.CallTimeout)
				require.Equal(t, []multicast.ProcessID{walk[1], walk[3], walk[4]}, holders(t, r, id))
				blocktest.RequireBlock(t, r.Client(t), id, data)
			})
		})
	}
}

// TestTooFewServers requires ErrUnavailable, or ErrNoSpace if that is the reason. A put never acknowledges
// fewer copies.
func TestTooFewServers(t *testing.T) {
	id, data := blocktest.Block(1, 5000)
	r := blocktest.NewMemoryRegion(t, 4)
	r.SetDown(2, true)
	r.SetDown(3, true)
	require.ErrorIs(t, r.Client(t).Put(t.Context(), block.New(id, data)), block.ErrUnavailable)
	r.SetDown(3, false)
	memory(r, 4).Fail(block.ErrNoSpace)
	require.ErrorIs(t, r.Client(t).Put(t.Context(), block.New(id, data)), block.ErrNoSpace)
	memory(r, 4).Fail(nil)
	require.NoError(t, r.Client(t).Put(t.Context(), block.New(id, data)))
	require.Len(t, holders(t, r, id), 3)
}

// TestHungServerDelaysOneCall: a server that did not answer is asked last for a while.
func TestHungServerDelaysOneCall(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		r := blocktest.NewMemoryRegion(t, 5)
		remote := r.Client(t)
		r.SetHung(1, true)
		for i := range 20 {
			id, data := blocktest.Block(i, 10)
			require.NoError(t, remote.Put(t.Context(), block.New(id, data)))
		}
		begin := time.Now()
		for i := range 20 {
			id, data := blocktest.Block(i, 10)
			require.NoError(t, remote.Put(t.Context(), block.New(id, data)))
			blocktest.RequireBlock(t, remote, id, data)
		}
		require.Zero(t, time.Since(begin))
	})
}

// TestReadRepair replaces bad copies that a get finds: the own one and those of other servers.
func TestReadRepair(t *testing.T) {
	bubble.Test(t, func(t *testing.T) { // in time that stands still nobody is too slow
		id, data := blocktest.Block(1, 5000)
		r := blocktest.NewMemoryRegion(t, 5)
		walk := r.Ring.Walk(id)
		require.NoError(t, r.Client(t).Put(t.Context(), block.New(id, data)))
		for _, at := range []multicast.ProcessID{walk[0], walk[1], walk[4]} { // an owner begins with its own copy
			near, err := region.NewRemote(r, []multicast.ProcessID{at}, time.Second)
			require.NoError(t, err)
			bad := []multicast.ProcessID{at}
			if at == walk[4] {
				bad = walk[:2]
			}
			for _, p := range bad {
				memory(r, p).Spoil(id)
			}
			require.Len(t, holders(t, r, id), 3-len(bad))
			blocktest.RequireBlock(t, near, id, data)
			require.Equal(t, walk[:3], holders(t, r, id))
		}
	})
}

// TestNoGoodCopy distinguishes lost blocks from blocks that cannot be reached (B5).
func TestNoGoodCopy(t *testing.T) {
	id, data := blocktest.Block(1, 5000)
	r := blocktest.NewMemoryRegion(t, 5)
	remote := r.Client(t)
	require.NoError(t, remote.Put(t.Context(), block.New(id, data)))
	owners := r.Ring.Owners(id, 3)
	for _, p := range owners {
		memory(r, p).Spoil(id)
	}
	_, err := remote.Get(t.Context(), id, nil)
	require.ErrorIs(t, err, block.ErrCorrupt)
	memory(r, owners[2]).Fail(errors.New("input/output error"))
	_, err = remote.Get(t.Context(), id, nil)
	require.ErrorIs(t, err, block.ErrUnavailable)
	require.NotErrorIs(t, err, block.ErrNotFound)
	missing, _ := blocktest.Block(2, 1)
	_, err = remote.Get(t.Context(), missing, nil)
	require.ErrorIs(t, err, block.ErrUnavailable)
}

// A delete also reaches stand-ins, and returns an error if it did not reach a server (B6).
func TestDeleteReachesStandIns(t *testing.T) {
	id, data := blocktest.Block(1, 5000)
	r := blocktest.NewMemoryRegion(t, 5)
	remote := r.Client(t)
	owner := r.Ring.Owners(id, 1)[0]
	r.SetDown(owner, true)
	require.NoError(t, remote.Put(t.Context(), block.New(id, data)))
	require.ErrorIs(t, remote.Delete(t.Context(), []block.ID{id}), block.ErrUnavailable)
	r.SetDown(owner, false)
	require.NoError(t, remote.Delete(t.Context(), []block.ID{id}))
	require.Empty(t, holders(t, r, id))
}

func TestRemoteRangeAndUsageWithAServerDown(t *testing.T) {
	r := blocktest.NewMemoryRegion(t, 5)
	remote := r.Client(t)
	for i := range 10 {
		id, data := blocktest.Block(i, 100)
		require.NoError(t, remote.Put(t.Context(), block.New(id, data)))
	}
	total, free, _, err := remote.Usage(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 5*blocktest.Big, total)
	require.EqualValues(t, total-10*3*100, free)

	r.SetDown(3, true)
	total, _, _, err = remote.Usage(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 4*blocktest.Big, total)
	ids, err := blocktest.Collect(remote.Range(t.Context(), block.ID{}, block.LastID))
	require.ErrorIs(t, err, block.ErrUnavailable)
	require.Len(t, ids, 10)
	for p := range r.Disks {
		r.SetDown(p, true)
	}
	_, _, _, err = remote.Usage(t.Context())
	require.ErrorIs(t, err, block.ErrUnavailable)
}

func TestNodeConfig(t *testing.T) {
	r := blocktest.NewMemoryRegion(t, 3)
	good := region.Config{
		Self: 1, Members: r.Node(1).Members(), Copies: 3, Disk: r.Disks[1], Peers: r, CallTimeout: time.Second, Healing: region.DefaultHealing(),
	}
	_, err := region.NewNode(good)
	require.NoError(t, err)
	for name, change := range map[string]func(*region.Config){
		"nobody":      func(c *region.Config) { c.Self = 0 },
		"no copies":   func(c *region.Config) { c.Copies = 0 },
		"no timeout":  func(c *region.Config) { c.CallTimeout = 0 },
		"no disk":     func(c *region.Config) { c.Disk = nil },
		"no members":  func(c *region.Config) { c.Members.Servers = nil },
		"no version":  func(c *region.Config) { c.Members.Version = 0 },
		"no pings":    func(c *region.Config) { c.Healing.PingInterval = 0 },
		"soon down":   func(c *region.Config) { c.Healing.DownAfter = time.Second },
		"long pause":  func(c *region.Config) { c.Healing.RepairPause = time.Hour },
		"no transfer": func(c *region.Config) { c.Healing.RepairBytes = 0 },
	} {
		bad := good
		change(&bad)
		_, err := region.NewNode(bad)
		require.Error(t, err, name)
	}
}

// TestBadRequests stores only bytes that the client sent (B1).
func TestBadRequests(t *testing.T) {
	r := blocktest.NewMemoryRegion(t, 3)
	_, err := r.Call(t.Context(), 1, []byte("no request"))
	require.Error(t, err)
	id, data := blocktest.Block(1, 100)
	for _, op := range []byte{1, 2} { // put, store
		damaged := append(append([]byte{op}, id[:]...), 0, 0, 0, 0) // not the checksum
		reply, err := r.Call(t.Context(), 1, append(damaged, data...))
		require.NoError(t, err)
		require.NotZero(t, reply[0])
		require.Empty(t, holders(t, r, id))
	}
}
