package order

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// fakeCore records its input, and returns the output that a test sets.
type fakeCore struct {
	name     string
	in       multicast.Input
	out      multicast.Output
	replayed []string
	leads    bool
	members  map[multicast.GroupID][]multicast.ProcessID
	err      error
}

func (c *fakeCore) Replay(record []byte) error {
	c.replayed = append(c.replayed, string(record))
	return c.err
}

func (c *fakeCore) Step(in *multicast.Input, out *multicast.Output) {
	c.in = *in
	c.in.Frames, c.in.Proposed = slices.Clone(in.Frames), slices.Clone(in.Proposed)
	out.Records = append(out.Records, c.out.Records...)
	out.Early, out.Frames = append(out.Early, c.out.Early...), append(out.Frames, c.out.Frames...)
	out.Deliveries = append(out.Deliveries, c.out.Deliveries...)
	out.Checkpoint, out.Safe, out.Behind, out.Wake = c.out.Checkpoint, c.out.Safe, c.out.Behind, c.out.Wake
	c.out = multicast.Output{}
}

func (c *fakeCore) Checkpoint() []byte { return []byte("checkpoint of " + c.name) }
func (c *fakeCore) Leads() bool        { return c.leads }
func (c *fakeCore) State() []byte      { return []byte("state of " + c.name) }

func (c *fakeCore) Members(g multicast.GroupID) []multicast.ProcessID { return c.members[g] }

func (c *fakeCore) Adopt(state []byte) ([]byte, multicast.Progress, error) {
	return []byte("adopted " + string(state)), nil, c.err
}

// pair is the orders of process 1, a member of group 4, over two fake cores.
type pair struct {
	t            *testing.T
	own, between *fakeCore
	*Orders
	received []string // messages of the last step
}

func newPair(t *testing.T) *pair {
	p := &pair{t: t, own: &fakeCore{name: "own"}, between: &fakeCore{name: "between"}}
	p.Orders = New(1, 4, p.own, p.between, 1<<32)
	return p
}

// step hands frames over, calls act, and steps the cores.
func (p *pair) step(act func(), frames ...multicast.Frame) multicast.Output {
	p.received = nil
	in := multicast.Input{Now: multicast.Instant{Mono: time.Second, Wall: 7}, Frames: frames}
	p.Begin(&in, func(from multicast.ProcessID, message []byte) {
		p.received = append(p.received, fmt.Sprintf("%d: %s", from, message))
	})
	if act != nil {
		act()
	}
	var out multicast.Output
	p.Step(false, &out)
	return out
}

func frame(peer multicast.ProcessID, data string) multicast.Frame {
	return multicast.Frame{Peer: peer, Data: []byte(data)}
}

func TestProposals(t *testing.T) {
	p := newPair(t)
	var own, between multicast.MessageID
	p.step(func() {
		own = p.Propose(Entry{Kind: 9, Body: []byte("one")})
		between = p.Multicast([]uint16{2, 4}, Entry{Kind: 8, Body: []byte("two")})
	})
	require.Equal(t, multicast.MessageID{Sender: 1, Seq: 1<<32 + 1}, own)
	require.Equal(t, multicast.MessageID{Sender: 1, Seq: 1<<32 + 2}, between, "one row of numbers")
	require.Len(t, p.own.in.Proposed, 1)
	require.Len(t, p.between.in.Proposed, 1)
	require.Equal(t, []multicast.GroupID{4}, p.own.in.Proposed[0].Dest)
	require.Equal(t, []multicast.GroupID{2, 4}, p.between.in.Proposed[0].Dest)
	require.NoError(t, p.between.in.Proposed[0].Validate())
	e, err := DecodeEntry(p.own.in.Proposed[0].Payload)
	require.NoError(t, err)
	require.Equal(t, Entry{Time: 7, Kind: 9, Body: []byte("one")}, e, "its time is that of the step")
	p.step(nil)
	require.Empty(t, p.own.in.Proposed, "proposed once")
	require.Empty(t, p.between.in.Proposed)

	require.True(t, p.Pending(own))
	require.True(t, p.Pending(between))
	require.False(t, p.Pending(multicast.MessageID{}))
	p.Delivered(own)
	p.Delivered(multicast.MessageID{Sender: 2, Seq: 1<<32 + 2})
	require.False(t, p.Pending(own))
	require.True(t, p.Pending(between))
	p.Delivered(between)
	require.False(t, p.Pending(between))
	require.Empty(t, p.proposed)
}

// The frames of the cores to one peer go in one frame, and are taken apart there.
func TestSectionsOfAFrame(t *testing.T) {
	p := newPair(t)
	p.own.out.Frames = []multicast.Frame{frame(2, "own"), frame(1, "to itself")}
	p.between.out.Frames = []multicast.Frame{frame(3, "between"), frame(2, "both")}
	out := p.step(func() {
		p.Send(5, []byte("first"))
		p.Send(2, []byte("message"))
		p.Send(5, []byte("second"))
		p.Send(1, []byte("never: it is this process"))
	})
	peers := map[multicast.ProcessID][]byte{}
	for _, f := range out.Frames {
		require.NotContains(t, peers, f.Peer, "one frame for each peer")
		peers[f.Peer] = f.Data
	}
	require.Len(t, peers, 4)
	for peer, want := range map[multicast.ProcessID]struct {
		own, between string
		messages     []string
	}{
		1: {own: "to itself"},
		2: {own: "own", between: "both", messages: []string{"9: message"}},
		3: {between: "between"},
		5: {messages: []string{"9: first", "9: second"}},
	} {
		other := newPair(t)
		other.step(nil, multicast.Frame{Peer: 9, Data: peers[peer]})
		require.Equal(t, want.messages, other.received)
		for _, x := range []struct {
			core *fakeCore
			want string
		}{{other.own, want.own}, {other.between, want.between}} {
			if x.want == "" {
				require.Empty(t, x.core.in.Frames)
			} else {
				require.Equal(t, []multicast.Frame{frame(9, x.want)}, x.core.in.Frames)
			}
		}
		require.Zero(t, other.malformed)
	}
	require.Empty(t, p.step(nil).Frames, "nothing is sent twice")
}

// A link that starts anew does so for both orders, and in its place among the frames.
// TestEarlyFramesStayEarly: the early frames of a core leave separately from its other frames. Messages
// between replicas, and all other frames, wait for the records.
func TestEarlyFramesStayEarly(t *testing.T) {
	p := newPair(t)
	p.LearnBackup(7)
	p.own.out.Early = []multicast.Frame{frame(2, "content")}
	p.own.out.Frames = []multicast.Frame{frame(2, "acknowledgement")}
	p.between.out.Frames = []multicast.Frame{frame(2, "statement")}
	out := p.step(func() { p.Send(2, []byte("message")) })
	require.Len(t, out.Early, 1)
	require.Len(t, out.Frames, 1)
	other := newPair(t)
	other.step(nil, multicast.Frame{Peer: 9, Data: out.Early[0].Data})
	require.Equal(t, []multicast.Frame{frame(9, "content")}, other.own.in.Frames)
	require.Empty(t, other.between.in.Frames)
	require.Empty(t, other.received)
	require.EqualValues(t, 7, other.Backup())
	other.step(nil, multicast.Frame{Peer: 9, Data: out.Frames[0].Data})
	require.Equal(t, []multicast.Frame{frame(9, "acknowledgement")}, other.own.in.Frames)
	require.Equal(t, []multicast.Frame{frame(9, "statement")}, other.between.in.Frames)
	require.Equal(t, []string{"9: message"}, other.received)
	require.Empty(t, p.step(nil).Early, "nothing is sent twice")
}

func TestALinkThatStartsAnew(t *testing.T) {
	p := newPair(t)
	before := append([]byte{byte(sectionOwn), 1, 'a'}, byte(sectionBetween), 1, 'b')
	p.step(nil, multicast.Frame{Peer: 2, Data: before}, multicast.Frame{Peer: 2})
	require.Equal(t, []multicast.Frame{frame(2, "a"), {Peer: 2}}, p.own.in.Frames)
	require.Equal(t, []multicast.Frame{frame(2, "b"), {Peer: 2}}, p.between.in.Frames)
	require.Zero(t, p.malformed)
	p.step(nil)
	require.Empty(t, p.own.in.Frames)
	require.Empty(t, p.between.in.Frames)
}

func TestMalformedFramesAreCounted(t *testing.T) {
	malformed := map[string][]byte{
		"an unknown section": {99, 1, 'x'},
		"a record's section": {byte(sectionBoth), 1, 'x'},
		"no length":          {byte(sectionOwn)},
		"an empty section":   {byte(sectionOwn), 0},
		"a section cut":      {byte(sectionBetween), 3, 'x'},
		"an empty message":   {byte(sectionMessage), 0},
		"a long number":      {255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1},
	}
	p := newPair(t)
	for name, data := range malformed {
		before := p.malformed
		p.step(nil, multicast.Frame{Peer: 2, Data: data}, frame(3, "\x01\x02ok"))
		require.Equal(t, before+1, p.malformed, name)
		require.Equal(t, []multicast.Frame{frame(3, "ok")}, p.own.in.Frames, name)
		require.Empty(t, p.between.in.Frames, name)
		require.Empty(t, p.received, name)
	}
}

// Messages are hints: a step sends a peer a bounded number of bytes of them, and drops the rest.
func TestMessagesAreBounded(t *testing.T) {
	p := newPair(t)
	big := make([]byte, maxMessages/4)
	p.own.out.Frames = []multicast.Frame{frame(2, "own")}
	out := p.step(func() {
		for range 6 {
			p.Send(2, big)
		}
		p.Send(3, big)
		p.Send(2, []byte("small"))
	})
	require.Len(t, out.Frames, 2)
	require.EqualValues(t, 2, out.Frames[0].Peer)
	require.LessOrEqual(t, len(out.Frames[0].Data), maxMessages+64)
	require.Greater(t, len(out.Frames[1].Data), len(big))
	other := newPair(t)
	other.step(nil, out.Frames[0])
	require.Len(t, other.received, 4, "three big ones and the small one")
	require.Equal(t, []multicast.Frame{frame(2, "own")}, other.own.in.Frames, "the orders are not bounded")
	out = p.step(func() { p.Send(2, big) })
	require.Len(t, out.Frames, 1, "the bound is that of a step")
}

func TestAStepJoinsTheOutputs(t *testing.T) {
	p := newPair(t)
	one := multicast.Delivery{Message: multicast.Message{ID: multicast.MessageID{Sender: 1, Seq: 1}, Dest: []multicast.GroupID{4}}}
	two := multicast.Delivery{Message: multicast.Message{ID: multicast.MessageID{Sender: 1, Seq: 2}, Dest: []multicast.GroupID{2, 4}}}
	p.own.out = multicast.Output{Deliveries: []multicast.Delivery{one}, Wake: 9, Safe: 5}
	p.between.out = multicast.Output{Deliveries: []multicast.Delivery{two}, Wake: 4, Safe: 8}
	in := multicast.Input{Now: multicast.Instant{Mono: time.Second}}
	p.Begin(&in, nil)
	p.Replace([]multicast.Replacement{{Old: 2, New: 3}})
	var out multicast.Output
	p.Step(true, &out)
	require.Equal(t, []multicast.Delivery{one, two}, out.Deliveries)
	require.False(t, IsBetween(&out.Deliveries[0]))
	require.True(t, IsBetween(&out.Deliveries[1]))
	require.EqualValues(t, 4, out.Wake)
	for _, core := range []*fakeCore{p.own, p.between} {
		require.True(t, core.in.Lead)
		require.Equal(t, []multicast.Replacement{{Old: 2, New: 3}}, core.in.Replace)
		require.Equal(t, time.Second, core.in.Now.Mono)
	}
}

func TestEarliest(t *testing.T) {
	require.Zero(t, Earliest())
	require.Zero(t, Earliest(0, 0))
	require.EqualValues(t, 3, Earliest(0, 7, 3, 0, 5))
}

func TestMembers(t *testing.T) {
	p := newPair(t)
	p.own.members = map[multicast.GroupID][]multicast.ProcessID{4: {1, 2, 3}}
	p.between.members = map[multicast.GroupID][]multicast.ProcessID{2: {7}, 4: {1, 2, 5}}
	require.True(t, p.HasMember(1))
	require.False(t, p.HasMember(3), "it is not in the order between partitions yet")
	require.False(t, p.HasMember(5))
	require.Equal(t, []multicast.ProcessID{7}, p.Members(2))
	require.Empty(t, p.Members(9))
	require.False(t, p.Leads())
	p.own.leads = true
	require.True(t, p.Leads())
	p.own.leads, p.between.leads = false, true
	require.False(t, p.Leads(), "the work is that of the own order's leader")
}

// A replay passes each record to the core that has made it.
func TestRecordsAreReplayed(t *testing.T) {
	p := newPair(t)
	p.own.out.Records = [][]byte{[]byte("o1"), []byte("o2"), {}}
	p.between.out.Records = [][]byte{[]byte("b1")}
	out := p.step(nil)
	require.False(t, out.Checkpoint)
	own, between := replayed(t, out.Records)
	require.Equal(t, []string{"o1", "o2", ""}, own)
	require.Equal(t, []string{"b1"}, between)
}

func replayed(t *testing.T, records [][]byte) (own, between []string) {
	t.Helper()
	a, b := &fakeCore{}, &fakeCore{}
	for _, r := range records {
		require.NoError(t, Replay(a, b, r))
	}
	return a.replayed, b.replayed
}

// The log is cut before a checkpoint: one of either order holds both.
func TestACheckpointJoinsBoth(t *testing.T) {
	for name, mark := range map[string]func(p *pair){
		"own":     func(p *pair) { p.own.out.Checkpoint = true },
		"between": func(p *pair) { p.between.out.Checkpoint = true },
		"both":    func(p *pair) { p.own.out.Checkpoint, p.between.out.Checkpoint = true, true },
	} {
		p := newPair(t)
		p.own.out.Records = [][]byte{[]byte("of a checkpoint"), []byte("after it")}
		p.between.out.Records = [][]byte{[]byte("also covered")}
		mark(p)
		out := p.step(nil)
		require.True(t, out.Checkpoint, name)
		require.Len(t, out.Records, 1, name)
		own, between := replayed(t, out.Records)
		require.Equal(t, []string{"checkpoint of own"}, own, name)
		require.Equal(t, []string{"checkpoint of between"}, between, name)
	}
}

func TestRecordsThatAreNotReplayed(t *testing.T) {
	for _, record := range [][]byte{nil, {}, {0}, {byte(sectionMessage), 1}, {99, 1, 2}, {byte(sectionBoth)}, {byte(sectionBoth), 9, 1}} {
		own, between := &fakeCore{}, &fakeCore{}
		require.ErrorIs(t, Replay(own, between, record), ErrVersion, "%x", record)
		require.Empty(t, own.replayed)
		require.Empty(t, between.replayed)
	}
	broken := errors.New("not mine")
	good, bad := &fakeCore{}, &fakeCore{err: broken}
	both := checkpoint([]byte("a"), []byte("b"))
	require.ErrorIs(t, Replay(bad, good, mark(sectionOwn, []byte("a"))), broken)
	require.ErrorIs(t, Replay(good, bad, mark(sectionBetween, []byte("a"))), broken)
	require.ErrorIs(t, Replay(bad, good, both), broken)
	require.ErrorIs(t, Replay(good, bad, both), broken)
}

func TestAdopt(t *testing.T) {
	giver, taker := newPair(t), newPair(t)
	record, err := taker.Adopt(giver.State())
	require.NoError(t, err)
	own, between := replayed(t, [][]byte{record})
	require.Equal(t, []string{"adopted state of own"}, own)
	require.Equal(t, []string{"adopted state of between"}, between)
	for _, states := range [][]byte{nil, {1}, {1, 'a'}, append(giver.State(), 0)} {
		_, err = taker.Adopt(states)
		require.Error(t, err, "%x", states)
	}
	for _, core := range []*fakeCore{taker.own, taker.between} {
		core.err = errors.New("not newer")
		_, err = taker.Adopt(giver.State())
		require.ErrorIs(t, err, core.err)
		core.err = nil
	}
}

// oneSidedCore is a core of the own order in one-sided memory.
type oneSidedCore struct {
	fakeCore
	completed []fabric.Completion
	left      bool
}

func (c *oneSidedCore) Complete(all []fabric.Completion) { c.completed = append(c.completed, all...) }

func (c *oneSidedCore) Effects(rights []fabric.Right, ops []fabric.Op) ([]fabric.Right, []fabric.Op) {
	return append(rights, fabric.Right{Peer: 3}), append(ops, fabric.Op{Peer: 4})
}

func (c *oneSidedCore) Leave() { c.left = true }

// A core in one-sided memory gets completions, and its effects leave with the turn. It learns from the order
// between partitions that its process was replaced.
func TestOneSided(t *testing.T) {
	own, between := &oneSidedCore{}, &retiringCore{}
	o := New(1, 4, own, between, 1<<32)
	done := []fabric.Completion{{Token: 7}}
	o.Complete(done)
	require.Equal(t, done, own.completed)
	var out multicast.Output
	o.Step(false, &out)
	rights, ops := o.Effects([]fabric.Right{{Peer: 2}}, nil)
	require.Equal(t, []fabric.Right{{Peer: 2}, {Peer: 3}}, rights)
	require.Equal(t, []fabric.Op{{Peer: 4}}, ops)
	require.False(t, own.left)
	between.retired = true
	o.Step(false, &out)
	require.True(t, own.left)

	p := newPair(t)
	p.Complete(done)
	rights, ops = p.Effects(nil, nil)
	require.Empty(t, rights)
	require.Empty(t, ops)
}

// retiringCore may be retired.
type retiringCore struct {
	fakeCore
	retired bool
}

func (c *retiringCore) Step(in *multicast.Input, out *multicast.Output) {
	c.fakeCore.Step(in, out)
	out.Retired = c.retired
}
