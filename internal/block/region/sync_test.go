package region_test

import (
	"context"
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

// syncedDisk counts its syncs.
type syncedDisk struct {
	region.Disk
	durable bool // it syncs each block before it answers
	syncs   atomic.Int64
	fails   atomic.Bool
	hangs   atomic.Pointer[chan struct{}] // until it is closed
}

func (d *syncedDisk) Durable() bool { return d.durable }

func (d *syncedDisk) Sync(context.Context) error {
	d.syncs.Add(1)
	if hangs := d.hangs.Load(); hangs != nil {
		<-*hangs
	}
	if d.fails.Load() {
		return errors.New("input/output error")
	}
	return nil
}

// A sync of a region reaches all servers. It fails if so many fail that a block could be on none of the
// others.
func TestSync(t *testing.T) {
	var disks []*syncedDisk
	var all []region.Disk
	for range 3 {
		disks = append(disks, &syncedDisk{Disk: blocktest.NewMemory(1 << 20)})
		all = append(all, disks[len(disks)-1])
	}
	r := blocktest.NewRegion(t, 2, all...)
	defer r.Close()
	remote := r.Client(t)
	blocks := 0
	sync := func() error {
		blocks++
		id, data := blocktest.Block(blocks, 100)
		require.NoError(t, remote.Put(t.Context(), block.New(id, data)))
		return remote.Sync(t.Context())
	}
	require.NoError(t, sync())
	for _, d := range disks {
		require.Eventually(t, func() bool { return d.syncs.Load() == 1 }, 10*time.Second, time.Millisecond)
	}
	answers := make(chan struct{})
	disks[2].hangs.Store(&answers)
	require.NoError(t, sync(), "one is not waited for")
	disks[2].hangs.Store(nil)
	close(answers)
	disks[0].fails.Store(true)
	require.NoError(t, sync(), "each block has two copies")
	disks[1].fails.Store(true)
	require.ErrorIs(t, sync(), block.ErrUnavailable)
	require.ErrorIs(t, remote.Sync(t.Context()), block.ErrUnavailable, "the block may still not be on disk")
}

// A client does not sync a region if the replies to all its puts have confirmed that the copies are on disk.
// One server whose replies do not confirm this is enough for a sync.
func TestSyncOfBlocksOnDisk(t *testing.T) {
	for name, puts := range map[string]func(ctx context.Context, r *region.Remote, blocks []block.Block) error{
		"one by one": func(ctx context.Context, r *region.Remote, blocks []block.Block) error {
			for _, b := range blocks {
				if err := r.Put(ctx, b); err != nil {
					return err
				}
			}
			return nil
		},
		"together": func(ctx context.Context, r *region.Remote, blocks []block.Block) error { return r.PutAll(ctx, blocks) },
	} {
		t.Run(name, func(t *testing.T) {
			for volatile := range 2 {
				var disks []*syncedDisk
				var servers []region.Disk
				for i := range 3 {
					disks = append(disks, &syncedDisk{Disk: blocktest.NewMemory(1 << 20), durable: i >= volatile})
					servers = append(servers, disks[i])
				}
				r := blocktest.NewRegion(t, 3, servers...)
				remote := r.Client(t)
				require.NoError(t, remote.Sync(t.Context()), "for the blocks of clients before")
				require.NoError(t, remote.Sync(t.Context()))
				var blocks []block.Block
				for i := range 3 {
					id, data := blocktest.Block(i+1, 100)
					blocks = append(blocks, block.New(id, data))
				}
				require.NoError(t, puts(t.Context(), remote, blocks))
				require.NoError(t, remote.Sync(t.Context()))
				require.NoError(t, remote.Sync(t.Context()))
				all := func() (n int) {
					for _, d := range disks {
						n += int(d.syncs.Load())
					}
					return n
				}
				require.Eventually(t, func() bool { return all() >= 3*(1+volatile) }, 10*time.Second, time.Millisecond)
				r.Close() // waits for the servers that a sync does not wait for
				require.Equal(t, 3*(1+volatile), all())
			}
		})
	}
}

// A server that stood in for another one keeps its copy until the owners have theirs on disk: with durability
// os a copy is stored before it is on disk, and the copy of the stand-in may have been synced.
func TestHandBackWaitsForTheDisk(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var disks []*syncedDisk
		var all []region.Disk
		for range 3 {
			disks = append(disks, &syncedDisk{Disk: blocktest.NewMemory(blocktest.Big)})
			all = append(all, disks[len(disks)-1])
		}
		r := blocktest.NewRegion(t, 1, all...)
		defer r.Close()
		id, data := blocktest.Block(1, 100)
		owner := r.Ring.Owners(id, 1)[0]
		standIn := owner%3 + 1
		require.NoError(t, disks[standIn-1].Put(t.Context(), block.New(id, data)))
		has := func(p multicast.ProcessID) bool { return disks[p-1].Disk.(*blocktest.Memory).Good(id) }
		disks[owner-1].fails.Store(true)
		for p := range r.Disks {
			r.Run(p)
		}
		time.Sleep(soon) // virtual
		require.True(t, has(owner))
		require.True(t, has(standIn), "the owner may lose its copy")
		disks[owner-1].fails.Store(false)
		time.Sleep(2 * blocktest.Healing().RepairInterval) // virtual
		require.False(t, has(standIn))
		require.True(t, has(owner))
	})
}

// Clients that sync and do not wait share the flushes of a server.
func TestSyncsShareFlushes(t *testing.T) {
	d := &syncedDisk{Disk: blocktest.NewMemory(1 << 20)}
	r := blocktest.NewRegion(t, 1, d)
	defer r.Close()
	remote := r.Client(t)
	hangs := make(chan struct{})
	d.hangs.Store(&hangs)
	for range 100 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		require.Error(t, remote.Sync(ctx))
		cancel()
	}
	require.EqualValues(t, 1, d.syncs.Load())
	d.hangs.Store(nil)
	close(hangs)
	require.NoError(t, remote.Sync(t.Context()))
	require.LessOrEqual(t, d.syncs.Load(), int64(3))
}

// A region that a put has not reached counts as not synced: otherwise its sync without a request would be one
// of the majority.
func TestSyncWithARegionAway(t *testing.T) {
	var disks []*syncedDisk
	var mem []*blocktest.Memory
	var stores []block.Store
	for range 3 {
		m := blocktest.NewMemory(1 << 20)
		d := &syncedDisk{Disk: m}
		r := blocktest.NewRegion(t, 1, region.Disk(d))
		defer r.Close()
		mem, disks, stores = append(mem, m), append(disks, d), append(stores, r.Client(t))
	}
	n, err := block.NewNearest(stores...)
	require.NoError(t, err)
	for _, s := range stores {
		require.NoError(t, block.Sync(t.Context(), s)) // the first one always asks
	}
	mem[2].Fail(block.ErrUnavailable) // then a region fails
	disks[2].fails.Store(true)
	disks[0].fails.Store(true) // and the disk of another one
	id, data := blocktest.Block(1, 100)
	require.NoError(t, n.Put(t.Context(), block.New(id, data)))
	require.Error(t, n.Sync(t.Context()), "only region 1 of 3 can have the block on disk")
}
