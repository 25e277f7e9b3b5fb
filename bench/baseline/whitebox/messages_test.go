package whitebox

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/bench/baseline/baselinetest"
	"github.com/globalfs/globalfs/bench/baseline/routes"
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
	both := baselinetest.Route(1, 300)
	for name, c := range map[string]struct {
		self, from multicast.ProcessID
		data       []byte
	}{
		"unknown kind":                     {1, 4, []byte{9, 1, 1}},
		"cut short":                        {1, 4, frame(packet{kind: kindMulticast, id: id, route: both})[:4]},
		"from nobody":                      {1, 9, frame(packet{kind: kindAck, id: id})},
		"MULTICAST to a follower":          {2, 4, frame(packet{kind: kindMulticast, id: id, route: both})},
		"MULTICAST of another sender":      {1, 5, frame(packet{kind: kindMulticast, id: id, route: both})},
		"MULTICAST to others":              {1, 4, frame(packet{kind: kindMulticast, id: id, route: baselinetest.Route(300)})},
		"MULTICAST to an unknown group":    {1, 4, frame(packet{kind: kindMulticast, id: id, route: baselinetest.Route(1, 2)})},
		"MULTICAST to a group twice":       {1, 4, frame(packet{kind: kindMulticast, id: id, route: baselinetest.Route(1, 1)})},
		"MULTICAST to nobody":              {1, 4, frame(packet{kind: kindMulticast, id: id})},
		"ACCEPT of a follower":             {1, 5, frame(packet{kind: kindAccept, id: id, route: both, ts: 1})},
		"ACCEPT with local timestamp 0":    {1, 4, frame(packet{kind: kindAccept, id: id, route: both})},
		"ACCEPT of a group not in it":      {1, 4, frame(packet{kind: kindAccept, id: id, route: baselinetest.Route(1), ts: 1})},
		"ACCEPT of an unknown sender":      {1, 4, frame(packet{kind: kindAccept, id: multicast.MessageID{Sender: 9, Seq: 1}, route: both, ts: 1})},
		"ACCEPT_ACK of an unknown message": {1, 4, frame(packet{kind: kindAck, id: id})},
		"DELIVER of an unknown message":    {2, 1, frame(packet{kind: kindDeliver, id: id, ts: 1})},
		"DELIVER of another group":         {2, 4, frame(packet{kind: kindDeliver, id: id, ts: 1})},
		"DELIVERED to a follower":          {2, 1, frame(packet{kind: kindDelivered, id: id, ts: 1})},
		"FORGET of what is not delivered":  {2, 1, frame(packet{kind: kindForget, id: id, ts: 1})},
		"FORGET of another group":          {2, 4, frame(packet{kind: kindForget, id: id, ts: 1})},
		"a number that is too high":        {1, 4, frame(packet{kind: kindDelivered, id: id, ts: maxNumber + 1})},
	} {
		core := newCore(t, c.self)
		require.Empty(t, baselinetest.Receive(core, c.from, c.data).Deliveries, name)
		require.NotZero(t, core.Stats().Malformed, name)
	}
}

// A second vote or a repeated acknowledgement changes nothing.
func TestASecondVoteCountsOnce(t *testing.T) {
	c := newCore(t, 1)
	id := multicast.MessageID{Sender: 4, Seq: 1}
	both := baselinetest.Route(1, 300)
	baselinetest.Receive(c, 4, frame(packet{kind: kindMulticast, id: id, route: both}, packet{kind: kindAccept, id: id, route: both, ts: 7}))
	require.Empty(t, baselinetest.Receive(c, 4, frame(packet{kind: kindAccept, id: id, route: both, ts: 9})).Deliveries)
	require.EqualValues(t, 1, c.Stats().Malformed)
	for range 3 { // process 1 itself and 4: no quorum of either group
		require.Empty(t, baselinetest.Receive(c, 4, frame(packet{kind: kindAck, id: id})).Deliveries)
	}
	require.Empty(t, baselinetest.Receive(c, 5, frame(packet{kind: kindAck, id: id})).Deliveries)
	out := baselinetest.Receive(c, 2, frame(packet{kind: kindAck, id: id}))
	require.Len(t, out.Deliveries, 1)
	require.EqualValues(t, 7, out.Deliveries[0].Final)
	require.EqualValues(t, 7, out.Safe)
}

func TestConfigReplayAndProposals(t *testing.T) {
	for want, groups := range map[string][]multicast.Group{
		"group 7 has 0 members": {{ID: 7}},
		"stands twice: use":     {{ID: 7, Members: []multicast.ProcessID{1}}, {ID: 7, Members: []multicast.ProcessID{2}}},
		"process 1 of group 8":  {{ID: 7, Members: []multicast.ProcessID{1}}, {ID: 8, Members: []multicast.ProcessID{1}}},
		"Self: process 1":       {{ID: 7, Members: []multicast.ProcessID{2}}},
	} {
		_, err := New(Config{Self: 1, Groups: groups})
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
	require.EqualValues(t, 1, propose(multicast.Message{ID: multicast.MessageID{Sender: 1, Seq: 1}}).Refused)
	require.EqualValues(t, 2, propose(multicast.Message{ID: multicast.MessageID{Sender: 1, Seq: 1}, Dest: []multicast.GroupID{1}, Order: multicast.AtomicGlobal}).Refused)
	one := multicast.Message{ID: multicast.MessageID{Sender: 1, Seq: 1}, Dest: []multicast.GroupID{1}}
	require.Equal(t, 1, propose(one).Pending)
	require.EqualValues(t, 1, propose(one).Repeated)
	require.PanicsWithError(t, "invariant broken: process 1 proposes message 2.1", func() {
		propose(multicast.Message{ID: multicast.MessageID{Sender: 2, Seq: 1}})
	})
	var out multicast.Output
	c.Step(&multicast.Input{Frames: []multicast.Frame{{Peer: 2}}}, &out)
	require.Len(t, out.Frames, 1, "what waited for the link")
}

func TestRoutesAreBounded(t *testing.T) {
	var groups []multicast.Group
	for g := range multicast.GroupID(13) {
		groups = append(groups, multicast.Group{ID: g, Members: []multicast.ProcessID{multicast.ProcessID(g) + 1}})
	}
	c, err := New(Config{Self: 1, Groups: groups})
	require.NoError(t, err)
	for set := 1; set < 1<<13; set++ {
		var dest []multicast.GroupID
		for g := range multicast.GroupID(13) {
			if set&(1<<g) != 0 {
				dest = append(dest, g)
			}
		}
		require.Equal(t, dest, c.routes.To(dest).dest)
	}
	require.LessOrEqual(t, c.routes.Len(), routes.Most)
}

func seeds(f *testing.F) {
	id := multicast.MessageID{Sender: 4, Seq: 300}
	both := baselinetest.Route(1, 300)
	f.Add(frame(packet{kind: kindMulticast, id: id, route: both, after: 5, payload: []byte("x")}, packet{kind: kindAccept, id: id, route: both, ts: 300}))
	f.Add(frame(packet{kind: kindAck, id: id}, packet{kind: kindDeliver, id: id, ts: 7}, packet{kind: kindDelivered, id: id, ts: 7}, packet{kind: kindForget, id: id, ts: 7}))
	f.Add([]byte{byte(kindMulticast), 4, 1, 200, 1})
}

func FuzzCodec(f *testing.F) {
	seeds(f)
	baselinetest.FuzzCodec(f, (*packet).read, frame)
}

// No message from any process breaks an invariant of a leader or a follower.
func FuzzStep(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, self := range []multicast.ProcessID{1, 2} {
			c := newCore(t, self)
			for from := range multicast.ProcessID(7) {
				baselinetest.Receive(c, from+1, data)
			}
		}
	})
}
