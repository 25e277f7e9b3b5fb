package primcast

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Groups of Figure 4.1: g = {1, 2, 3}, h = {4, 5, 6}; 1 and 4 are the primaries.
var (
	g = multicast.Group{ID: 1, Members: []multicast.ProcessID{1, 2, 3}}
	h = multicast.Group{ID: 2, Members: []multicast.ProcessID{4, 5, 6}}
)

// at makes a process of the figure.
func at(t *testing.T, self multicast.ProcessID) *Core {
	t.Helper()
	c, err := New(Config{Self: self, Groups: []multicast.Group{g, h}})
	require.NoError(t, err)
	return c
}

// step feeds one frame of encoded messages and gives what the core says.
func step(c *Core, from multicast.ProcessID, messages ...[]byte) *multicast.Output {
	frame := appendPosition(nil, multicast.Position{})
	for _, m := range messages {
		frame = append(frame, m...)
	}
	var out multicast.Output
	c.Step(&multicast.Input{Frames: []multicast.Frame{{Peer: from, Data: frame}}}, &out)
	return &out
}

func message(seq uint64, dest ...multicast.GroupID) multicast.Message {
	return multicast.Message{ID: multicast.MessageID{Sender: 5, Seq: seq}, Dest: dest, Payload: []byte("m")}
}

func start(m multicast.Message) []byte { return appendMessage([]byte{kindStart}, &m) }

func ackFor(m multicast.Message, leader multicast.ProcessID, ts multicast.Timestamp, position uint64) []byte {
	return appendAck([]byte{kindAck}, &ack{id: m.ID, dest: m.Dest, epoch: Epoch{Leader: leader}, ts: ts, position: position})
}

func bump(leader multicast.ProcessID, ts multicast.Timestamp) []byte {
	return appendUint(appendEpoch([]byte{kindBump}, Epoch{Leader: leader}), uint64(ts))
}

// saidTo decodes what out holds for a peer.
func saidTo(t *testing.T, out *multicast.Output, peer multicast.ProcessID) *recorder {
	t.Helper()
	r := &recorder{}
	for _, f := range out.Frames {
		if f.Peer == peer {
			require.NoError(t, decodeFrame(0, f.Data, r))
		}
	}
	return r
}

type recorder struct {
	acks   []ack
	bumps  []multicast.Timestamp
	starts []multicast.MessageID
}

func (r *recorder) onCovered(multicast.ProcessID, multicast.Position) {}
func (r *recorder) onStart(_ multicast.ProcessID, m multicast.Message) {
	r.starts = append(r.starts, m.ID)
}
func (r *recorder) onPayload(_ multicast.ProcessID, m multicast.Message) {
	r.starts = append(r.starts, m.ID)
}
func (r *recorder) onAck(_ multicast.ProcessID, a ack)              { r.acks = append(r.acks, a) }
func (r *recorder) onDone(multicast.ProcessID, multicast.MessageID) {}
func (r *recorder) onBump(_ multicast.ProcessID, _ Epoch, ts multicast.Timestamp) {
	r.bumps = append(r.bumps, ts)
}

func TestAlg2Line32StartGoesToAllDestinationProcesses(t *testing.T) {
	c := at(t, 5)
	var out multicast.Output
	m := message(1, 1, 2)
	c.Step(&multicast.Input{Proposed: []multicast.Message{m}}, &out)
	require.Len(t, out.Frames, 6)
	for _, f := range out.Frames {
		require.Equal(t, []multicast.MessageID{m.ID}, saidTo(t, &out, f.Peer).starts)
	}
}

func TestAlg2Line37PrimaryProposesOnceWithItsNextClock(t *testing.T) {
	c := at(t, 1)
	m := message(1, 1, 2)
	out := step(c, 5, start(m))
	require.Len(t, out.Records, 1, "line 38 is durable before line 39 is heard")
	for _, p := range []multicast.ProcessID{1, 2, 3, 4, 5, 6} {
		require.Equal(t, multicast.Timestamp(1), saidTo(t, out, p).acks[0].ts)
	}
	require.Empty(t, step(c, 5, start(m)).Frames, "line 25: not again")
	require.Equal(t, multicast.Timestamp(2), saidTo(t, step(c, 5, start(message(2, 1))), 2).acks[0].ts)
}

func TestAfterRaisesTheProposal(t *testing.T) {
	m := message(1, 1)
	m.After = 41
	require.Equal(t, multicast.Timestamp(42), saidTo(t, step(at(t, 1), 5, start(m)), 2).acks[0].ts)
}

func TestAlg2Line42FollowerAcknowledgesThePrimaryOnly(t *testing.T) {
	c := at(t, 2)
	m := message(1, 1)
	require.Empty(t, step(c, 5, start(m)).Frames, "a follower proposes nothing")
	require.Empty(t, step(c, 3, ackFor(m, 1, 7, 0)).Frames, "an ACK of a follower is not a proposal")
	out := step(c, 1, ackFor(m, 1, 7, 0))
	require.Equal(t, multicast.Timestamp(7), saidTo(t, out, 1).acks[0].ts)
	require.Equal(t, byte(recordEntry), out.Records[0][0])
}

func TestAlg2Line42WaitsForTheContent(t *testing.T) {
	c := at(t, 2)
	m, next := message(1, 1), message(2, 1)
	require.Empty(t, step(c, 1, ackFor(m, 1, 7, 0), ackFor(next, 1, 8, 1), bump(1, 9)).Frames)
	require.Zero(t, c.clocks[0], "the primary's clock is believed only after its proposals are in T")
	require.Empty(t, step(c, 5, start(next)).Frames, "T is in the primary's order")
	require.Len(t, saidTo(t, step(c, 5, start(m)), 3).acks, 2)
	require.Equal(t, multicast.Timestamp(9), c.clocks[0])
}

func TestAlg2Line48RemoteAckBumpsTheGroup(t *testing.T) {
	c := at(t, 2)
	m := message(1, 1, 2)
	out := step(c, 4, ackFor(m, 4, 5, 0))
	for _, p := range g.Members {
		require.Equal(t, []multicast.Timestamp{5}, saidTo(t, out, p).bumps)
	}
	require.Empty(t, saidTo(t, out, 4).bumps, "BUMP stays in the group")
	require.Len(t, out.Records, 1, "the ceiling of the clock is durable before BUMP is heard")
	require.Empty(t, step(c, 5, ackFor(m, 4, 5, 0)).Frames, "nothing new")
}

// Figure 4.1 at p2: final-ts is 2, from h. Without the BUMPs quorum-clock stays 1 and m is
// not delivered.
func TestFigure41(t *testing.T) {
	c := at(t, 2)
	m := message(1, 1, 2)
	step(c, 5, start(m))
	step(c, 1, ackFor(m, 1, 1, 0))
	step(c, 2, ackFor(m, 1, 1, 0))
	step(c, 4, ackFor(m, 4, 2, 0))
	require.Empty(t, step(c, 6, ackFor(m, 4, 2, 0)).Deliveries, "line 29")
	require.Empty(t, step(c, 2, bump(1, 2)).Deliveries, "line 28: the primary may still propose 2")
	out := step(c, 1, bump(1, 2))
	require.Len(t, out.Deliveries, 1)
	require.Equal(t, multicast.Timestamp(2), out.Deliveries[0].Final)
	require.Equal(t, multicast.Timestamp(2), out.Safe)
}

func TestAlg1Line30WaitsForWhatMayBeLower(t *testing.T) {
	c := at(t, 2)
	both, local := message(1, 1, 2), message(2, 1)
	step(c, 5, start(both), start(local))
	step(c, 1, ackFor(both, 1, 1, 0), ackFor(local, 1, 2, 1))
	out := step(c, 2, ackFor(both, 1, 1, 0), ackFor(local, 1, 2, 1))
	require.Empty(t, out.Deliveries, "both may still get final-ts 2 and a lower id")
	require.Equal(t, multicast.Timestamp(0), out.Safe)
	step(c, 4, ackFor(both, 4, 2, 0))
	out = step(c, 6, ackFor(both, 4, 2, 0))
	require.Equal(t, []multicast.MessageID{both.ID, local.ID}, []multicast.MessageID{out.Deliveries[0].ID, out.Deliveries[1].ID})
}

func TestGapsAreNotAppended(t *testing.T) {
	c := at(t, 2)
	m := message(1, 1)
	step(c, 5, start(m))
	require.Empty(t, step(c, 1, ackFor(m, 1, 9, 3)).Frames)
	require.Equal(t, uint64(1), c.Stats().Gaps)
}

func TestMalformedInputIsCounted(t *testing.T) {
	c := at(t, 2)
	var out multicast.Output
	c.Step(&multicast.Input{Frames: []multicast.Frame{{Peer: 1, Data: []byte{0xff}}, {Peer: 99, Data: []byte{1}}}}, &out)
	m := message(1, 2)
	step(c, 5, start(m))
	require.Equal(t, Stats{Malformed: 2, Unknown: 1}, c.Stats())
	require.ErrorContains(t, c.Replay([]byte{77}), "unknown kind")
	require.Error(t, c.Replay([]byte{recordEntry, 5}))
}

func TestConfigValidate(t *testing.T) {
	for want, cfg := range map[string]Config{
		"in none of the groups": {Self: 9, Groups: []multicast.Group{g}},
		"stands twice":          {Self: 1, Groups: []multicast.Group{g, g}},
		"groups are disjoint":   {Self: 1, Groups: []multicast.Group{g, {ID: 3, Members: []multicast.ProcessID{1}}}},
		"has 0 members":         {Self: 1, Groups: []multicast.Group{{ID: 3}}},
	} {
		_, err := New(cfg)
		require.ErrorContains(t, err, want)
	}
}

// Memory stays flat: what all have covered is forgotten, in M, T and the log on disk.
func TestTrimming(t *testing.T) {
	n := newNetwork(t, 5, 3, 3)
	for range 30 {
		for range 40 {
			x := n.nodes[n.ids[n.rng.IntN(len(n.ids))]]
			m := n.message(x.id)
			m.Payload = make([]byte, 4<<10)
			n.step(x, m)
		}
		n.settle()
	}
	n.settle()
	for _, id := range n.ids {
		x := n.nodes[id]
		x.durable = len(x.delivered)
		require.Less(t, x.core.Pending(), 300, "of 1200 messages")
		size := 0
		for _, r := range x.records {
			size += len(r)
		}
		require.Less(t, size, 4*checkpointMinimum)
	}
}

func FuzzDecodeFrame(f *testing.F) {
	m := message(3, 1, 2)
	f.Add(append(appendPosition(nil, multicast.Position{Final: 4}), start(m)...))
	f.Add(append(appendPosition(nil, multicast.Position{}), ackFor(m, 1, 9, 4)...))
	f.Add(append(appendPosition(nil, multicast.Position{}), bump(1, 9)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer func() { // a peer that breaks the protocol stops the process, and says why
			if r := recover(); r != nil {
				require.IsType(t, invariant.Broken{}, r)
			}
		}()
		c := at(t, 2)
		var out multicast.Output
		for _, peer := range []multicast.ProcessID{1, 3, 4} {
			c.Step(&multicast.Input{Frames: []multicast.Frame{{Peer: peer, Data: b}}}, &out)
			out.Reset()
		}
	})
}

func FuzzReplay(f *testing.F) {
	c, err := New(Config{Self: 2, Groups: []multicast.Group{g, h}})
	require.NoError(f, err)
	m := &entry{Message: message(3, 1)}
	f.Add(c.entryRecord(m))
	f.Add(c.checkpoint())
	f.Add([]byte{recordFinals, 1, 0, 5})
	f.Add([]byte{recordCeiling, 5})
	f.Fuzz(func(t *testing.T, b []byte) { _ = at(t, 2).Replay(b) })
}
