package primcast

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// node is a process of the test network: its core, its disk, its state machine and the
// outputs whose records are not durable yet.
type node struct {
	id      multicast.ProcessID
	core    *Core
	log     [][]byte // durable
	gate    []*multicast.Output
	inbox   map[multicast.ProcessID][]multicast.Frame
	applied []multicast.Delivery
	durable int  // of applied
	lost    bool // it crashed once
	wake    time.Duration
	safe    multicast.Timestamp
}

// network runs processes under a seed: any interleaving that FIFO links allow, outputs
// that wait at the gate, and crashes that lose them.
type network struct {
	t      testing.TB
	rng    *rand.Rand
	seed   uint64
	groups []multicast.Group
	nodes  []*node // by id-1
	now    time.Duration
	sent   map[multicast.MessageID]*multicast.Message
	down   map[multicast.ProcessID]bool
	seq    uint64
	frames int
}

func newNetwork(t testing.TB, seed uint64, sizes ...int) *network {
	n := &network{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 7)), sent: map[multicast.MessageID]*multicast.Message{}, down: map[multicast.ProcessID]bool{}}
	for i, size := range sizes {
		g := multicast.Group{ID: multicast.GroupID(i * 3)}
		for range size {
			n.nodes = append(n.nodes, &node{id: multicast.ProcessID(len(n.nodes) + 1)})
			g.Members = append(g.Members, n.nodes[len(n.nodes)-1].id)
		}
		n.groups = append(n.groups, g)
	}
	for _, x := range n.nodes {
		n.boot(x)
	}
	return n
}

// boot starts a process from its disk: all its links start anew.
func (n *network) boot(x *node) {
	cfg := Config{Self: x.id, Groups: n.groups, FetchAfter: 50 * time.Millisecond, SuspectAfter: 100 * time.Millisecond, Seed: n.seed, CheckpointMin: 600}
	x.applied = x.applied[:x.durable]
	cfg.Delivered = progress(cfg.Classes, x.applied)
	core, err := New(cfg)
	require.NoError(n.t, err)
	for _, r := range x.log {
		require.NoError(n.t, core.Replay(r))
	}
	x.core, x.gate, x.inbox, x.wake, x.safe = core, nil, map[multicast.ProcessID][]multicast.Frame{}, 0, 0
	for _, y := range n.nodes {
		x.inbox[y.id] = []multicast.Frame{{Peer: y.id}}
		if y != x && y.inbox != nil {
			y.inbox[x.id] = append(y.inbox[x.id], multicast.Frame{Peer: x.id})
			for _, out := range y.gate { // frames for the old link never arrive
				for i := range out.Frames {
					if out.Frames[i].Peer == x.id {
						out.Frames[i].Data = nil
					}
				}
			}
		}
	}
}

func (n *network) crash(x *node) {
	x.lost = true
	n.boot(x)
}

// step runs x on a random part of what is there for it.
func (n *network) step(x *node, proposed ...multicast.Message) bool {
	in := &multicast.Input{Now: multicast.Instant{Mono: n.now}, Proposed: proposed}
	for _, y := range n.nodes {
		if k := len(x.inbox[y.id]); k > 0 && n.rng.IntN(2) == 0 {
			take := 1 + n.rng.IntN(k)
			in.Frames = append(in.Frames, x.inbox[y.id][:take]...)
			x.inbox[y.id] = x.inbox[y.id][take:]
		}
	}
	if n.rng.IntN(4) == 0 {
		x.durable += n.rng.IntN(len(x.applied) - x.durable + 1)
	}
	return n.run(x, in)
}

func (n *network) run(x *node, in *multicast.Input) bool {
	in.Covered = progress(false, x.applied[:x.durable])
	out := &multicast.Output{}
	x.core.Step(in, out)
	x.core.audit()
	if x.wake = out.Wake; x.wake != 0 {
		require.Greater(n.t, x.wake, n.now)
	}
	for _, d := range out.Deliveries {
		require.Greater(n.t, d.Final, x.safe, "process %d delivers at or below its safe timestamp", x.id)
		require.Greater(n.t, d.Final, d.After)
	}
	x.safe = out.Safe
	x.gate = append(x.gate, out)
	return len(in.Frames)+len(in.Proposed) > 0
}

// release lets the first output of x pass the gate.
func (n *network) release(x *node) {
	out := x.gate[0]
	x.gate = x.gate[1:]
	if out.Checkpoint {
		x.log = nil
	}
	x.log = append(x.log, out.Records...)
	for _, f := range out.Frames {
		if f.Data != nil && !n.down[f.Peer] {
			y := n.nodes[f.Peer-1]
			y.inbox[x.id] = append(y.inbox[x.id], multicast.Frame{Peer: x.id, Data: f.Data})
			n.frames++
		}
	}
	x.applied = append(x.applied, out.Deliveries...)
}

// propose multicasts from x to random groups.
func (n *network) propose(x *node) {
	n.seq += 1 + n.rng.Uint64N(3)
	m := multicast.Message{ID: multicast.MessageID{Sender: x.id, Seq: n.seq}, Payload: fmt.Appendf(nil, "%d", n.seq)}
	for _, g := range n.groups {
		if n.rng.IntN(len(n.groups)) == 0 {
			m.Dest = append(m.Dest, g.ID)
		}
	}
	if len(m.Dest) == 0 {
		m.Dest = []multicast.GroupID{n.groups[n.rng.IntN(len(n.groups))].ID}
	}
	if n.rng.IntN(4) == 0 {
		m.After = x.safe + multicast.Timestamp(n.rng.IntN(20))
	}
	n.sent[m.ID] = &m
	n.step(x, m)
}

// turn does one random thing.
func (n *network) turn() {
	x := n.nodes[n.rng.IntN(len(n.nodes))]
	if n.down[x.id] {
		return
	}
	n.now += time.Duration(n.rng.IntN(1000)) * time.Microsecond
	if len(x.gate) > 0 && n.rng.IntN(2) == 0 {
		n.release(x)
	} else {
		n.step(x)
	}
}

// settle runs until nothing happens any more.
func (n *network) settle() {
	for idle := 0; idle < 8; {
		idle++
		var wake time.Duration
		for _, x := range n.nodes {
			if n.down[x.id] {
				continue
			}
			for len(x.gate) > 0 {
				n.release(x)
			}
			for _, frames := range x.inbox {
				if len(frames) > 0 {
					idle = 0
				}
			}
			n.step(x)
			if x.wake > 0 && (wake == 0 || x.wake < wake) {
				wake = x.wake
			}
		}
		if idle > 4 && wake > n.now {
			n.now, idle = wake, 0
		}
	}
}

// verify checks what was applied: integrity, one order for the members of a group, no pair of messages in different
// orders anywhere, and that what was delivered or sent by a process that never crashed is delivered
// by all.
func (n *network) verify() {
	final := map[multicast.MessageID]multicast.Timestamp{}
	must := map[multicast.MessageID]bool{}
	for id := range n.sent {
		must[id] = !n.nodes[id.Sender-1].lost
	}
	for _, x := range n.nodes {
		for i, d := range x.applied {
			m := n.sent[d.ID]
			require.NotNil(n.t, m)
			require.Equal(n.t, m.Payload, d.Payload)
			require.True(n.t, m.To(x.core.self.group.id))
			if i > 0 {
				require.Negative(n.t, x.applied[i-1].Position().Compare(d.Position()))
			}
			if ts, ok := final[d.ID]; ok {
				require.Equal(n.t, ts, d.Final)
			}
			final[d.ID] = d.Final
			must[d.ID] = true
		}
	}
	for _, x := range n.nodes {
		if n.down[x.id] {
			continue
		}
		got := map[multicast.MessageID]bool{}
		for _, d := range x.applied {
			got[d.ID] = true
		}
		for id, is := range must {
			if is && n.sent[id].To(x.core.self.group.id) {
				require.True(n.t, got[id], "message %v to %v is not delivered at process %d; %+v", id, n.sent[id].Dest, x.id, x.core.Stats())
			}
		}
		require.Zero(n.t, x.core.stats.BadFrames+x.core.stats.BadPackets+x.core.stats.Refused+x.core.stats.Repeated)
	}
}

// shapes are group sizes.
var shapes = [][]int{{1}, {3}, {5}, {1, 1}, {3, 3}, {1, 3, 5}, {3, 3, 3}}

func simulate(t *testing.T, seed uint64, shape []int, turns, crashIn int) *network {
	n := newNetwork(t, seed, shape...)
	for range turns {
		n.turn()
		if n.rng.IntN(6) == 0 {
			n.propose(n.nodes[n.rng.IntN(len(n.nodes))])
		}
		if crashIn > 0 && n.rng.IntN(crashIn) == 0 {
			n.crash(n.nodes[n.rng.IntN(len(n.nodes))])
		}
		if crashIn > 0 && n.rng.IntN(8*crashIn) == 0 {
			for _, x := range n.nodes {
				n.crash(x)
			}
		}
	}
	n.settle()
	n.verify()
	return n
}

func seeds(t *testing.T, f func(t *testing.T, seed uint64, shape []int)) {
	for _, shape := range shapes {
		t.Run(fmt.Sprint(shape), func(t *testing.T) {
			for seed := range uint64(*seedCount) {
				ok := t.Run(fmt.Sprint(seed), func(t *testing.T) { f(t, seed, shape) })
				if !ok {
					return
				}
			}
		})
	}
}

func TestRandomInterleavings(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64, shape []int) { simulate(t, seed, shape, 400, 0) })
}

func TestRandomCrashes(t *testing.T) {
	seeds(t, func(t *testing.T, seed uint64, shape []int) { simulate(t, seed, shape, 600, 60) })
}
