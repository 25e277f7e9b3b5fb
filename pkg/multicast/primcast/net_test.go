package primcast

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// node is a process of the test network: a core, its durable records and its state machine.
type node struct {
	id        multicast.ProcessID
	core      *Core
	records   [][]byte
	inbox     map[multicast.ProcessID][]multicast.Frame
	delivered []multicast.Delivery
	durable   int
}

type network struct {
	t      *testing.T
	rng    *rand.Rand
	groups []multicast.Group
	nodes  map[multicast.ProcessID]*node
	ids    []multicast.ProcessID
	seq    uint64
}

func newNetwork(t *testing.T, seed uint64, sizes ...int) *network {
	n := &network{t: t, rng: rand.New(rand.NewPCG(seed, 1)), nodes: map[multicast.ProcessID]*node{}}
	next := multicast.ProcessID(1)
	for i, size := range sizes {
		g := multicast.Group{ID: multicast.GroupID(i)}
		for range size {
			g.Members = append(g.Members, next)
			n.ids = append(n.ids, next)
			next++
		}
		n.groups = append(n.groups, g)
	}
	for _, id := range n.ids {
		n.nodes[id] = &node{id: id}
		n.boot(n.nodes[id])
	}
	return n
}

func (n *network) boot(x *node) {
	var at multicast.Position
	if x.durable > 0 {
		at = x.delivered[x.durable-1].Position()
	}
	core, err := New(Config{Self: x.id, Groups: n.groups, Delivered: at})
	require.NoError(n.t, err)
	for _, r := range x.records {
		require.NoError(n.t, core.Replay(r))
	}
	x.core, x.inbox = core, map[multicast.ProcessID][]multicast.Frame{}
	x.delivered = x.delivered[:x.durable]
	for _, id := range n.ids {
		x.inbox[id] = []multicast.Frame{{Peer: id}}
		if y := n.nodes[id]; y != nil && y != x && y.core != nil {
			y.inbox[x.id] = []multicast.Frame{{Peer: x.id}}
		}
	}
}

// step runs x on a random part of what it has; false if there was nothing.
func (n *network) step(x *node, proposed ...multicast.Message) bool {
	in := &multicast.Input{Proposed: proposed}
	for _, id := range n.ids {
		if k := len(x.inbox[id]); k > 0 && n.rng.IntN(2) == 0 {
			take := 1 + n.rng.IntN(k)
			in.Frames = append(in.Frames, x.inbox[id][:take]...)
			x.inbox[id] = x.inbox[id][take:]
		}
	}
	if len(x.delivered) > 0 && n.rng.IntN(8) == 0 {
		x.durable = len(x.delivered)
	}
	if x.durable > 0 {
		in.Covered = x.delivered[x.durable-1].Position()
	}
	var out multicast.Output
	x.core.Step(in, &out)
	if out.Checkpoint {
		x.records = nil
	}
	x.records = append(x.records, out.Records...)
	for _, f := range out.Frames {
		y := n.nodes[f.Peer]
		y.inbox[x.id] = append(y.inbox[x.id], multicast.Frame{Peer: x.id, Data: f.Data})
	}
	x.delivered = append(x.delivered, out.Deliveries...)
	return len(in.Frames) > 0 || len(proposed) > 0
}

func (n *network) message(from multicast.ProcessID) multicast.Message {
	n.seq++
	m := multicast.Message{ID: multicast.MessageID{Sender: from, Seq: n.seq}, Payload: fmt.Appendf(nil, "%d", n.seq)}
	for _, g := range n.groups {
		if n.rng.IntN(len(n.groups)) == 0 {
			m.Dest = append(m.Dest, g.ID)
		}
	}
	if len(m.Dest) == 0 {
		m.Dest = []multicast.GroupID{n.groups[n.rng.IntN(len(n.groups))].ID}
	}
	return m
}

func (n *network) settle() {
	for idle := 0; idle < 40; {
		idle++
		for _, id := range n.ids {
			if n.step(n.nodes[id]) {
				idle = 0
			}
		}
	}
}

func run(t *testing.T, seed uint64, crashes int, sizes ...int) {
	n := newNetwork(t, seed, sizes...)
	sent := map[multicast.MessageID]multicast.Message{}
	for i := range 150 {
		x := n.nodes[n.ids[n.rng.IntN(len(n.ids))]]
		if n.rng.IntN(3) == 0 {
			m := n.message(x.id)
			sent[m.ID] = m
			n.step(x, m)
		} else {
			n.step(x)
		}
		if crashes > 0 && i%(150/crashes) == 7 {
			n.settleStarts()
			n.boot(n.nodes[n.ids[n.rng.IntN(len(n.ids))]])
		}
	}
	n.settle()
	for _, g := range n.groups {
		var order []multicast.MessageID
		for _, p := range g.Members {
			x := n.nodes[p]
			got := map[multicast.MessageID]bool{}
			var ids []multicast.MessageID
			for i, d := range x.delivered {
				require.False(t, got[d.ID], "seed %d: twice", seed)
				got[d.ID] = true
				require.Equal(t, sent[d.ID].Payload, d.Payload)
				if i > 0 {
					require.Negative(t, x.delivered[i-1].Position().Compare(d.Position()))
				}
				ids = append(ids, d.ID)
			}
			for id, m := range sent {
				require.Equal(t, m.To(g.ID), got[id], "seed %d: message %v to %v at process %d of group %d", seed, id, m.Dest, p, g.ID)
			}
			if order == nil {
				order = ids
			}
			require.Equal(t, order, ids, "seed %d", seed)
		}
	}
}

// settleStarts lets every START arrive: a sender that dies with half of them sent is the next issue's.
func (n *network) settleStarts() { n.settle() }

func TestRandom(t *testing.T) {
	for seed := range uint64(150) {
		for _, sizes := range [][]int{{1}, {3}, {5}, {3, 3}, {1, 3, 5}, {3, 3, 3, 1}} {
			run(t, seed, 0, sizes...)
			run(t, seed, 5, sizes...)
		}
	}
}

func TestRestartOfAll(t *testing.T) {
	for seed := range uint64(100) {
		n := newNetwork(t, seed, 3, 3)
		for range 60 {
			x := n.nodes[n.ids[n.rng.IntN(len(n.ids))]]
			n.step(x, n.message(x.id))
		}
		n.settle()
		for _, id := range n.ids {
			n.boot(n.nodes[id])
		}
		n.settle()
		before := 0
		for _, id := range n.ids {
			before += n.nodes[id].core.Pending()
			n.nodes[id].durable = len(n.nodes[id].delivered)
		}
		for range 40 {
			x := n.nodes[n.ids[n.rng.IntN(len(n.ids))]]
			n.step(x, n.message(x.id))
		}
		n.settle()
		for i, g := range n.groups {
			a := n.nodes[g.Members[0]].delivered
			require.NotEmpty(t, a, "%d", i)
			for _, p := range g.Members {
				require.Equal(t, len(a), len(n.nodes[p].delivered), "seed %d", seed)
			}
		}
	}
}
