package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/order/onesided"
	"github.com/globalfs/globalfs/internal/replica"
	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/fabricsim"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/primcast"
)

// treeMemory lets TRAM order each partition over one-sided memory, with all faults of a fabric. The order
// between partitions stays PrimCast's.
type treeMemory struct {
	net     *fabricsim.Network
	keep    int // onesided.Config.Keep; 0: more than there is
	amnesia int // of a hundred starts, so many count as a loss of memory
}

// TestTreeMemory: one tree over three partitions, the own order of which is TRAM's. All oracles of TestTree
// hold.
func TestTreeMemory(t *testing.T) {
	reach := treeReach{}
	seeds(t, 30, func(seed uint64) error {
		return judgeMemory(treeRun(seed, treeSetup{memory: &treeMemory{}}), reach)
	})
	reach.require(t, treeMarks...)
	reach.require(t, memoryMarks...)
}

// Replicas restart without knowledge that the last records of their logs are complete.
func TestTreeMemoryAmnesia(t *testing.T) {
	reach := treeReach{}
	seeds(t, 16, func(seed uint64) error {
		return judgeMemory(treeRun(seed, treeSetup{memory: &treeMemory{amnesia: 30}, change: oneByOne}), reach)
	})
	reach.require(t, memoryAmnesiac, memoryRevoked, renamedAcross)
}

// TestTreeMemoryTransfers: replicas are away for longer than the others keep entries, and take over the state
// of another one.
func TestTreeMemoryTransfers(t *testing.T) {
	reach := treeReach{}
	seeds(t, 16, func(seed uint64) error { return judgeMemory(treeRun(seed, memoryTransfers(seed)), reach) })
	reach.require(t, tookOver, sessionExpired, renamedAcross, madeAlone)
}

// TestTreeMemoryReplaced: new processes take over the seats of replicas that have stopped for ever, or that
// live on until they learn of it.
func TestTreeMemoryReplaced(t *testing.T) {
	reach := treeReach{}
	seeds(t, 16, func(seed uint64) error {
		setup := memoryTransfers(seed)
		setup.losses, setup.alive = 6, seed%2 == 0
		return judgeMemory(treeRun(seed, setup), reach)
	})
	reach.require(t, replacedOne, replacedTwice, replacedAlive, retiredReplica, tookOver, renamedAcross)
}

// TestTreeMemoryShards: two of the partitions are the shards of a region.
func TestTreeMemoryShards(t *testing.T) {
	reach := treeReach{}
	seeds(t, 10, func(seed uint64) error {
		return judgeMemory(treeRun(seed, treeSetup{shards: true, memory: &treeMemory{}}), reach)
	})
	reach.require(t, renamedAcross, movedAway, memoryRevoked)
}

const (
	memoryRevoked  treeMark = "an operation was refused after a revocation"
	memoryTorn     treeMark = "a write landed in pieces"
	memoryLate     treeMark = "a write that was reported as lost landed"
	memoryBroken   treeMark = "a write had landed in part when its right was revoked"
	memoryAmnesiac treeMark = "a replica had no vote after its start"
)

var memoryMarks = []treeMark{memoryRevoked, memoryTorn, memoryLate}

func judgeMemory(r *tree, reach treeReach) error {
	if r.net != nil {
		s := r.memory.net.Stats()
		reach[memoryRevoked] += s.Denied
		reach[memoryTorn] += s.Torn
		reach[memoryLate] += s.LandedLate
		reach[memoryBroken] += s.Halved
	}
	return r.judge(reach)
}

func memoryTransfers(seed uint64) treeSetup {
	setup := treeTransfers(seed)
	setup.memory = &treeMemory{keep: 64}
	return setup
}

// oneByOne lets only few processes of a group be down at a time: if all of them lose their memory, entries
// are lost.
func oneByOne(cfg *Config) {
	cfg.Faults.CrashAll, cfg.Faults.Chase = 0, 0
}

// useMemory gives the network a fabric.
func (r *tree) useMemory(cfg *Config) {
	if r.memory == nil {
		return
	}
	memory := fabricsim.Default()
	memory.Seed, memory.LatencyMax, memory.Timeout = cfg.Seed, 20*time.Microsecond, 5*time.Millisecond
	memory.Faults = fabricsim.Faults{
		Lose: 1, LoseReply: 1, Late: 2, LateMax: 3 * time.Millisecond, Tear: 20, TearMax: time.Millisecond,
	}
	r.memory.net = fabricsim.New(memory)
	cfg.Memory = r.memory.net
	cfg.Gather = 300 * time.Microsecond
	cfg.Pipelined = false // a driver takes the next step when the effects of the last one have left
}

// cores makes the two cores of a replica from its store and its log.
func (r *tree) cores(
	cfg primcast.Config, g *treeGroup, groups []multicast.Group, keys meta.Keys, records [][]byte, amnesiac bool,
) (order.Recovered, *primcast.Core, error) {
	if r.memory == nil {
		return replicaCores(cfg, g.partition(), groups, keys, records)
	}
	ownAt, crossAt, err := replica.Positions(keys)
	if err != nil {
		return nil, nil, err
	}
	own, err := onesided.New(onesided.Config{
		Self: cfg.Self, Group: *g.born, Replaced: g.replaced, Delivered: ownAt, Amnesiac: amnesiac,
		Slots: 8, SlotSize: 256, Keep: r.memory.keep, CheckpointMin: 4 << 10, SuspectAfter: 30 * time.Millisecond, Seed: uint64(cfg.Self),
	})
	if err != nil {
		return nil, nil, err
	}
	cfg.SuspectAfter, cfg.CheckpointMin = 100*time.Millisecond, 4<<10
	cfg.Groups, cfg.Delivered, cfg.Classes, cfg.HybridClock, cfg.Overlap = groups, crossAt, true, true, false
	cross, err := primcast.New(cfg)
	if err != nil {
		return nil, nil, err
	}
	for _, record := range records {
		if err := order.Replay(own, cross, record); err != nil {
			return nil, nil, err
		}
	}
	if at, lacks := own.Lacks(); lacks {
		return nil, nil, fmt.Errorf("the log has no deliveries up to %v any more, and the store is at %v", at, ownAt)
	}
	return own, cross, nil
}

// useCores makes the two cores of a replica, and its memory.
func (n *treeNode) useCores(cfg primcast.Config, g *treeGroup, groups []multicast.Group, records [][]byte) (err error) {
	r := n.run
	if n.local, n.cross, err = r.cores(cfg, g, groups, n.keys, records, r.memory != nil && r.forgets(cfg.Self, g)); err != nil || r.memory == nil {
		return err
	}
	own := n.local.(*onesided.Core)
	n.endpoint = r.memory.net.Node(fabric.NodeID(cfg.Self))
	for _, region := range own.Regions() {
		m, err := n.endpoint.Register(region.ID, region.Size)
		if err != nil {
			return err
		}
		own.Attach(region.ID, m)
	}
	return nil
}

// Endpoint implements remote.
func (n *treeNode) Endpoint() *fabricsim.Endpoint { return n.endpoint }

// forgets draws whether a replica that starts counts as one that may have lost records. The others of its
// group remember then.
func (r *tree) forgets(self multicast.ProcessID, g *treeGroup) bool {
	if r.net == nil || r.net.Incarnation(self) == 1 || r.net.healed || !r.net.percent(r.memory.amnesia) {
		return false
	}
	for _, p := range g.members {
		if n, ok := r.net.Node(p).(*treeNode); p != self && (!ok || n.local.(*onesided.Core).Amnesiac()) {
			return false
		}
	}
	r.reach[memoryAmnesiac]++
	return true
}
