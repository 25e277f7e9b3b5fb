package primcast

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// restart makes c again from its records.
func restart(t *testing.T, c *Core, records [][]byte, delivered multicast.Position) *Core {
	cfg := Config{Self: c.self.id, Groups: []multicast.Group{groupG, groupH}, Delivered: delivered}
	again, err := New(cfg)
	require.NoError(t, err)
	for _, r := range records {
		require.NoError(t, again.Replay(r))
	}
	return again
}

func TestAlg2Line44FollowersClockFollows(t *testing.T) {
	c := newCore(t, 2)
	hear(c, 5, appendStart(nil, msg(1, 1), 0))
	hear(c, 1, ackOf(msg(1, 1), epochG, 8, 1))
	require.EqualValues(t, 8, c.clock)
}

func TestClockDoesNotGoBackBehindABump(t *testing.T) {
	c := newCore(t, 2)
	out := hear(c, 4, ackOf(msg(1, both...), epochH, 30, 1))
	said30 := said(t, out, 1, kindBump)
	require.EqualValues(t, 30, said30[0].ts)
	again := restart(t, c, out.Records, multicast.Position{})
	again.Step(&multicast.Input{}, out)
	require.GreaterOrEqual(t, again.clock, said30[0].ts)
}

// TestMissingContentHoldsBackLaterProposals: as long as the content of the first is missing, the second
// is not in T; then the first turns out to be later.
func TestMissingContentHoldsBackLaterProposals(t *testing.T) {
	c := newCore(t, 2)
	first, second := msg(1, both...), msg(2, 1)
	hear(c, 1, ackOf(first, epochG, 1, 1))
	hear(c, 5, appendStart(nil, second, 0))
	hear(c, 1, ackOf(second, epochG, 2, 2))
	hear(c, 3, ackOf(second, epochG, 2, 2))
	hear(c, 4, ackOf(first, epochH, 9, 1))
	hear(c, 6, ackOf(first, epochH, 9, 1))
	hear(c, 3, appendBump(nil, epochG, 9, 2))
	require.Empty(t, hear(c, 1, appendBump(nil, epochG, 9, 2)).Deliveries)
	out := hear(c, 5, appendStart(nil, first, 0))
	require.Len(t, out.Records, 2)
	require.Len(t, out.Deliveries, 1)
	require.Equal(t, second.ID, out.Deliveries[0].ID)
}

// TestCoverageWaitsForFinalTimestamps: what others forget once they hear that it is covered, a
// process must be able to do without, also after a restart.
func TestCoverageWaitsForFinalTimestamps(t *testing.T) {
	c := newCore(t, 1)
	m := msg(1, both...)
	records := hear(c, 5, appendStart(nil, m, 0)).Records
	acks := func(c *Core, covered multicast.Position) (out *multicast.Output) {
		for _, q := range []multicast.ProcessID{4, 5, 1, 2} {
			e := map[bool]Epoch{true: epochG, false: epochH}[q <= 3]
			out = &multicast.Output{}
			c.Step(&multicast.Input{Covered: covered, Frames: []multicast.Frame{{Peer: q}, {Peer: q, Data: ackOf(m, e, 1, 1)}}}, out)
		}
		return out
	}
	out := acks(c, multicast.Position{})
	require.Len(t, out.Deliveries, 1)
	at := out.Deliveries[0].Position()

	again := restart(t, c, records, at)
	out.Reset()
	again.Step(&multicast.Input{Covered: at}, out)
	require.Zero(t, again.self.covered, "it does not know that the state machine has m")
	out = acks(again, at)
	require.Empty(t, out.Deliveries, "it was delivered before")
	require.Zero(t, again.self.covered, "its final timestamp is not recorded")

	out.Reset()
	again.Step(&multicast.Input{Covered: at, Frames: []multicast.Frame{{Peer: 5, Data: appendStart(nil, msg(2, 1), 1)}}}, out)
	require.Len(t, out.Records, 2)
	require.Equal(t, at, again.self.covered)
	require.Equal(t, at, said(t, out, 2, kindCovered)[0].position)

	third := restart(t, again, append(records, out.Records...), at)
	third.Step(&multicast.Input{}, out)
	require.True(t, third.messages[m.ID].delivered, "without hearing of it")
	require.False(t, third.messages[msg(2).ID].delivered)
}

// TestRestartFromCheckpoint: after all of T was forgotten, its indexes go on.
func TestRestartFromCheckpoint(t *testing.T) {
	n := newNetwork(t, 5, 3)
	for round := range 6 {
		for range 30 {
			n.propose(n.nodes[n.rng.IntN(3)])
			n.turn()
		}
		n.settle()
		for _, x := range n.nodes {
			x.durable = len(x.applied)
			in := &multicast.Input{Now: multicast.Instant{Mono: n.now}}
			n.run(x, in)
			at := x.applied[x.durable-1].Position()
			for _, y := range n.nodes {
				in.Frames = []multicast.Frame{{Peer: y.id, Data: appendCovered(nil, at)}}
				n.run(x, in)
			}
			require.Zero(t, x.core.Stats().Entries)
			x.log = [][]byte{x.core.appendCheckpoint(nil)}
		}
		n.boot(n.nodes[round%3])
	}
	n.settle()
	n.verify()
}
