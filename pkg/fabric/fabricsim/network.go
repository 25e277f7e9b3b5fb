// Package fabricsim is a fabric in virtual time (package fabric). It has no goroutines, and draws all random
// choices from one seed: the same calls give the same run.
//
// The network shows all behaviour that package fabric permits: operations get lost before or after their
// execution, lost operations land late, completions are late, writes become visible in pieces and in any
// order, a revocation stops a write between two pieces, links are cut in one direction, and nodes stop and
// lose their memory. A random prefix of the operations that a stopped node had posted still lands.
//
// Time passes, and operations are executed, only in Wait, Network.Step and Network.Run.
package fabricsim

import (
	"math/rand/v2"
	"time"

	"github.com/globalfs/globalfs/internal/heap"
	"github.com/globalfs/globalfs/pkg/fabric"
)

// Config of a network.
type Config struct {
	Seed                   uint64
	LatencyMin, LatencyMax time.Duration // bounds of the latency of one direction
	// Timeout is the time after which a lost operation is reported.
	Timeout time.Duration
	// Bandwidth is the bandwidth of each queue in each direction, in bytes per second; 0: no limit.
	Bandwidth int
	Faults    Faults
}

// Faults has the percentage of operations with each fault.
type Faults struct {
	Lose      int           // the operation is lost; half of the lost operations are executed late
	LoseReply int           // the operation is executed, and its completion is lost
	Late      int           // the completion is late, by LateMax at most
	LateMax   time.Duration //
	Tear      int           // a write lands in pieces, at most TearMax after each other
	TearMax   time.Duration
}

// Default returns a configuration with the latency of an RDMA network, and without faults.
func Default() Config {
	return Config{Seed: 1, LatencyMin: time.Microsecond, LatencyMax: 2 * time.Microsecond, Timeout: time.Millisecond}
}

// Network has the nodes and the links between them.
type Network struct {
	cfg    Config
	rng    *rand.Rand
	now    time.Duration
	events heap.Timeline
	nodes  map[fabric.NodeID]*Endpoint
	cuts   map[link]bool
	posted uint64
	stats  Stats
}

// Stats count the events in a network.
type Stats struct {
	Writes, Reads, Resets                            int // posted
	Lost, LostReplies, LandedLate, Torn, Halved, Cut int
	Denied                                           int
}

type link struct{ from, to fabric.NodeID }

// New makes a network without nodes.
func New(cfg Config) *Network {
	return &Network{
		cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 0x666162726963)),
		nodes: map[fabric.NodeID]*Endpoint{}, cuts: map[link]bool{},
	}
}

// Now returns the virtual time since the network was made.
func (n *Network) Now() time.Duration { return n.now }

// Stats returns the counts until now.
func (n *Network) Stats() Stats { return n.stats }

// Schedule schedules a call of a function at a time, which must not be in the past.
func (n *Network) Schedule(at time.Duration, what func()) {
	n.events.Add(max(at, n.now), what)
}

// Next returns the time of the next event; ok is false if there is none.
func (n *Network) Next() (at time.Duration, ok bool) {
	return n.events.Next()
}

// Step executes the next event. It returns false if there is none.
func (n *Network) Step() bool {
	if _, ok := n.events.Next(); !ok {
		return false
	}
	e := n.events.Pop()
	n.now = e.At
	e.Do()
	return true
}

// Run executes all events up to a time.
func (n *Network) Run(until time.Duration) {
	for at, ok := n.Next(); ok && at <= until; at, ok = n.Next() {
		n.Step()
	}
	n.now = max(n.now, until)
}

// Node starts a node. If the node has run before and was stopped, its memory is new, and the operations that
// it posted before its stop do not land any more.
func (n *Network) Node(id fabric.NodeID) *Endpoint {
	e := &Endpoint{
		net: n, id: id, up: true, incarnation: 1,
		regions: map[fabric.RegionID]*region{}, queues: map[address]*queue{},
	}
	if old := n.nodes[id]; old != nil {
		old.stop(0)
		e.incarnation = old.incarnation + 1
	}
	n.nodes[id] = e
	return e
}

// Crash stops a node, and drops its memory. A prefix of the operations that the node had posted may still
// land.
func (n *Network) Crash(id fabric.NodeID) {
	e := n.nodes[id]
	most := 0
	for _, q := range e.list {
		most = max(most, len(q.outstanding))
	}
	e.stop(n.rng.IntN(most + 1))
}

// Cut loses all operations and answers that one node sends to another, until Mend.
func (n *Network) Cut(from, to fabric.NodeID) { n.cuts[link{from, to}] = true }

// Mend ends a cut.
func (n *Network) Mend(from, to fabric.NodeID) { delete(n.cuts, link{from, to}) }

// Heal ends all cuts and faults. Lost operations stay lost.
func (n *Network) Heal() {
	clear(n.cuts)
	n.cfg.Faults = Faults{}
}

// cut reports whether a link is cut. The link of a node to itself never is.
func (n *Network) cut(from, to fabric.NodeID) bool {
	is := from != to && n.cuts[link{from, to}]
	if is {
		n.stats.Cut++
	}
	return is
}

func (n *Network) chance(percent int) bool { return percent > 0 && n.rng.IntN(100) < percent }

// between draws a duration.
func (n *Network) between(from, to time.Duration) time.Duration {
	return from + time.Duration(n.rng.Int64N(int64(max(0, to-from))+1))
}

// delay draws the latency from one node to another.
func (n *Network) delay(from, to fabric.NodeID) time.Duration {
	if from == to {
		return 0
	}
	return n.between(n.cfg.LatencyMin, n.cfg.LatencyMax)
}

// transmission returns the time for which bytes occupy a queue.
func (n *Network) transmission(bytes int) time.Duration {
	if n.cfg.Bandwidth == 0 {
		return 0
	}
	return time.Duration(float64(bytes) / float64(n.cfg.Bandwidth) * float64(time.Second))
}
