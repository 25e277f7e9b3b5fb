package primcast

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// Groups g = {1, 2, 3} and h = {4, 5, 6}, as in Figure 4.1.
var (
	groupG = multicast.Group{ID: 1, Members: []multicast.ProcessID{1, 2, 3}}
	groupH = multicast.Group{ID: 2, Members: []multicast.ProcessID{4, 5, 6}}
	epochG = Epoch{Number: 1, Leader: 1}
	epochH = Epoch{Number: 1, Leader: 4}
	both   = []multicast.GroupID{1, 2}
)

func newCore(t *testing.T, self multicast.ProcessID) *Core {
	c, err := New(Config{Self: self, Groups: []multicast.Group{groupG, groupH}})
	require.NoError(t, err)
	return c
}

func msg(seq uint64, dest ...multicast.GroupID) *multicast.Message {
	return &multicast.Message{ID: multicast.MessageID{Sender: 5, Seq: seq}, Dest: dest, Payload: []byte("content")}
}

func ackOf(m *multicast.Message, e Epoch, ts multicast.Timestamp, index uint64) []byte {
	return appendAck(nil, &message{Message: *m, epoch: e, ts: ts, index: index})
}

// hear gives c one frame and returns what it does.
func hear(c *Core, from multicast.ProcessID, data []byte) *multicast.Output {
	out := &multicast.Output{}
	c.Step(&multicast.Input{Frames: []multicast.Frame{{Peer: from, Data: data}}}, out)
	c.audit()
	return out
}

// said is what out says to a process, of one kind.
func said(t *testing.T, out *multicast.Output, to multicast.ProcessID, k kind) (found []packet) {
	for _, f := range out.Frames {
		if f.Peer != to {
			continue
		}
		packets, err := decodeFrame(f.Data, nil)
		require.NoError(t, err)
		for _, p := range packets {
			if p.kind == k {
				found = append(found, p)
			}
		}
	}
	return found
}

func TestAlg1Line8FirstMemberIsPrimary(t *testing.T) {
	require.Equal(t, Primary, newCore(t, 1).state)
	require.Equal(t, Follower, newCore(t, 2).state)
	require.Equal(t, epochH, newCore(t, 6).current)
}

func TestAlg1Line9LocalTimestampNeedsQuorumOfOneEpoch(t *testing.T) {
	c := newCore(t, 2)
	m := &message{Message: *msg(1, 1)}
	require.False(t, m.count(c.peers[1], epochG, 4))
	require.False(t, m.count(c.peers[1], epochG, 4), "twice is once")
	require.False(t, m.count(c.peers[3], Epoch{Number: 2, Leader: 2}, 4), "another epoch")
	require.Zero(t, m.localTS(1))
	require.True(t, m.count(c.peers[2], epochG, 4))
	require.EqualValues(t, 4, m.localTS(1))
}

func TestAlg1Line12FinalTimestampIsHighestLocal(t *testing.T) {
	c := newCore(t, 2)
	m := &message{Message: *msg(1, both...), started: true}
	for _, q := range []multicast.ProcessID{1, 2} {
		m.count(c.peers[q], epochG, 4)
	}
	require.Zero(t, m.finalTS())
	for _, q := range []multicast.ProcessID{4, 6} {
		m.count(c.peers[q], epochH, 9)
	}
	require.EqualValues(t, 9, m.finalTS())
}

func TestAlg1Line17QuorumClock(t *testing.T) {
	c := newCore(t, 3)
	for q, ts := range map[multicast.ProcessID]multicast.Timestamp{1: 9, 2: 5, 3: 1} {
		hear(c, q, appendBump(nil, epochG, ts, 0))
	}
	require.EqualValues(t, 5, c.quorumClock)
}

func TestAlg1Line15MinClockIgnoresLaterEpochs(t *testing.T) {
	c := newCore(t, 3)
	hear(c, 2, appendBump(nil, Epoch{Number: 2, Leader: 2}, 5, 0))
	require.Zero(t, c.peers[2].clock)
}

func TestAlg1Line30LowerPendingMessageHoldsBack(t *testing.T) {
	c := newCore(t, 2)
	first, second := msg(1, both...), msg(2, 1)
	for i, m := range []*multicast.Message{first, second} {
		hear(c, 5, appendStart(nil, m, 0))
		hear(c, 1, ackOf(m, epochG, multicast.Timestamp(i+1), uint64(i+1)))
	}
	for _, q := range []multicast.ProcessID{2, 3} {
		require.Empty(t, hear(c, q, ackOf(first, epochG, 1, 1)).Deliveries)
		out := hear(c, q, ackOf(second, epochG, 2, 2))
		require.Empty(t, out.Deliveries, "final-ts of the first may still be 1")
		require.Zero(t, out.Safe)
	}
	hear(c, 4, ackOf(first, epochH, 7, 1))
	out := hear(c, 6, ackOf(first, epochH, 7, 1))
	require.Len(t, out.Deliveries, 1, "the first is at 7 now")
	require.Equal(t, second.ID, out.Deliveries[0].ID)
}

func TestAlg2Line32StartGoesToAllOfDest(t *testing.T) {
	c := newCore(t, 5)
	out := &multicast.Output{}
	c.Step(&multicast.Input{Proposed: []multicast.Message{*msg(1, 1), *msg(2, both...)}}, out)
	for p := multicast.ProcessID(1); p <= 6; p++ {
		starts := said(t, out, p, kindStart)
		require.Equal(t, *msg(2, both...), starts[len(starts)-1].message)
		require.Len(t, starts, map[bool]int{true: 2, false: 1}[p <= 3])
	}
	require.Empty(t, out.Records)
}

func TestAlg2Line37ClockIsAboveAfter(t *testing.T) {
	c := newCore(t, 1)
	m := msg(1, 1)
	m.After = 40
	out := hear(c, 5, appendStart(nil, m, 0))
	require.EqualValues(t, 41, c.clock)
	require.Len(t, out.Records, 1, "line 38")
	require.Len(t, said(t, out, 2, kindAck), 1)
	require.EqualValues(t, 41, said(t, out, 2, kindAck)[0].ts)
	require.Len(t, said(t, out, 5, kindHave), 1, "the sender is not in m.dest")
}

func TestAlg2Line35FollowersDoNotPropose(t *testing.T) {
	out := hear(newCore(t, 2), 5, appendStart(nil, msg(1, both...), 0))
	require.Empty(t, out.Frames)
	require.Empty(t, out.Records)
}

func TestAlg2Line42OnlyThePrimaryIsFollowed(t *testing.T) {
	c := newCore(t, 2)
	m := msg(1, both...)
	hear(c, 5, appendStart(nil, m, 0))
	require.Empty(t, hear(c, 3, ackOf(m, epochG, 1, 1)).Records)
	require.Empty(t, hear(c, 1, ackOf(m, epochG, 2, 2)).Records, "after a gap")
	require.EqualValues(t, 1, c.Stats().Gaps)
	out := hear(c, 1, ackOf(m, epochG, 1, 1))
	require.Len(t, out.Records, 1, "line 43")
	for p := multicast.ProcessID(1); p <= 6; p++ {
		require.Len(t, said(t, out, p, kindAck), 1, "line 45")
	}
	require.Empty(t, hear(c, 1, ackOf(m, epochG, 1, 1)).Records, "again")
}

func TestAlg2Line43WaitsForContentInOrder(t *testing.T) {
	c := newCore(t, 2)
	a, b := msg(1, 1), msg(2, 1)
	hear(c, 1, ackOf(a, epochG, 1, 1))
	hear(c, 1, ackOf(b, epochG, 2, 2))
	require.Empty(t, hear(c, 5, appendStart(nil, b, 1)).Records)
	require.Len(t, hear(c, 5, appendStart(nil, a, 0)).Records, 2)
	require.EqualValues(t, 2, c.last)
}

func TestAlg2Line47FetchesWhatTheSenderDoesNotSend(t *testing.T) {
	c := newCore(t, 1)
	m := msg(1, both...)
	out := hear(c, 4, ackOf(m, epochH, 3, 1))
	require.Equal(t, DefaultFetchAfter, out.Wake)
	out.Reset()
	c.Step(&multicast.Input{Now: multicast.Instant{Mono: DefaultFetchAfter}}, out)
	require.Len(t, said(t, out, 4, kindFetch), 1)
	require.Equal(t, 2*DefaultFetchAfter, out.Wake)

	h := newCore(t, 4)
	hear(h, 5, appendStart(nil, m, 0))
	answer := said(t, hear(h, 1, appendFetch(nil, m.ID)), 1, kindStart)
	require.Len(t, answer, 1)
	out = hear(c, 4, appendStart(nil, &answer[0].message, 0))
	require.Len(t, said(t, out, 6, kindAck), 1)
	require.EqualValues(t, 4, said(t, out, 6, kindAck)[0].ts)
	require.Zero(t, out.Wake)
}

func TestAlg2Line50BumpGoesToTheOwnGroupOnly(t *testing.T) {
	c := newCore(t, 2)
	m := msg(1, both...)
	out := hear(c, 4, ackOf(m, epochH, 3, 1))
	for p := multicast.ProcessID(1); p <= 6; p++ {
		require.Len(t, said(t, out, p, kindBump), map[bool]int{true: 1, false: 0}[p <= 3])
	}
	require.Equal(t, packet{kind: kindBump, epoch: epochG, ts: 3}, said(t, out, 1, kindBump)[0])
	require.Len(t, out.Records, 1, "the ceiling")
	require.Empty(t, hear(c, 6, ackOf(m, epochH, 3, 1)).Frames, "line 48: not above the clock")
	require.Empty(t, hear(c, 4, ackOf(msg(2, both...), epochH, 4, 2)).Records, "below the ceiling")
}

func TestBumpAfterAGapIsNotHeard(t *testing.T) {
	c := newCore(t, 2)
	hear(c, 1, appendBump(nil, epochG, 9, 4))
	require.Zero(t, c.leader().clock)
	require.EqualValues(t, 1, c.Stats().Gaps)
}

// TestFigure41 is the example execution, all processes in lockstep: 5 multicasts m to g and
// h, and all deliver it after three steps.
func TestFigure41(t *testing.T) {
	cores := map[multicast.ProcessID]*Core{}
	wire := map[multicast.ProcessID][]multicast.Frame{}
	for p := multicast.ProcessID(1); p <= 6; p++ {
		cores[p] = newCore(t, p)
	}
	cores[4].clock = 1 // so that h proposes 2, and g must be bumped
	proposed := []multicast.Message{*msg(1, both...)}
	for step := range 4 {
		next := map[multicast.ProcessID][]multicast.Frame{}
		for p := multicast.ProcessID(1); p <= 6; p++ {
			in := &multicast.Input{Frames: wire[p]}
			if p == 5 {
				in.Proposed = proposed
			}
			for own := true; own; { // a process hears itself in no time
				out := &multicast.Output{}
				cores[p].Step(in, out)
				require.Equal(t, step == 3, len(out.Deliveries) == 1 || cores[p].delivered.Final == 2, "process %d in step %d", p, step)
				in = &multicast.Input{}
				own = false
				for _, f := range out.Frames {
					if f.Peer == p {
						in.Frames, own = []multicast.Frame{{Peer: p, Data: f.Data}}, true
					} else {
						next[f.Peer] = append(next[f.Peer], multicast.Frame{Peer: p, Data: f.Data})
					}
				}
			}
		}
		proposed, wire = nil, next
	}
}
