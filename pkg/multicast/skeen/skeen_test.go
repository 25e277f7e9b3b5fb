package skeen

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// groups are x, y and z of the figures: group and process have the same number.
var groups = []multicast.Group{
	{ID: 1, Members: []multicast.ProcessID{1}}, {ID: 2, Members: []multicast.ProcessID{2}}, {ID: 3, Members: []multicast.ProcessID{3}},
}

// net steps processes one at a time. Their frames wait until the test delivers them.
type net struct {
	t         *testing.T
	cores     map[multicast.ProcessID]*Core
	links     map[[2]multicast.ProcessID][][]byte
	delivered map[multicast.ProcessID][]multicast.Delivery
	safe      map[multicast.ProcessID]multicast.Timestamp
}

func newNet(t *testing.T) *net { return newNetWith(t, Never) }

func newNetWith(t *testing.T, when Acknowledge) *net {
	n := &net{
		t: t, cores: map[multicast.ProcessID]*Core{}, links: map[[2]multicast.ProcessID][][]byte{},
		delivered: map[multicast.ProcessID][]multicast.Delivery{}, safe: map[multicast.ProcessID]multicast.Timestamp{},
	}
	for _, g := range groups {
		c, err := New(Config{Self: g.Members[0], Groups: groups, Acknowledge: when})
		require.NoError(t, err)
		n.cores[g.Members[0]] = c
	}
	return n
}

func (n *net) step(p multicast.ProcessID, in multicast.Input) {
	var out multicast.Output
	n.cores[p].Step(&in, &out)
	require.Empty(n.t, out.Records)
	for _, f := range out.Frames {
		pair := [2]multicast.ProcessID{p, f.Peer}
		n.links[pair] = append(n.links[pair], f.Data)
	}
	n.delivered[p] = append(n.delivered[p], out.Deliveries...)
	n.safe[p] = out.Safe
}

func (n *net) propose(p multicast.ProcessID, seq uint64, after multicast.Timestamp, dest ...multicast.GroupID) {
	n.step(p, multicast.Input{Proposed: []multicast.Message{{
		ID: multicast.MessageID{Sender: p, Seq: seq}, Dest: dest, After: after, Payload: []byte{byte(seq)},
	}}})
}

// carry lets the next frame from p to q arrive.
func (n *net) carry(p, q multicast.ProcessID) {
	pair := [2]multicast.ProcessID{p, q}
	require.NotEmpty(n.t, n.links[pair], "from %d to %d", p, q)
	data := n.links[pair][0]
	n.links[pair] = n.links[pair][1:]
	n.step(q, multicast.Input{Frames: []multicast.Frame{{Peer: p, Data: data}}})
}

// carryAll lets everything arrive, link by link, until nothing is on the way.
func (n *net) carryAll() {
	for more := true; more; {
		more = false
		for p := multicast.ProcessID(1); p <= 3; p++ {
			for q := multicast.ProcessID(1); q <= 3; q++ {
				for len(n.links[[2]multicast.ProcessID{p, q}]) > 0 {
					n.carry(p, q)
					more = true
				}
			}
		}
	}
}

// order returns the deliveries of p, as (sender, final).
func (n *net) order(p multicast.ProcessID) [][2]uint64 {
	var all [][2]uint64
	for _, d := range n.delivered[p] {
		require.Equal(n.t, []byte{byte(d.ID.Seq)}, d.Payload)
		all = append(all, [2]uint64{uint64(d.ID.Sender), uint64(d.Final)})
	}
	return all
}

// TestFigure53 runs the execution at the top of thesis figure 5.3: m of process 2 to x and y, m' of process 3
// to x and z. It also shows why Skeen's protocol does not keep atomic global order.
func TestFigure53(t *testing.T) {
	n := newNet(t)
	n.cores[2].clock = 4
	n.propose(2, 1, 0, 1, 2) // m
	n.carry(2, 1)            // local timestamp 1 at x
	n.carry(2, 2)            // local timestamp 5 at y
	n.carry(2, 2)
	n.carry(1, 2)
	require.Equal(t, [][2]uint64{{2, 5}}, n.order(2), "y knows that 5 is final and delivers at once")
	require.EqualValues(t, 5, n.safe[2])

	n.propose(3, 1, 0, 1, 3) // m', in real time after that
	n.carry(3, 1)            // local timestamp 2 at x
	n.carry(3, 3)
	n.carry(1, 1) // x's own LOCAL-TS of m
	n.carry(1, 1) // and of m'
	n.carry(2, 1) // 5 is final at x
	require.Empty(t, n.order(1), "x must wait: m' may be first")
	require.EqualValues(t, 1, n.safe[1])
	n.carry(3, 1)
	require.Equal(t, [][2]uint64{{3, 2}, {2, 5}}, n.order(1), "m' before m")
	require.EqualValues(t, 5, n.safe[1])
	require.Zero(t, n.cores[1].Pending())
}

func TestLocalTSOvertakesStart(t *testing.T) {
	n := newNet(t)
	n.propose(3, 1, 0, 1, 2)
	n.carry(3, 1)
	n.carry(1, 1)
	n.carry(1, 2) // before START
	require.Equal(t, 1, n.cores[2].Pending())
	n.carry(3, 2)
	n.carry(2, 2)
	n.carry(2, 1)
	require.Equal(t, [][2]uint64{{3, 1}}, n.order(1))
	require.Equal(t, n.order(1), n.order(2))
}

func TestEqualFinalTimestampsAreOrderedByID(t *testing.T) {
	n := newNet(t)
	n.propose(3, 1, 0, 1, 2)
	n.propose(2, 1, 0, 1, 2)
	n.carry(3, 1) // 3.1 gets 1 at process 1, 2.1 gets 2
	n.carry(2, 1)
	n.carry(2, 2) // the other way round at process 2
	n.carry(3, 2)
	for range 2 {
		for _, pair := range [][2]multicast.ProcessID{{1, 1}, {1, 2}, {2, 1}, {2, 2}} {
			n.carry(pair[0], pair[1])
		}
	}
	require.Equal(t, [][2]uint64{{2, 2}, {3, 2}}, n.order(1))
	require.Equal(t, n.order(1), n.order(2))
}

func TestAfterIsALowerBound(t *testing.T) {
	n := newNet(t)
	n.propose(1, 1, 41, 1)
	n.carry(1, 1)
	n.carry(1, 1)
	require.Equal(t, [][2]uint64{{1, 42}}, n.order(1))
}

func TestARepeatedMessageIsDeliveredOnce(t *testing.T) {
	n := newNet(t)
	n.propose(1, 1, 0, 1)
	n.carry(1, 1)
	n.propose(1, 1, 0, 1)
	n.carry(1, 1)
	n.carry(1, 1)
	n.propose(1, 1, 0, 1)
	n.carry(1, 1)
	require.Equal(t, [][2]uint64{{1, 1}}, n.order(1))
	require.EqualValues(t, 2, n.cores[1].Stats().Repeated)
	require.Zero(t, n.cores[1].Pending())
}

func TestBadFramesAreDroppedAndCounted(t *testing.T) {
	start := func(sender multicast.ProcessID, dest ...multicast.GroupID) []byte {
		m := &multicast.Message{ID: multicast.MessageID{Sender: sender, Seq: 1}, Dest: dest}
		return packet{id: m.ID, start: m}.append(nil)
	}
	for name, frame := range map[string][]byte{
		"unknown kind":           {9, 1, 1, 1},
		"unknown order":          append(start(2, 1)[:6], 7, 0),
		"cut short":              start(2, 1)[:4],
		"of another sender":      start(3, 1),
		"to others":              start(2, 2),
		"to an unknown group":    start(2, 1, 9),
		"to a group twice":       start(2, 1, 1),
		"to nobody":              start(2),
		"more groups than bytes": {kindStart, 2, 1, 200, 1},
	} {
		n := newNet(t)
		n.step(1, multicast.Input{Frames: []multicast.Frame{{Peer: 2, Data: frame}}})
		require.EqualValues(t, 1, n.cores[1].Stats().Malformed, name)
		require.Zero(t, n.cores[1].Pending(), name)
	}
}

func TestConfigAndReplay(t *testing.T) {
	_, err := New(Config{Self: 1, Groups: []multicast.Group{{ID: 7, Members: []multicast.ProcessID{1, 2}}}})
	require.ErrorContains(t, err, "group 7 has 2 members")
	_, err = New(Config{Self: 1, Groups: groups, Acknowledge: InOrder + 1})
	require.ErrorContains(t, err, "Acknowledge: 3 is unknown")
	_, err = New(Config{Self: 9, Groups: groups})
	require.ErrorContains(t, err, "process 9 is in none of the groups")
	c, err := New(Config{Self: 1, Groups: groups})
	require.NoError(t, err)
	require.ErrorContains(t, c.Replay(nil), "tolerates no failures")
	require.PanicsWithError(t, "invariant broken: process 1 proposes message 1.1 to [9] with order 0", func() {
		var out multicast.Output
		c.Step(&multicast.Input{Proposed: []multicast.Message{{ID: multicast.MessageID{Sender: 1, Seq: 1}, Dest: []multicast.GroupID{9}}}}, &out)
	})
}

func FuzzDecode(f *testing.F) {
	m := &multicast.Message{ID: multicast.MessageID{Sender: 2, Seq: 1}, Dest: []multicast.GroupID{1, 3}, Payload: []byte("x"), After: 7}
	f.Add(packet{id: m.ID, start: m}.append(packet{id: m.ID, ts: 300}.append(packet{id: m.ID, ack: true}.append(nil))))
	f.Add([]byte{kindStart, 2, 1, 200, 1})
	f.Fuzz(func(t *testing.T, frame []byte) {
		var all []packet
		if decode(frame, func(pkt packet) { all = append(all, pkt) }) != nil {
			return
		}
		var again []byte
		for _, pkt := range all {
			again = pkt.append(again)
		}
		i := 0
		require.NoError(t, decode(again, func(pkt packet) {
			require.Equal(t, all[i], pkt)
			i++
		}))
		require.Len(t, all, i)
	})
}
