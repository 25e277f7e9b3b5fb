package primcast

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

func TestAlg2Line32StartGoesToAllOfDest(t *testing.T) {
	c := newProc(t, 5)
	out := c.cast(msg(1, 1), msg(2, both...))
	for p := multicast.ProcessID(1); p <= 6; p++ {
		starts := said(t, out, p, kindStart)
		switch {
		case p == 5:
			require.Empty(t, starts, "the sender has it")
		case p <= 3:
			require.Len(t, starts, 2)
		default:
			require.Len(t, starts, 1)
		}
		if p != 5 {
			require.Equal(t, *msg(2, both...), starts[len(starts)-1].message)
		}
	}
	require.Empty(t, out.Records)
}

func TestAlg2Line35FollowersDoNotPropose(t *testing.T) {
	out := newProc(t, 2).hear(5, startOf(msg(1, both...), 0))
	require.Empty(t, out.Frames)
	require.Empty(t, out.Records)
}

func TestAlg2Line37Proposal(t *testing.T) {
	c := newProc(t, 1)
	m := msg(1, 1)
	m.After = 40
	out := c.hear(5, startOf(m, 0))
	require.Len(t, out.Records, 1, "line 38")
	require.EqualValues(t, 41, c.said(out, 2, kindEntry).ts, "above After")
	require.Equal(t, ackOf(epochG, 1, 41), c.said(out, 2, kindAck), "line 39")
	require.Empty(t, said(t, out, 4, kindAck), "it is no destination")
	c.said(out, 5, kindHave)
}

func TestAlg2Line42OnlyThePrimaryIsFollowed(t *testing.T) {
	c := newProc(t, 2)
	m := msg(1, both...)
	c.hear(5, startOf(m, 0))
	require.Empty(t, c.hear(1, entryOf(epochG, 2, 2, m)).Records, "after a gap")
	require.EqualValues(t, 1, c.Stats().Gaps)
	require.Empty(t, c.hear(1, entryOf(Epoch{Number: 2, Leader: 1}, 1, 2, m)).Records, "another epoch")
	out := c.hear(1, entryOf(epochG, 1, 1, m))
	require.Len(t, out.Records, 1, "line 43")
	for _, p := range []multicast.ProcessID{1, 2, 4, 5, 6} {
		require.Equal(t, ackOf(epochG, 1, 1), c.said(out, p, kindAck), "line 45")
	}
	require.Empty(t, said(t, out, 3, kindAck), "1 is a quorum together with 3")
	require.Empty(t, c.hear(1, entryOf(epochG, 1, 1, m)).Records, "again")
}

func TestAlg2Line43WaitsForContentInOrder(t *testing.T) {
	c := newProc(t, 2)
	a, b := msg(1, 1), msg(2, 1)
	c.hear(1, entryOf(epochG, 1, 1, a), entryOf(epochG, 2, 2, b))
	require.Empty(t, c.hear(5, startOf(b, 1)).Records)
	require.Len(t, c.hear(5, startOf(a, 0)).Records, 2)
}

func TestAlg2Line44FollowersClockFollows(t *testing.T) {
	c := newProc(t, 2)
	c.hear(5, startOf(msg(1, 1), 0))
	c.hear(1, entryOf(epochG, 1, 8, msg(1, 1)))
	require.EqualValues(t, 8, c.Stats().Clock)
}

// TestAlg2Line47FetchesWhatTheSenderDoesNotSend: a process that has acknowledged m has its content.
func TestAlg2Line47FetchesWhatTheSenderDoesNotSend(t *testing.T) {
	c := newProc(t, 1)
	m := msg(1, both...)
	c.hear(4, entryOf(epochH, 1, 3, m))
	asked := map[multicast.ProcessID]bool{}
	for range groupH.Members {
		out := c.after(DefaultFetchAfter)
		for _, p := range groupH.Members {
			for range said(t, out, p, kindFetch) {
				asked[p] = true
			}
		}
	}
	require.Len(t, asked, 3, "a dead member starves nobody")

	h := newProc(t, 4)
	h.hear(5, startOf(m, 0))
	answer := h.said(h.hear(1, packet{kind: kindFetch, message: multicast.Message{ID: m.ID}}), 1, kindStart)
	out := c.hear(4, answer)
	require.EqualValues(t, 4, c.said(out, 6, kindEntry).ts, "above what h proposed")
}

func TestAlg2Line50RemoteTimestampBumpsTheOwnGroup(t *testing.T) {
	c := newProc(t, 2)
	out := c.hear(4, entryOf(epochH, 1, 3, msg(1, both...)))
	for p := multicast.ProcessID(1); p <= 6; p++ {
		if p <= 2 {
			require.Equal(t, ackOf(epochG, 0, 3), c.said(out, p, kindAck))
		} else {
			require.Empty(t, said(t, out, p, kindAck))
		}
	}
	require.Len(t, out.Records, 1, "the ceiling")
	require.Empty(t, c.hear(4, entryOf(epochH, 1, 3, msg(1, both...))).Frames, "line 48: not above the clock")
	require.Empty(t, c.hear(4, entryOf(epochH, 2, 4, msg(2, both...))).Records, "below the ceiling")
}

// TestFigure41 runs the example execution of thesis figure 4.1 with all processes in lockstep: process 5
// multicasts m to g and h, and all deliver it after three steps.
func TestFigure41(t *testing.T) {
	procs := map[multicast.ProcessID]*proc{}
	wire := map[multicast.ProcessID][]multicast.Frame{}
	for p := multicast.ProcessID(1); p <= 6; p++ {
		procs[p] = newProc(t, p)
	}
	procs[4].clock = 1 // so that h proposes 2, and g must be bumped
	proposed := []multicast.Message{*msg(1, both...)}
	for step := range 4 {
		next := map[multicast.ProcessID][]multicast.Frame{}
		for p := multicast.ProcessID(1); p <= 6; p++ {
			in := multicast.Input{Frames: wire[p]}
			if p == 5 {
				in.Proposed = proposed
			}
			deliveries := 0
			for own := true; own; { // a process receives its own messages at once
				out := procs[p].step(in)
				deliveries += len(out.Deliveries)
				in, own = multicast.Input{}, false
				for _, f := range out.Frames {
					if f.Peer == p {
						in.Frames, own = []multicast.Frame{{Peer: p, Data: f.Data}}, true
					} else {
						next[f.Peer] = append(next[f.Peer], multicast.Frame{Peer: p, Data: f.Data})
					}
				}
			}
			require.Equal(t, step == 3, deliveries == 1, "process %d in step %d", p, step)
		}
		proposed, wire = nil, next
	}
}
