package storage

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/disk"
	"github.com/globalfs/globalfs/internal/block/region"
	"github.com/globalfs/globalfs/internal/block/ring"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// regionServers are the storage servers of a region, with the state of their clients.
type regionServers struct {
	run     int
	dir     string
	random  *rand.Rand
	members region.Members
	running map[multicast.ProcessID]*process
	last    multicast.ProcessID // newest server
	small   multicast.ProcessID // the server with a disk that can be filled; 0: none
	client  *transport.Client
	admin   *region.Admin

	mu      sync.Mutex
	present map[block.ID]bool // GUARDED_BY mu; acknowledged and not deleted
	deleted map[block.ID]bool // GUARDED_BY mu; a delete was tried
	puts    int               // GUARDED_BY mu; acknowledged
	refused int               // GUARDED_BY mu; not acknowledged
	gets    int               // GUARDED_BY mu
}

func newServers(t *testing.T, seed uint64, n int) *regionServers {
	r := &regionServers{
		run: os.Getpid(), dir: t.TempDir(), random: rand.New(rand.NewPCG(seed, 1)), running: map[multicast.ProcessID]*process{},
		members: region.Members{Version: 1}, present: map[block.ID]bool{}, deleted: map[block.ID]bool{},
	}
	r.client = transport.Dial(transport.Config{Resolve: func(p multicast.ProcessID) (string, bool) { return address(r.run, p), true }})
	t.Cleanup(func() { require.NoError(t, r.client.Close()) })
	r.admin = region.NewAdmin(r.client, 5*time.Second)
	for range n {
		r.add()
	}
	for _, s := range r.members.Servers {
		r.start(t, s.ID)
	}
	t.Cleanup(func() {
		for id := range r.running {
			r.running[id].kill(t)
		}
	})
	return r
}

// add makes a new server a member.
func (r *regionServers) add() multicast.ProcessID {
	r.last++
	r.members.Servers = append(slices.Clone(r.members.Servers), region.Server{ID: r.last, Datacenter: fmt.Sprint("datacenter-", r.last)})
	return r.last
}

func (r *regionServers) dirOf(id multicast.ProcessID) string {
	return filepath.Join(r.dir, fmt.Sprint(id))
}

func (r *regionServers) start(t *testing.T, id multicast.ProcessID) {
	r.running[id] = startServer(t, &order{Run: r.run, Self: id, Dir: r.dirOf(id), Members: r.members})
}

// store returns the region for a client that asks the member with index first before the others.
func (r *regionServers) store(t *testing.T, first int) *region.Remote {
	var ids []multicast.ProcessID
	for i := range r.members.Servers {
		ids = append(ids, r.members.Servers[(first+i)%len(r.members.Servers)].ID)
	}
	remote, err := region.NewRemote(r.client, ids, 10*time.Second)
	require.NoError(t, err)
	return remote
}

// data returns the bytes of a block, which depend only on its id.
func data(id block.ID) []byte {
	sizes := []int{1, 200, 1000, 4097, 32 << 10, 200 << 10, block.MaxSize}
	counter := id.Counter()
	b := make([]byte, sizes[counter%uint64(len(sizes))])
	var seed [32]byte
	binary.BigEndian.PutUint64(seed[:], counter)
	_, _ = rand.NewChaCha8(seed).Read(b)
	return b
}

// load puts, gets and deletes until ctx ends. It returns the first wrong answer.
func (r *regionServers) load(ctx context.Context, t *testing.T, writer uint64, stores []*region.Remote) error {
	random := rand.New(rand.NewPCG(writer, 2))
	for n := uint64(1); ctx.Err() == nil; n++ {
		store := stores[random.IntN(len(stores))]
		switch {
		case n%3 != 0:
			r.put(ctx, store, posix.MakeBlockID(0, writer, n))
		case n%15 == 0:
			r.remove(ctx, store, random)
		default:
			if err := r.get(ctx, store, random); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *regionServers) put(ctx context.Context, store block.Store, id block.ID) {
	err := store.Put(ctx, block.New(id, data(id)))
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.present[id] = true
		r.puts++
	} else {
		r.deleted[id] = true // it may be stored or not
		r.refused++
	}
}

// some returns a random present block. It returns false if there is none, and with n blocks with a
// probability of 1/(n+1).
func (r *regionServers) some(random *rand.Rand) (block.ID, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	skip := random.IntN(len(r.present) + 1)
	for id := range r.present {
		if skip--; skip < 0 {
			return id, true
		}
	}
	return block.ID{}, false
}

func (r *regionServers) remove(ctx context.Context, store block.Store, random *rand.Rand) {
	id, ok := r.some(random)
	if !ok {
		return
	}
	r.mu.Lock()
	delete(r.present, id)
	r.deleted[id] = true
	r.mu.Unlock()
	_ = store.Delete(ctx, []block.ID{id}) // an unavailable server brings it back
}

// get reads a block. Servers may be unavailable, but no answer may be wrong.
func (r *regionServers) get(ctx context.Context, store block.Store, random *rand.Rand) error {
	id, ok := r.some(random)
	if !ok {
		return nil
	}
	got, err := store.Get(ctx, id, nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gets++
	switch {
	case !r.present[id] || ctx.Err() != nil || errors.Is(err, block.ErrUnavailable):
		return nil
	case err != nil:
		return fmt.Errorf("block %v, which was acknowledged: %w", id, err)
	case !bytes.Equal(got, data(id)):
		return fmt.Errorf("block %v has wrong bytes", id)
	}
	return nil
}

// awaitWhole waits until all servers have completed rounds of repair and scrub without work that began after
// the call.
func (r *regionServers) awaitWhole(t *testing.T) {
	t.Helper()
	type rounds struct{ repair, scrub, found uint64 }
	at := map[multicast.ProcessID]rounds{}
	defer func() {
		if t.Failed() {
			r.logStatus(t)
		}
	}()
	require.Eventually(t, func() bool {
		whole := true
		for _, s := range r.members.Servers {
			status, err := r.admin.Status(t.Context(), s.ID)
			now := rounds{status.Repair.Rounds, status.Scrub.Rounds, status.Scrub.Found}
			last := status.Repair.Last
			good := err == nil && status.Members.Version == r.members.Version && len(status.Down) == 0 &&
				last.Complete && last.Version == r.members.Version && last.Missing+last.Strays == 0
			before, seen := at[s.ID]
			if !good || !seen || before.found != now.found {
				at[s.ID], whole = now, false
				continue
			}
			whole = whole && now.repair >= before.repair+2 && now.scrub >= before.scrub+2
		}
		return whole
	}, 2*time.Minute, 200*time.Millisecond, "the region does not become whole")
}

// logStatus logs the status of the servers.
func (r *regionServers) logStatus(t *testing.T) {
	for _, s := range r.members.Servers {
		status, err := r.admin.Status(context.Background(), s.ID)
		t.Logf("server %d: version %d, down %v, repair %+v, scrub %+v, error %v", s.ID, status.Members.Version, status.Down, status.Repair, status.Scrub, err)
	}
}

// collect deletes again the blocks that were deleted, or put without success, like the sweeps of a collector:
// servers that were unavailable have brought some of them back, perhaps only as damaged copies.
func (r *regionServers) collect(t *testing.T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ids []block.ID
	for id := range r.deleted {
		ids = append(ids, id)
	}
	require.NoError(t, r.store(t, 0).Delete(t.Context(), ids))
}

// tell sends the changed members to the region.
func (r *regionServers) tell(t *testing.T) {
	r.members.Version++
	require.Eventually(t, func() bool {
		for _, s := range r.members.Servers {
			if r.running[s.ID] != nil && r.admin.SetMembers(t.Context(), s.ID, r.members) == nil {
				return true
			}
		}
		return false
	}, 30*time.Second, 100*time.Millisecond)
}

// checkAll reads every present block, through one server after the other.
func (r *regionServers) checkAll(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	stores := r.stores(t)
	n := 0
	for id := range r.present {
		got, err := stores[n%len(stores)].Get(t.Context(), id, nil)
		require.NoError(t, err, "%v", id)
		require.True(t, bytes.Equal(got, data(id)), "%v", id)
		n++
	}
}

func (r *regionServers) stores(t *testing.T) (stores []*region.Remote) {
	for i := range r.members.Servers {
		stores = append(stores, r.store(t, i))
	}
	return stores
}

// checkDisks stops all servers and checks their disks: each block must have exactly its number of intact
// copies, on its owners.
func (r *regionServers) checkDisks(t *testing.T) {
	t.Helper()
	var members []ring.Member
	for _, s := range r.members.Servers {
		members = append(members, ring.Member{ID: s.ID, Datacenter: s.Datacenter})
	}
	placed, err := ring.New(members)
	require.NoError(t, err)
	for _, p := range r.running { // all at once, so that no server takes over blocks of another one
		p.signal(t, syscall.SIGTERM)
	}
	for id, p := range r.running {
		p.stop(t)
		delete(r.running, id)
	}
	holders := map[block.ID][]multicast.ProcessID{}
	for _, s := range r.members.Servers {
		config := disk.DefaultConfig(filepath.Join(r.dirOf(s.ID), "blocks"))
		disk, err := disk.Open(config)
		require.NoError(t, err)
		for id, err := range disk.Range(t.Context(), block.ID{}, block.LastID) {
			require.NoError(t, err)
			got, err := disk.Get(t.Context(), id, nil)
			require.NoError(t, err, "the copy of block %v on server %d", id, s.ID)
			require.True(t, bytes.Equal(got, data(id)), "the copy of block %v on server %d", id, s.ID)
			holders[id] = append(holders[id], s.ID)
		}
		require.NoError(t, disk.Close())
	}
	for id := range r.present {
		require.Contains(t, holders, id)
	}
	for id, at := range holders {
		require.True(t, r.present[id] || r.deleted[id], "block %v was never put", id)
		owners := slices.Clone(placed.Owners(id, copies))
		slices.Sort(owners)
		slices.Sort(at)
		require.Equal(t, owners, at, "block %v", id)
	}
	t.Logf("%d blocks are there, %d of them deleted ones that came back with servers that had been away", len(holders), len(holders)-len(r.present))
}
