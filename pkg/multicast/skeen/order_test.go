package skeen

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// G, H and K of the example in docs/papers/algorithm4.md.
const (
	g = 1
	h = 2
	k = 3
)

// ask is propose for a message that asks for atomic global order.
func (n *net) ask(p multicast.ProcessID, dest ...multicast.GroupID) {
	n.step(p, multicast.Input{Proposed: []multicast.Message{{
		ID: multicast.MessageID{Sender: p, Seq: 1}, Dest: dest, Order: multicast.AtomicGlobal, Payload: []byte{1},
	}}})
}

// slowStart plays the example of docs/papers/algorithm4.md, until G has received all messages of H: c2 is
// message 2.1 to H and K, and its START to K is slow; c1 is message 1.1 to G and H.
func slowStart(t *testing.T, when Acknowledge) *net {
	n := newNetWith(t, when)
	n.cores[h].clock = 8
	n.ask(h, h, k) // c2
	n.carry(h, h)  // 9 at H
	n.carry(h, h)  // its own LOCAL-TS
	n.ask(g, g, h) // c1
	n.carry(g, g)  // 1 at G
	n.carry(g, h)  // 10 at H
	n.carry(h, h)
	n.carry(g, h) // H knows that 10 is final
	n.carry(g, g)
	n.carry(h, g) // G, too
	n.carry(g, g) // ACK: G has nothing before c1
	n.carry(g, h)
	require.Empty(t, n.order(h), "c2 may be first")
	return n
}

// finish lets START of c2 arrive at last, and all that comes of it.
func (n *net) finish() {
	n.carryAll()
	for _, c := range n.cores {
		require.Zero(n.t, c.Pending())
	}
}

// With the acknowledgements of Algorithm 4 as it is printed, the order has a cycle: c1 is before c3 in real
// time, c3 before c2 at K, and c2 before c1 at H.
func TestDecidedIsNotEnough(t *testing.T) {
	n := slowStart(t, Decided)
	n.carry(h, h) // H's own ACK of c1
	n.carry(h, g) // the same
	require.Equal(t, [][2]uint64{{1, 10}}, n.order(g), "c1, though H has not delivered c2")

	n.ask(k, k) // c3, in real time after that
	n.carry(k, k)
	n.carry(k, k)
	require.Equal(t, [][2]uint64{{3, 1}}, n.order(k), "c3")

	n.finish()
	require.Equal(t, [][2]uint64{{3, 1}, {2, 9}}, n.order(k), "c3 before c2")
	require.Equal(t, [][2]uint64{{2, 9}, {1, 10}}, n.order(h), "c2 before c1")
}

// TestInOrderWaitsForWhatIsBefore: in the same situation H says nothing, so that G does not deliver c1
// before K has a clock past all that is before c1.
func TestInOrderWaitsForWhatIsBefore(t *testing.T) {
	n := slowStart(t, InOrder)
	require.Empty(t, n.links[[2]multicast.ProcessID{h, g}], "H does not acknowledge c1")
	require.Empty(t, n.order(g))
	n.ask(k, k) // c3, now no more than concurrent with c1
	n.carry(k, k)
	n.carry(k, k)
	n.finish()
	require.Equal(t, [][2]uint64{{1, 10}}, n.order(g))
	require.Equal(t, [][2]uint64{{3, 1}, {2, 9}}, n.order(k))
	require.Equal(t, [][2]uint64{{2, 9}, {1, 10}}, n.order(h))
}

// Two messages to the same destinations are both acknowledged at once.
func TestInOrderDoesNotWaitForWhatGoesAlong(t *testing.T) {
	n := newNetWith(t, InOrder)
	n.ask(1, 1, 2)
	n.ask(2, 1, 2)
	for _, pair := range [][2]multicast.ProcessID{{1, 1}, {1, 2}, {2, 1}, {2, 2}, {1, 1}, {1, 1}, {2, 1}, {2, 1}} {
		n.carry(pair[0], pair[1])
	}
	require.Len(t, n.cores[1].local, 2)
	for _, p := range n.cores[1].local {
		require.True(t, p.ackedOwn)
	}
	require.Empty(t, n.order(1))
	n.carryAll()
	require.Len(t, n.order(1), 2)
	require.Equal(t, n.order(1), n.order(2))
}

// TestFigure53Bottom: y waits for x, which has given m' its timestamp before it acknowledges m.
func TestFigure53Bottom(t *testing.T) {
	for _, when := range []Acknowledge{Decided, InOrder} {
		n := newNetWith(t, when)
		n.cores[2].clock = 4
		n.ask(2, 1, 2) // m
		n.carry(2, 1)
		n.carry(2, 2)
		n.carry(2, 2)
		n.carry(1, 2)
		require.Empty(t, n.order(2), "y knows that 5 is final, and waits")
		n.ask(3, 1, 3) // m'
		n.carryAll()
		require.Equal(t, [][2]uint64{{2, 5}}, n.order(2))
		require.Len(t, n.order(1), 2)
	}
}

// Only messages to several groups that request atomic global order are acknowledged. Other messages take as
// many steps as without acknowledgements.
func TestOnlySeveralGroupsThatAskAreAcknowledged(t *testing.T) {
	n := newNetWith(t, InOrder)
	n.ask(1, 1)
	n.carry(1, 1)
	n.carry(1, 1)
	require.Len(t, n.order(1), 1)
	n.propose(2, 1, 0, 1, 2)
	n.carry(2, 1)
	n.carry(2, 2)
	n.carry(2, 1)
	n.carry(1, 1)
	require.Len(t, n.order(1), 2)
	n.carryAll()
	require.Len(t, n.order(2), 1)
}

func TestNobodyAsksWhereNobodyAcknowledges(t *testing.T) {
	n := newNetWith(t, Never)
	require.Panics(t, func() { n.ask(1, 1, 2) })
	m := &multicast.Message{ID: multicast.MessageID{Sender: 2, Seq: 1}, Dest: []multicast.GroupID{1, 2}, Order: multicast.AtomicGlobal}
	n.step(1, multicast.Input{Frames: []multicast.Frame{{Peer: 2, Data: packet{id: m.ID, start: m}.append(nil)}}})
	require.EqualValues(t, 1, n.cores[1].Stats().Malformed)
	require.Zero(t, n.cores[1].Pending())
}

// Acknowledgements of unknown or delivered messages, and repeated acknowledgements, are dropped.
func TestStrayAcksAreDropped(t *testing.T) {
	n := newNetWith(t, InOrder)
	ack := packet{id: multicast.MessageID{Sender: 2, Seq: 1}, ack: true}.append(nil)
	n.step(1, multicast.Input{Frames: []multicast.Frame{{Peer: 3, Data: ack}}})
	require.EqualValues(t, 1, n.cores[1].Stats().Repeated)
	require.Zero(t, n.cores[1].Pending())
	n.ask(2, 1, 2)
	n.carryAll()
	require.Len(t, n.order(1), 1)
	n.step(1, multicast.Input{Frames: []multicast.Frame{{Peer: 2, Data: ack}}})
	require.EqualValues(t, 2, n.cores[1].Stats().Repeated)
	require.Zero(t, n.cores[1].Pending())
}
