// Package fabricsim is a fabric in virtual time (package fabric). Everything happens in the goroutine of its
// owner and is drawn from one seed: the same calls give the same run.
//
// The network does all that package fabric allows: operations get lost before or after they were executed,
// lost operations land late, completions are late, writes become visible in pieces and in any order, a right
// that is revoked meanwhile stops a write between two pieces, links are cut in one direction, and nodes stop
// with their memory. Some of the operations that a stopped node had posted still land, from the first to a
// random one.
//
// An endpoint executes nothing by itself: Wait, Network.Step and Network.Run let time pass.
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
	LatencyMin, LatencyMax time.Duration // of one direction
	// Timeout is after how long a lost operation is reported.
	Timeout time.Duration
	// Bandwidth that each queue has in each direction, in bytes a second; 0: no limit.
	Bandwidth int
	Faults    Faults
}

// Faults are how many of a hundred operations meet each fault.
type Faults struct {
	Lose      int           // the operation is lost; half of these are executed late
	LoseReply int           // the operation was executed, its completion is lost
	Late      int           // the completion is late, by LateMax at most
	LateMax   time.Duration //
	Tear      int           // a write lands in pieces, TearMax apart at most
	TearMax   time.Duration
}

// Default has the latency of a network with RDMA, and no faults.
func Default() Config {
	return Config{Seed: 1, LatencyMin: time.Microsecond, LatencyMax: 2 * time.Microsecond, Timeout: time.Millisecond}
}

// Network is nodes and the links between them.
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

// Now is the virtual time since the network was made.
func (n *Network) Now() time.Duration { return n.now }

// Stats returns the counts until now.
func (n *Network) Stats() Stats { return n.stats }

// Schedule has a function called at a time that is not past.
func (n *Network) Schedule(at time.Duration, what func()) {
	n.events.Add(max(at, n.now), what)
}

// Next is the time of the next thing that will happen; false: nothing will.
func (n *Network) Next() (at time.Duration, ok bool) {
	return n.events.Next()
}

// Step lets the next thing happen. It returns false if nothing will.
func (n *Network) Step() bool {
	if _, ok := n.events.Next(); !ok {
		return false
	}
	e := n.events.Pop()
	n.now = e.At
	e.Do()
	return true
}

// Run lets everything happen up to a time.
func (n *Network) Run(until time.Duration) {
	for at, ok := n.Next(); ok && at <= until; at, ok = n.Next() {
		n.Step()
	}
	n.now = max(n.now, until)
}

// Node starts a node. If it has run before and was stopped, its memory is new, and the operations that it had
// posted before do not land any more.
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

// Crash stops a node with its memory. The first of the operations that it had posted may still land.
func (n *Network) Crash(id fabric.NodeID) {
	e := n.nodes[id]
	most := 0
	for _, q := range e.list {
		most = max(most, len(q.outstanding))
	}
	e.stop(n.rng.IntN(most + 1))
}

// Cut loses everything that one node sends to another, answers included, until Mend.
func (n *Network) Cut(from, to fabric.NodeID) { n.cuts[link{from, to}] = true }

// Mend ends a cut.
func (n *Network) Mend(from, to fabric.NodeID) { delete(n.cuts, link{from, to}) }

// Heal ends all cuts and faults. Lost operations stay lost.
func (n *Network) Heal() {
	clear(n.cuts)
	n.cfg.Faults = Faults{}
}

// cut reports whether a link carries nothing. Nodes always reach themselves.
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

// delay is how long something takes from a node to another.
func (n *Network) delay(from, to fabric.NodeID) time.Duration {
	if from == to {
		return 0
	}
	return n.between(n.cfg.LatencyMin, n.cfg.LatencyMax)
}

// transmission is how long bytes occupy a queue.
func (n *Network) transmission(bytes int) time.Duration {
	if n.cfg.Bandwidth == 0 {
		return 0
	}
	return time.Duration(float64(bytes) / float64(n.cfg.Bandwidth) * float64(time.Second))
}
