package direct

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// world is processes with their logs and links.
type world struct {
	t      *testing.T
	groups []multicast.Group
	nodes  map[multicast.ProcessID]*node
	ids    []multicast.ProcessID
	seq    uint64
}

// node is one process with its log, its state machine, and the frames that are on their way to it.
type node struct {
	core      *Core
	records   [][]byte
	inbox     []multicast.Frame
	delivered map[multicast.Class][]multicast.MessageID // of the state machine
	progress  multicast.Progress                        // of the state machine
	durable   multicast.Progress                        // the part that a restart keeps
	cover     bool                                      // the next step covers all
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, nodes: map[multicast.ProcessID]*node{}, groups: []multicast.Group{
		{ID: 0, Members: []multicast.ProcessID{1, 2, 3}}, {ID: 1, Members: []multicast.ProcessID{4, 5, 6}}, {ID: 2, Members: []multicast.ProcessID{7}},
	}}
	for _, g := range w.groups {
		for _, id := range g.Members {
			w.nodes[id] = &node{delivered: map[multicast.Class][]multicast.MessageID{}}
			w.ids = append(w.ids, id)
			w.boot(id)
		}
	}
	return w
}

// boot starts a process over its log, and the links to it.
func (w *world) boot(id multicast.ProcessID) {
	n := w.nodes[id]
	n.progress = slices.Clone(n.durable)
	for class, all := range n.delivered {
		last := n.durable.Of(class).ID
		n.delivered[class] = all[:slices.Index(all, last)+1]
	}
	var err error
	n.core, err = New(Config{Self: id, Groups: w.groups, Delivered: n.durable})
	require.NoError(w.t, err)
	for _, r := range n.records {
		require.NoError(w.t, n.core.Replay(r))
	}
	n.inbox = nil
	for _, other := range w.ids {
		w.reset(id, other)
	}
}

// reset starts the link between two processes anew: frames that are on their way are lost.
func (w *world) reset(a, b multicast.ProcessID) {
	for _, pair := range [][2]multicast.ProcessID{{a, b}, {b, a}} {
		n := w.nodes[pair[0]]
		n.inbox = slices.DeleteFunc(n.inbox, func(f multicast.Frame) bool { return f.Peer == pair[1] })
		n.inbox = append(n.inbox, multicast.Frame{Peer: pair[1]})
	}
}

// step steps a process, which proposes messages to some groups.
func (w *world) step(id multicast.ProcessID, dest ...multicast.GroupID) {
	n := w.nodes[id]
	in := multicast.Input{Frames: n.inbox}
	n.inbox = nil
	if len(dest) > 0 {
		w.seq++
		m := multicast.Message{ID: multicast.MessageID{Sender: id, Seq: w.seq}, Dest: dest, Payload: fmt.Append(nil, w.seq)}
		in.Proposed = append(in.Proposed, m)
	}
	if n.cover {
		n.cover, n.durable = false, slices.Clone(n.progress)
		in.Covered = n.durable
	}
	var out multicast.Output
	n.core.Step(&in, &out)
	n.records = append(n.records, out.Records...)
	for _, f := range out.Frames {
		require.NotEqual(w.t, id, f.Peer)
		w.nodes[f.Peer].inbox = append(w.nodes[f.Peer].inbox, multicast.Frame{Peer: id, Data: f.Data})
	}
	for _, d := range out.Deliveries {
		class := Class(d.Dest, d.ID)
		require.True(w.t, n.progress.Advance(class, d.Position()), "process %d delivers %v again", id, d.ID)
		require.Equal(w.t, fmt.Append(nil, d.ID.Seq), d.Payload)
		require.Contains(w.t, d.Dest, n.core.group)
		n.delivered[class] = append(n.delivered[class], d.ID)
	}
}

// settle steps all until nothing is on its way.
func (w *world) settle() {
	for range 10 {
		for _, id := range w.ids {
			w.step(id)
		}
	}
}

func TestEveryMemberDeliversInTheOrderOfTheSender(t *testing.T) {
	w := newWorld(t)
	for range 5 {
		w.step(1, 0, 1)
		w.step(2, 0, 1)
		w.step(1, 0, 2)
	}
	w.settle()
	for _, id := range w.ids {
		for sender := range multicast.ProcessID(2) {
			class := Class([]multicast.GroupID{0, 1}, multicast.MessageID{Sender: sender + 1})
			if id == 7 {
				require.Empty(t, w.nodes[id].delivered[class])
				continue
			}
			require.Equal(t, w.nodes[1].delivered[class], w.nodes[id].delivered[class])
			require.Len(t, w.nodes[id].delivered[class], 5)
		}
	}
	require.Len(t, w.nodes[7].delivered, 1)
	require.Equal(t, 15, w.nodes[1].core.Kept()+w.nodes[2].core.Kept())
}

// A sender drops a message when a quorum of each destination holds it durably. A member that was away skips
// it.
func TestMessagesAreKeptForAQuorum(t *testing.T) {
	w := newWorld(t)
	w.step(1, 0, 1)
	w.step(1, 0, 1)
	w.nodes[6].inbox = nil // lost with its link
	cover := func(ids ...multicast.ProcessID) {
		for _, id := range ids {
			w.step(id)
			w.nodes[id].cover = true
			w.step(id)
		}
		w.step(1)
	}
	cover(1, 2, 4)
	require.Equal(t, 2, w.nodes[1].core.Kept(), "one of group 1 is no quorum")
	cover(5)
	require.Zero(t, w.nodes[1].core.Kept())
	w.step(1, 0, 1)
	w.reset(1, 6)
	w.settle()
	class := Class([]multicast.GroupID{0, 1}, multicast.MessageID{Sender: 1})
	require.Equal(t, []multicast.MessageID{{Sender: 1, Seq: 3}}, w.nodes[6].delivered[class])
	require.Zero(t, w.nodes[6].core.Dropped())
}

// D1-D3 while links and processes restart: at the end all members of a destination have delivered all of each
// lane.
func TestRestarts(t *testing.T) {
	for seed := range uint64(200) {
		w := newWorld(t)
		rng := rand.New(rand.NewPCG(seed, 1))
		any := func() multicast.ProcessID { return w.ids[rng.IntN(len(w.ids))] }
		dests := [][]multicast.GroupID{{0, 1}, {0, 2}, {0, 1, 2}}
		sent := map[multicast.Class][]multicast.MessageID{}
		for range 300 {
			switch id := any(); rng.IntN(12) {
			case 0:
				w.reset(id, any())
			case 1:
				w.boot(id)
			case 2:
				n := w.nodes[id]
				n.records = [][]byte{n.core.Checkpoint()}
			case 3, 4:
				dest := dests[rng.IntN(len(dests))]
				w.step(id, dest...)
				class := Class(dest, multicast.MessageID{Sender: id})
				sent[class] = append(sent[class], multicast.MessageID{Sender: id, Seq: w.seq})
			case 5:
				w.nodes[id].cover = rng.IntN(4) == 0 && id%3 == 1 // one of each group: nothing is dropped
			default:
				w.step(id)
			}
		}
		for _, id := range w.ids {
			w.boot(id)
		}
		w.settle()
		for class, all := range sent {
			for _, id := range w.ids {
				if class[:len(class)-senderBytes].To(w.nodes[id].core.group) {
					require.Equal(t, all, w.nodes[id].delivered[class], "seed %d, process %d, lane %v", seed, id, class)
				}
			}
		}
	}
}

func TestBadInputIsDropped(t *testing.T) {
	w := newWorld(t)
	w.settle()
	c := w.nodes[4].core
	step := func(data []byte) (out multicast.Output) {
		c.Step(&multicast.Input{Frames: []multicast.Frame{{Peer: 1, Data: data}}}, &out)
		return out
	}
	good := &data{dest: []multicast.GroupID{0, 1}, first: 1, kept: kept{number: 1, seq: 9, payload: []byte("x")}}
	gap, unsorted, elsewhere := *good, *good, *good
	gap.number, unsorted.dest, elsewhere.dest = 3, []multicast.GroupID{1, 0}, []multicast.GroupID{0, 2}
	for i, bad := range [][]byte{
		{0}, {kindData}, {kindAck, 1, 0, 1}, good.append(nil)[:5], gap.append(nil), unsorted.append(nil), elsewhere.append(nil),
		appendAck(nil, multicast.ClassPosition{Class: Class(good.dest, multicast.MessageID{Sender: 4}), Position: multicast.Position{Final: 1}}),
	} {
		require.Empty(t, step(bad).Deliveries, "%d", i)
		require.EqualValues(t, i+1, c.Dropped(), "%d", i)
	}
	require.Len(t, step(good.append(nil)).Deliveries, 1)
	require.Empty(t, step(good.append(nil)).Deliveries, "repeated")
	var out multicast.Output
	c.Step(&multicast.Input{Proposed: []multicast.Message{{ID: multicast.MessageID{Sender: 1, Seq: 1}, Dest: good.dest}}}, &out)
	require.Empty(t, out.Records, "of another sender")
	require.Error(t, c.Replay([]byte{kindData, 1}))
	require.Error(t, c.Replay(nil))
	_, err := New(Config{Self: 99, Groups: w.groups})
	require.ErrorContains(t, err, "process 99")
}

// A process takes over the deliveries of another member, and keeps its own lanes.
func TestAdopt(t *testing.T) {
	w := newWorld(t)
	w.step(2, 0, 1)
	w.settle()
	w.step(1, 0, 1)
	w.settle()
	state := w.nodes[1].core.State()
	w.nodes[2].cover = true
	w.step(2)
	record, at, err := w.nodes[2].core.Adopt(state)
	require.NoError(t, err)
	require.True(t, at.Equal(w.nodes[1].progress))
	fresh, err := New(Config{Self: 2, Groups: w.groups, Delivered: at})
	require.NoError(t, err)
	require.NoError(t, fresh.Replay(record))
	require.Equal(t, 1, fresh.Kept())
	_, _, err = w.nodes[2].core.Adopt(multicast.Progress(nil).Append(nil))
	require.ErrorContains(t, err, "less than this process holds")
	_, _, err = w.nodes[2].core.Adopt([]byte{9})
	require.ErrorIs(t, err, multicast.ErrProgress)
}
