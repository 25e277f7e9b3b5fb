package region_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/blocktest"
	"github.com/globalfs/globalfs/internal/block/region"
	"github.com/globalfs/globalfs/internal/block/ring"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/test/bubble"
)

var (
	seeds   = flag.Int("block.seeds", 10, "how many random regions TestRegionHeals tries (with -short at most 3)")
	oneSeed = flag.Uint64("block.seed", 0, "the one random region that TestRegionHeals tries")
	logging = flag.Bool("block.log", false, "log what the servers of random regions say")
)

// TestRegionHeals lets clients put, get and delete during many faults: servers crash, lose their disks, get
// slow, hang and fill up, copies rot, messages are late or lost, and servers join and leave. But no block
// loses more than r-1 copies before all faults end. Then the region must become whole. At no time may a block
// that was put and not deleted be reported lost.
//
// A seed gives the same servers, faults and requests again, but not the same order of goroutines: if only
// some runs find an error, repeat the seed with -count.
func TestRegionHeals(t *testing.T) {
	if *oneSeed != 0 {
		heal(t, *oneSeed)
		return
	}
	n := uint64(*seeds)
	if testing.Short() {
		n = min(n, 3)
	}
	for seed := range n {
		if !heal(t, seed+1) {
			return
		}
	}
}

func heal(t *testing.T, seed uint64) bool {
	return t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
		blocktest.CheckLeaks(t)
		defer func() {
			if t.Failed() {
				t.Logf("replay: go test ./internal/block -run TestRegionHeals -block.seed=%d -block.log", seed)
			}
		}()
		bubble.Test(t, func(t *testing.T) {
			w := newWorld(t, seed)
			defer w.region.Close()
			for range 2 {
				w.chaos()
				w.calm()
				w.requireWhole()
			}
		})
	})
}

// world is a region with its faults and the state of its clients.
type world struct {
	t      *testing.T
	random *rand.Rand // of the faults
	region *blocktest.Region
	copies int
	rate   float64       // of messages that are lost, in chaos
	delay  time.Duration // of messages, at most
	churn  bool          // no faults, but members change all the time, and not all servers learn them soon

	mu      sync.Mutex
	members region.Members                  // GUARDED_BY mu; the newest
	crashed map[multicast.ProcessID]bool    // GUARDED_BY mu
	sick    map[multicast.ProcessID]bool    // GUARDED_BY mu; the disk hangs or fails
	faults  int                             // GUARDED_BY mu; number of faults so far
	acked   map[block.ID][]byte             // GUARDED_BY mu; put, and not deleted
	losses  map[block.ID]int                // GUARDED_BY mu; copies lost since the region was whole
	next    uint64                          // GUARDED_BY mu; number of the next block
	cuts    map[[2]multicast.ProcessID]bool // GUARDED_BY mu
}

func newWorld(t *testing.T, seed uint64) *world {
	random := rand.New(rand.NewPCG(seed, 1))
	n := 5 + random.IntN(5)
	w := &world{
		t: t, random: random, copies: 1 + random.IntN(3), rate: pick(random, []float64{0, 0.02, 0.1}),
		delay:   pick(random, []time.Duration{time.Millisecond, 20 * time.Millisecond, 500 * time.Millisecond}),
		churn:   random.IntN(3) == 0,
		crashed: make(map[multicast.ProcessID]bool), sick: make(map[multicast.ProcessID]bool),
		acked: make(map[block.ID][]byte), losses: make(map[block.ID]int), cuts: make(map[[2]multicast.ProcessID]bool),
	}
	disks := make([]region.Disk, n)
	for i := range disks {
		disks[i] = blocktest.NewMemory(blocktest.Big)
	}
	w.region = blocktest.NewRegion(t, w.copies, disks...)
	if *logging {
		w.region.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	w.members = w.region.Node(1).Members()
	for _, s := range w.members.Servers {
		w.region.Run(s.ID)
	}
	return w
}

// say logs an event, if logging is set.
func (w *world) say(format string, args ...any) {
	if *logging {
		fmt.Fprintf(os.Stderr, "%s %s\n", time.Now().Format("15:04:05.000"), fmt.Sprintf(format, args...))
	}
}

func (w *world) disk(id multicast.ProcessID) *blocktest.Memory { return memory(w.region, id) }

// servers returns the members that have not left yet.
func (w *world) servers() []multicast.ProcessID {
	w.mu.Lock()
	defer w.mu.Unlock()
	var ids []multicast.ProcessID
	for _, s := range w.members.Servers {
		ids = append(ids, s.ID)
	}
	return ids
}

func pick[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }

// chaos runs clients during faults.
func (w *world) chaos() {
	ctx, stop := context.WithCancel(w.t.Context())
	w.region.Disturb(rand.New(rand.NewPCG(w.random.Uint64(), 2)), w.delay, w.rate)
	var clients sync.WaitGroup
	for range 3 {
		random := rand.New(rand.NewPCG(w.random.Uint64(), 3))
		clients.Go(func() {
			for ctx.Err() == nil {
				w.request(ctx, random)
				time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond) // virtual
			}
		})
	}
	end := time.Now().Add(4 * time.Minute)
	for time.Now().Before(end) {
		if w.churn {
			time.Sleep(time.Duration(w.random.IntN(2000)) * time.Millisecond) // virtual
			w.turn()
		} else {
			time.Sleep(time.Duration(w.random.IntN(8000)) * time.Millisecond) // virtual
			w.fault()
		}
	}
	stop()
	clients.Wait()
}

// request is one random request of a client.
func (w *world) request(ctx context.Context, random *rand.Rand) {
	at := pick(random, w.servers())
	remote, err := region.NewRemote(w.region, []multicast.ProcessID{at}, time.Minute)
	require.NoError(w.t, err)
	switch kind := random.IntN(20); {
	case kind < 8:
		w.put(ctx, random, remote)
	case kind < 19:
		if id, data := w.some(random); data != nil {
			w.get(ctx, at, id, data)
		}
	default:
		if id, data := w.some(random); data != nil {
			w.mu.Lock()
			delete(w.acked, id)
			w.mu.Unlock()
			w.say("delete %v at %d: %v", id, at, remote.Delete(ctx, []block.ID{id}))
		}
	}
}

// some returns a stored block.
func (w *world) some(random *rand.Rand) (block.ID, []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.acked) == 0 {
		return block.ID{}, nil
	}
	ids := slices.SortedFunc(maps.Keys(w.acked), func(a, b block.ID) int { return slices.Compare(a[:], b[:]) })
	id := pick(random, ids)
	return id, w.acked[id]
}

func (w *world) put(ctx context.Context, random *rand.Rand, remote *region.Remote) {
	w.mu.Lock()
	w.next++
	id := posix.MakeBlockID(1, 2, w.next)
	w.mu.Unlock()
	data := make([]byte, 1+random.IntN(200))
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	err := remote.Put(ctx, block.New(id, data))
	w.say("put %v: %v", id, err)
	if err == nil {
		w.mu.Lock()
		w.acked[id] = data
		w.mu.Unlock()
	}
}

// get reads a block. It may be out of reach, but then no server that can be reached has it.
func (w *world) get(ctx context.Context, at multicast.ProcessID, id block.ID, data []byte) {
	faults, before := w.reachable(at, id)
	remote, err := region.NewRemote(w.region, []multicast.ProcessID{at}, time.Minute)
	require.NoError(w.t, err)
	began := time.Now()
	got, err := remote.Get(ctx, id, nil)
	w.mu.Lock()
	_, stored := w.acked[id]
	w.mu.Unlock()
	faultsAfter, after := w.reachable(at, id)
	after = slices.DeleteFunc(after, func(p multicast.ProcessID) bool { return !slices.Contains(before, p) })
	switch {
	case err == nil:
		require.Equal(w.t, data, got)
	case !stored || ctx.Err() != nil:
	case errors.Is(err, block.ErrNotFound) || errors.Is(err, block.ErrCorrupt):
		w.t.Errorf("get %v at %d: %v, with copies on %v", id, at, err, w.holders(id))
	case faults == faultsAfter && len(after) > 0 && w.rate == 0:
		w.t.Errorf("get %v at %d failed after %v, with good copies in reach on %v: %v", id, at, time.Since(began), after, err)
	}
}

// reachable returns the servers with good copies that a server can ask, and the number of faults so far.
func (w *world) reachable(at multicast.ProcessID, id block.ID) (faults int, servers []multicast.ProcessID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.crashed[at] {
		return w.faults, nil
	}
	for _, s := range w.members.Servers {
		if !w.crashed[s.ID] && !w.sick[s.ID] && w.region.Reaches(at, s.ID) && w.disk(s.ID).Good(id) {
			servers = append(servers, s.ID)
		}
	}
	return w.faults, servers
}

// holders returns the existing copies.
func (w *world) holders(id block.ID) (has []string) {
	for _, p := range w.servers() {
		if w.disk(p).Good(id) {
			has = append(has, fmt.Sprintf("%d", p))
		} else if slices.Contains(w.disk(p).IDs(), id) {
			has = append(has, fmt.Sprintf("%d (bad)", p))
		}
	}
	return has
}

// calm ends all faults, and waits until the region is whole: that may take some rounds and a scrub, no
// longer.
func (w *world) calm() {
	w.say("calm")
	w.region.Calm()
	w.mu.Lock()
	w.faults++
	clear(w.cuts)
	crashed := slices.Collect(maps.Keys(w.crashed))
	w.mu.Unlock()
	for _, id := range w.servers() {
		w.mend(id)
	}
	for _, id := range crashed {
		w.restart(id)
	}
	w.tell(w.members)
	limit := time.Now().Add(20 * time.Minute)
	for wrong := w.wrong(); wrong != ""; wrong = w.wrong() {
		if time.Now().After(limit) {
			w.t.Fatalf("not whole after 20 minutes: %s", wrong)
		}
		time.Sleep(10 * time.Second) // virtual
	}
}

// wrong describes a reason why the region is not whole; "" if there is none.
func (w *world) wrong() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make(map[block.ID]bool)
	for id := range w.acked {
		all[id] = true
	}
	var staying []ring.Member
	for _, s := range w.members.Servers {
		node := w.region.Node(s.ID)
		if got := node.Members(); got.Version != w.members.Version {
			return fmt.Sprintf("server %d knows members of version %d, not %d", s.ID, got.Version, w.members.Version)
		}
		if down := node.Status().Down; len(down) > 0 {
			return fmt.Sprintf("server %d takes %v for down", s.ID, down)
		}
		if !s.Leaving {
			staying = append(staying, ring.Member{ID: s.ID, Datacenter: s.Datacenter})
		}
		for _, id := range w.disk(s.ID).IDs() {
			if w.disk(s.ID).Good(id) {
				all[id] = true
			}
		}
	}
	r, err := ring.New(staying)
	require.NoError(w.t, err)
	for id := range all {
		owners := r.Owners(id, w.copies)
		for _, s := range w.members.Servers {
			owns, has := slices.Contains(owners, s.ID), slices.Contains(w.disk(s.ID).IDs(), id)
			if owns != has || owns && !w.disk(s.ID).Good(id) {
				return fmt.Sprintf("block %v with owners %v: on %d: %v, good: %v", id, owners, s.ID, has, w.disk(s.ID).Good(id))
			}
		}
	}
	// Only bad copies may remain on a leaving server, of blocks with a failed put or a partial delete.
	for _, s := range w.members.Servers {
		if drained := w.region.Node(s.ID).Status().Drained; drained != (s.Leaving && len(w.disk(s.ID).IDs()) == 0) {
			return fmt.Sprintf("server %d leaves: %v, has %d blocks, is drained: %v", s.ID, s.Leaving, len(w.disk(s.ID).IDs()), drained)
		}
	}
	return ""
}

// requireWhole reads each block, removes drained servers, and resets the losses.
func (w *world) requireWhole() {
	for id, data := range w.acked {
		w.get(w.t.Context(), pick(w.random, w.servers()), id, data)
		remote, err := region.NewRemote(w.region, []multicast.ProcessID{pick(w.random, w.servers())}, time.Minute)
		require.NoError(w.t, err)
		blocktest.RequireBlock(w.t, remote, id, data)
	}
	w.mu.Lock()
	var left []multicast.ProcessID
	members := region.Members{Version: w.members.Version + 1}
	for _, s := range w.members.Servers {
		if s.Leaving {
			left = append(left, s.ID)
		} else {
			members.Servers = append(members.Servers, s)
		}
	}
	w.members = members
	clear(w.losses)
	w.mu.Unlock()
	w.tell(members)
	for _, id := range left {
		w.region.Crash(id)
	}
}
