package primcast

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// TestI1ClockDoesNotGoBackBehindABump: a sent clock holds after a restart.
func TestI1ClockDoesNotGoBackBehindABump(t *testing.T) {
	c, _ := promised(t)
	bump := c.said(c.hear(4, entryOf(epochH, 1, 30, msg(1, both...))), 1, kindBump)
	require.EqualValues(t, 30, bump.ts)
	again := c.restart(nil)
	again.step(multicast.Input{})
	require.GreaterOrEqual(t, again.Stats().Clock, bump.ts)
}

// TestI1ClockDoesNotGoBackBehindAPromise: line 68 relies on the clock in a PROMISE.
func TestI1ClockDoesNotGoBackBehindAPromise(t *testing.T) {
	c := newProc(t, 3)
	c.clock = 77
	promise := c.said(c.hear(2, newEpochOf(second)), 2, kindPromise).promise
	require.EqualValues(t, 77, promise.clock)
	again := c.restart(nil)
	again.step(multicast.Input{})
	require.GreaterOrEqual(t, again.Stats().Clock, promise.clock)
}

// TestMissingContentHoldsBackLaterProposals: as long as the content of the first is missing, the second is
// not in T (line 43), though the first turns out to be later.
func TestMissingContentHoldsBackLaterProposals(t *testing.T) {
	c := newProc(t, 2)
	first, second := msg(1, both...), msg(2, 1)
	c.hear(5, startOf(second, 0))
	c.hear(1, entryOf(epochG, 1, 1, first), entryOf(epochG, 2, 2, second), ackOf(epochG, 2, 2))
	c.hear(4, entryOf(epochH, 1, 9, first), ackOf(epochH, 1, 9))
	c.hear(6, ackOf(epochH, 1, 9))
	c.hear(3, ackOf(epochG, 2, 8))
	require.Empty(t, c.hear(1, ackOf(epochG, 2, 8)).Deliveries)

	asked := map[multicast.ProcessID]int{}
	for range 6 {
		out := c.after(DefaultFetchAfter)
		for p := multicast.ProcessID(1); p <= 6; p++ {
			asked[p] += len(said(t, out, p, kindFetch))
		}
	}
	require.Len(t, asked, 6)
	require.Equal(t, 6, asked[4]+asked[5]+asked[6], "of h, whose T named it last, each in turn")
	require.Equal(t, 2, asked[4])

	out := c.hear(6, startOf(first, 0))
	require.Len(t, out.Records, 2)
	require.Equal(t, []uint64{2}, delivered(out), "the first is at 9")
}

// TestCoverageWaitsForFinalTimestamps: before other processes learn that a message is covered, and forget it,
// a process must be able to do without it, also after a restart.
func TestCoverageWaitsForFinalTimestamps(t *testing.T) {
	c, m := newProc(t, 1), msg(1, both...)
	c.hear(5, startOf(m, 0))
	decide := func(c *proc, covered multicast.Progress) (deliveries []multicast.Delivery) {
		for _, q := range []multicast.ProcessID{4, 5, 1, 2} {
			heard := []packet{ackOf(epochG, 1, 1)}
			if q > 3 {
				heard = []packet{entryOf(epochH, 1, 1, m), ackOf(epochH, 1, 1)}
			}
			if q == 5 {
				heard = heard[1:]
			}
			deliveries = append(deliveries, c.step(multicast.Input{Covered: covered, Frames: []multicast.Frame{{Peer: q}, {Peer: q, Data: encode(heard...)}}}).Deliveries...)
		}
		return deliveries
	}
	deliveries := decide(c, nil)
	require.Len(t, deliveries, 1)
	at := multicast.UpTo(deliveries[0].Position())

	again := c.restart(at)
	again.step(multicast.Input{Covered: at})
	require.Zero(t, again.self.covered, "it does not know that the state machine has m")
	require.Empty(t, decide(again, at), "it was delivered before")
	require.Zero(t, again.self.covered, "its final timestamp is not recorded")

	out := again.step(multicast.Input{Covered: at, Frames: []multicast.Frame{{Peer: 5, Data: encode(startOf(msg(2, 1), 1))}}})
	require.Len(t, out.Records, 2)
	require.Equal(t, at[0].Position, again.said(out, 2, kindCovered).position)

	third := again.restart(at)
	third.step(multicast.Input{})
	require.True(t, third.messages[m.ID].delivered, "without hearing of it")
	require.False(t, third.messages[msg(2).ID].delivered)
}

// TestRestartFromCheckpoint: after all of T was forgotten, its indexes continue.
func TestRestartFromCheckpoint(t *testing.T) {
	c := newCluster(t)
	c.run(2 * tick)
	members := groupG.Members
	var all []uint64
	for round := range uint64(6) {
		for seq := 10*round + 1; seq <= 10*round+10; seq++ {
			c.cast(msg(seq, 1))
			all = append(all, seq)
		}
		c.run(10 * tick)
		c.has(all, members...)
		for _, id := range members {
			for _, q := range members {
				at := multicast.ClassPosition{Position: c.applied[id][len(all)-1].Position()}
				c.step(id, multicast.Input{Frames: []multicast.Frame{{Peer: q, Data: (&coveredPacket{at}).append(nil)}}})
			}
			p := c.proc(id)
			require.Zero(t, p.Stats().Entries)
			require.EqualValues(t, len(all), p.t.last())
			p.records = [][]byte{p.Checkpoint()}
		}
		c.restart(members[round%3])
	}
	c.cast(msg(1000, 1))
	c.run(2 * time.Second)
	c.has(append(all, 1000), members...)
}

// A link may start only once one end has something to send: after a restart of both ends, the end that waits
// for an acknowledgement sends first.
func TestARestartedProcessSpeaksToThoseItWaitsFor(t *testing.T) {
	cfg := Config{Self: 1, Groups: []multicast.Group{{ID: 0, Members: []multicast.ProcessID{1}}, {ID: 1, Members: []multicast.ProcessID{2}}}}
	start := func(records [][]byte) *Core {
		c, err := New(cfg)
		require.NoError(t, err)
		for _, r := range records {
			require.NoError(t, c.Replay(r))
		}
		return c
	}
	self := []multicast.Frame{{Peer: 1}}
	step := func(c *Core, in multicast.Input) (out multicast.Output) {
		in.Now.Mono = 1
		c.Step(&in, &out)
		return out
	}
	c := start(nil)
	m := multicast.Message{ID: multicast.MessageID{Sender: 1, Seq: 1}, Dest: []multicast.GroupID{0, 1}}
	out := step(c, multicast.Input{Frames: self, Proposed: []multicast.Message{m}})
	records := out.Records
	for range 3 { // its messages to itself: the message, its timestamp, its acknowledgement
		var own []multicast.Frame
		for _, f := range out.Frames {
			if f.Peer == 1 {
				own = append(own, f)
			}
		}
		out = step(c, multicast.Input{Frames: own})
		records = append(records, out.Records...)
	}
	require.NotEmpty(t, records)
	out = step(start(records), multicast.Input{Frames: self})
	require.True(t, slices.ContainsFunc(out.Frames, func(f multicast.Frame) bool { return f.Peer == 2 && len(f.Data) > 0 }))
}
