package multiring

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/bench/baseline/baselinetest"
	"github.com/globalfs/globalfs/pkg/multicast"
)

var twoGroups = baselinetest.TwoGroups()

func newCore(t testing.TB, self multicast.ProcessID) *Core {
	c, err := New(Config{Self: self, Groups: twoGroups})
	require.NoError(t, err)
	return c
}

func frame(all ...packet) (b []byte) {
	for i := range all {
		b = all[i].append(b)
	}
	return b
}

func TestBadFramesAreDroppedAndCounted(t *testing.T) {
	id := multicast.MessageID{Sender: 4, Seq: 1}
	one, both := baselinetest.Route(1), baselinetest.Route(1, 300)
	for name, c := range map[string]struct {
		self, from multicast.ProcessID
		data       []byte
	}{
		"unknown kind":                  {1, 4, []byte{9, 1, 1}},
		"unknown ring":                  {2, 1, []byte{byte(kindDecided), 2, 0}},
		"cut short":                     {1, 4, frame(packet{kind: kindPropose, id: id, route: both})[:4]},
		"from nobody":                   {1, 9, frame(packet{kind: kindPropose, id: id, route: both})},
		"PROPOSE to another ring":       {1, 4, frame(packet{kind: kindPropose, id: id, route: baselinetest.Route(300)})},
		"PROPOSE to no coordinator":     {2, 4, frame(packet{kind: kindPropose, id: id, route: one})},
		"PROPOSE of another sender":     {1, 5, frame(packet{kind: kindPropose, id: id, route: both})},
		"PROPOSE to an unknown group":   {1, 4, frame(packet{kind: kindPropose, id: id, route: baselinetest.Route(2)})},
		"PROPOSE to a group twice":      {1, 4, frame(packet{kind: kindPropose, id: id, route: baselinetest.Route(1, 1)})},
		"PROPOSE to nobody":             {1, 4, frame(packet{kind: kindPropose, id: id})},
		"PROPOSE after the end":         {1, 4, frame(packet{kind: kindPropose, id: id, route: one, after: maxNumber})},
		"VALUE against the ring":        {2, 3, frame(packet{kind: kindValue, id: id, route: one})},
		"VALUE in the wrong ring":       {2, 1, frame(packet{kind: kindValue, rank: globalRank, id: id, route: one})},
		"VALUE with a hole":             {2, 1, frame(packet{kind: kindValue, slot: 1, id: id, route: one})},
		"VALUE to the coordinator":      {1, 3, frame(packet{kind: kindValue, id: id, route: one})},
		"SKIP with a hole":              {2, 1, frame(packet{kind: kindSkip, slot: 1, count: 1})},
		"SKIP past the end":             {2, 1, frame(packet{kind: kindSkip, count: maxNumber})},
		"SKIP to the coordinator":       {1, 3, frame(packet{kind: kindSkip, count: 1})},
		"DECIDED of what is not there":  {1, 3, frame(packet{kind: kindDecided, slot: 1})},
		"DECIDED to one that must know": {2, 1, frame(packet{kind: kindDecided})},
		"a number that is too high":     {1, 3, frame(packet{kind: kindDecided, slot: maxNumber + 1})},
	} {
		core := newCore(t, c.self)
		require.Empty(t, baselinetest.Receive(core, c.from, c.data).Deliveries, name)
		require.NotZero(t, core.Stats().Malformed, name)
	}
}

// TestARound follows a message through the ring of a group that is alone.
func TestARound(t *testing.T) {
	var cores []*Core
	for _, p := range twoGroups[0].Members {
		c, err := New(Config{Self: p, Groups: twoGroups[:1]})
		require.NoError(t, err)
		cores = append(cores, c)
	}
	first, second, third := cores[0], cores[1], cores[2]
	baselinetest.Receive(first, 3, nil)
	baselinetest.Receive(second, 3, nil)
	baselinetest.Receive(third, 1, nil)
	propose := frame(packet{kind: kindPropose, id: multicast.MessageID{Sender: 2, Seq: 1}, route: baselinetest.Route(1), after: 41, payload: []byte("x")})
	out := baselinetest.Receive(first, 2, propose)
	require.Empty(t, out.Deliveries)
	require.Len(t, out.Frames, 1)
	require.EqualValues(t, 2, out.Frames[0].Peer)
	value := out.Frames[0].Data

	out = baselinetest.Receive(second, 1, value)
	require.Len(t, out.Deliveries, 1, "two votes of three")
	require.EqualValues(t, 43, out.Deliveries[0].Final, "places above 41 in the group's ring are odd: M is 1")
	require.EqualValues(t, 44, out.Safe)
	require.Equal(t, []multicast.Frame{{Peer: 3, Data: value}}, out.Frames)

	out = baselinetest.Receive(third, 2, value)
	require.Len(t, out.Deliveries, 1)
	require.Len(t, out.Frames, 1)
	decided := frame(packet{kind: kindDecided, slot: 22})
	require.Equal(t, []multicast.Frame{{Peer: 1, Data: decided}}, out.Frames)

	out = baselinetest.Receive(first, 3, decided)
	require.Len(t, out.Deliveries, 1)
	require.Empty(t, out.Frames, "the second knows by its own vote")
	baselinetest.Receive(first, 2, propose)
	require.EqualValues(t, 1, first.Stats().Malformed, "a number that was used")
}

func TestConfigReplayAndProposals(t *testing.T) {
	for want, cfg := range map[string]Config{
		"group 7 has no members":  {Self: 1, Groups: []multicast.Group{{ID: 7}}},
		"group 7 has no members ": {Self: 1, Groups: []multicast.Group{{ID: 7, Members: []multicast.ProcessID{1}}, {ID: 7, Members: []multicast.ProcessID{2}}}},
		"process 1 of group 8":    {Self: 1, Groups: []multicast.Group{{ID: 7, Members: []multicast.ProcessID{1}}, {ID: 8, Members: []multicast.ProcessID{1}}}},
		"Self: process 1":         {Self: 1, Groups: []multicast.Group{{ID: 7, Members: []multicast.ProcessID{2}}}},
		"Lambda -1":               {Self: 1, Groups: twoGroups, Lambda: -1},
		"Delta -1ns":              {Self: 1, Groups: twoGroups, Delta: -1},
		"M 1000001":               {Self: 1, Groups: twoGroups, M: 1_000_001},
		"Ring: process 2":         {Self: 1, Groups: twoGroups, Ring: []multicast.ProcessID{1, 2, 3, 4, 5, 6, 2}},
		"Ring: process 7":         {Self: 1, Groups: twoGroups, Ring: []multicast.ProcessID{7}},
		"Ring: 4 of 6":            {Self: 1, Groups: twoGroups, Ring: []multicast.ProcessID{5, 1}},
	} {
		_, err := New(cfg)
		require.ErrorContains(t, err, want)
	}
	c := newCore(t, 1)
	require.ErrorContains(t, c.Replay(nil), "no recovery")
	propose := func(m multicast.Message) Stats {
		var out multicast.Output
		c.Step(&multicast.Input{Proposed: []multicast.Message{m}}, &out)
		require.Empty(t, out.Frames, "links have not started")
		return c.Stats()
	}
	one := multicast.Message{ID: multicast.MessageID{Sender: 1, Seq: 1}, Dest: []multicast.GroupID{1}}
	require.EqualValues(t, 1, propose(multicast.Message{ID: one.ID}).Refused)
	require.EqualValues(t, 2, propose(multicast.Message{ID: one.ID, Dest: one.Dest, Order: multicast.AtomicGlobal}).Refused)
	require.EqualValues(t, 3, propose(multicast.Message{ID: one.ID, Dest: one.Dest, After: maxSlot + 1}).Refused)
	require.Equal(t, 1, propose(one).Waiting)
	require.EqualValues(t, 1, propose(one).Repeated)
	require.PanicsWithError(t, "invariant broken: process 1 proposes message 2.1", func() {
		propose(multicast.Message{ID: multicast.MessageID{Sender: 2, Seq: 1}})
	})
	var out multicast.Output
	c.Step(&multicast.Input{Frames: []multicast.Frame{{Peer: 2}}}, &out)
	require.Len(t, out.Frames, 1, "what waited for the link")
	require.Equal(t, DefaultDelta, out.Wake)
}

// TestManyProposals: a coordinator orders some of them in a step, in their order, and the rest in the next
// ones.
func TestManyProposals(t *testing.T) {
	c := newCore(t, 1)
	baselinetest.Receive(c, 2, nil)
	var all []packet
	for seq := range uint64(10) {
		id := multicast.MessageID{Sender: 4, Seq: seq + 1}
		all = append(all, packet{kind: kindPropose, id: id, route: baselinetest.Route(1, 300), payload: make([]byte, maxStep/4)})
	}
	all[9].payload = make([]byte, 2*maxStep) // alone
	in := multicast.Input{Frames: []multicast.Frame{{Peer: 4}, {Peer: 4, Data: frame(all...)}}}
	var sizes []int
	for {
		var out multicast.Output
		c.Step(&in, &out)
		before := len(sizes)
		for _, f := range out.Frames {
			if f.Peer == 2 {
				sizes = append(sizes, len(f.Data))
			}
		}
		if out.Wake != in.Now.Mono+1 {
			break
		}
		require.Len(t, sizes, before+1)
		in = multicast.Input{Now: multicast.Instant{Mono: out.Wake}}
	}
	require.Len(t, sizes, 4)
	for _, size := range sizes[:3] {
		require.LessOrEqual(t, size, maxStep+100)
	}
	require.Greater(t, sizes[3], 2*maxStep)
	require.EqualValues(t, 10, c.global.accepted)
}

func seeds(f *testing.F) {
	id := multicast.MessageID{Sender: 4, Seq: 300}
	f.Add(frame(packet{kind: kindPropose, id: id, route: baselinetest.Route(1, 300), after: 5, payload: []byte("x")}, packet{kind: kindPropose, id: id, route: baselinetest.Route(1)}))
	f.Add(frame(packet{kind: kindValue, id: id, route: baselinetest.Route(1), payload: []byte("x")}, packet{kind: kindSkip, slot: 1, count: 300}))
	f.Add(frame(packet{kind: kindSkip, rank: 1, count: 7}, packet{kind: kindDecided, rank: 1, slot: 7}))
	f.Add([]byte{byte(kindPropose), 4, 1, 200, 1})
}

func FuzzCodec(f *testing.F) {
	seeds(f)
	baselinetest.FuzzCodec(f, (*packet).read, frame)
}

// No message from any process stops a coordinator or another process.
func FuzzStep(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, self := range []multicast.ProcessID{1, 2, 4} {
			c := newCore(t, self)
			for from := range multicast.ProcessID(7) {
				baselinetest.Receive(c, from+1, data)
			}
		}
	})
}
