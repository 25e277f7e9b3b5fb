package primcast

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

var second, third = Epoch{Number: 2, Leader: 2}, Epoch{Number: 3, Leader: 3}

// promised returns process 3, which has a message to both groups in T and has then promised to process 2.
func promised(t *testing.T) (*proc, *multicast.Output) {
	c := newProc(t, 3)
	c.hear(5, startOf(msg(1, both...), 0))
	c.hear(1, entryOf(epochG, 1, 4, msg(1, both...)))
	return c, c.hear(2, newEpochOf(second))
}

func TestAlg3Line61LowerEpochIsRefused(t *testing.T) {
	c, _ := promised(t)
	out := c.hear(1, newEpochOf(Epoch{Number: 2, Leader: 1}))
	require.Empty(t, said(t, out, 1, kindPromise))
	require.Empty(t, out.Records)
	require.Equal(t, second, c.said(out, 1, kindBump).epoch, "it learns of the higher one")
}

func TestAlg3Line64PromiseTellsTheStateDurably(t *testing.T) {
	c, out := promised(t)
	require.Equal(t, Promised, c.Stats().State, "line 62")
	require.Equal(t, promiseOf(second, epochG, 1, 4), c.said(out, 2, kindPromise))
	require.NotEmpty(t, out.Records)
	again := c.restart(nil)
	again.hear(2, newEpochOf(second))
	require.Equal(t, Promised, again.Stats().State)
	require.Empty(t, said(t, again.hear(1, newEpochOf(Epoch{Number: 2, Leader: 1})), 1, kindPromise))
}

// A process that has promised acknowledges nothing in earlier epochs. Its clock advances, and its BUMPs carry
// E_prom (lines 42, 50).
func TestAlg3PromisedAcknowledgesNothingBefore(t *testing.T) {
	c, _ := promised(t)
	c.hear(5, startOf(msg(2, 1), 0))
	out := c.hear(1, entryOf(epochG, 2, 5, msg(2, 1)), ackOf(epochG, 2, 5))
	require.Empty(t, out.Records)
	require.Empty(t, said(t, out, 1, kindAck))
	out = c.hear(4, entryOf(epochH, 1, 9, msg(1, both...)))
	require.Equal(t, second, c.said(out, 1, kindBump).epoch)
	require.EqualValues(t, 9, c.said(out, 1, kindBump).ts)
	require.Empty(t, said(t, out, 1, kindAck))
}

func TestAlg3Line53PromisedDeliversNothing(t *testing.T) {
	c := newProc(t, 3)
	c.hear(5, startOf(msg(1, 1), 0))
	own := c.hear(1, entryOf(epochG, 1, 4, msg(1, 1)), ackOf(epochG, 1, 4))
	c.hear(2, newEpochOf(second))
	require.Empty(t, c.loopback(own).Deliveries)
}

// TestAlg3SafeStandsStillUntilAQuorumHasAccepted: 2 installs, for an epoch that fails, a T without the
// proposal of 1, which 1 may still complete: nothing is pending then, but the proposal comes back in the
// epoch after.
func TestAlg3SafeStandsStillUntilAQuorumHasAccepted(t *testing.T) {
	c := newProc(t, 2)
	c.hear(1, entryOf(epochG, 1, 4, msg(1, 1)), ackOf(epochG, 1, 4)) // START is not here yet
	require.EqualValues(t, 3, c.hear(3, ackOf(epochG, 0, 4)).Safe)
	c.loopback(c.loopback(c.campaigns(3)))
	out := c.hear(3, promiseOf(second, epochG, 0, 4))
	require.Equal(t, second, c.Stats().Current)
	require.Zero(t, c.Stats().Pending)
	require.EqualValues(t, 3, out.Safe)

	next := Epoch{Number: 3, Leader: 1}
	c.hear(1, newEpochOf(next))
	c.hear(1, newStateOf(next, 0, 1, 4), startOf(msg(1, 1), 0), entryOf(next, 1, 4, msg(1, 1)), acceptOf(next))
	c.hear(1, ackOf(next, 1, 4))
	out = c.hear(3, ackOf(next, 1, 4))
	require.Equal(t, []uint64{1}, delivered(out))
	require.EqualValues(t, 4, out.Deliveries[0].Final)
	require.EqualValues(t, 4, out.Safe)
}

func TestAlg3Line70To81NewState(t *testing.T) {
	c, _ := promised(t)
	require.Empty(t, c.hear(1, newStateOf(Epoch{Number: 1, Leader: 1}, 0, 0, 7)).Records, "not of E_prom")
	out := c.hear(2, newStateOf(second, 1, 1, 30))
	require.EqualValues(t, 30, c.Stats().Clock, "line 73")
	require.Equal(t, second, c.Stats().Current, "line 72")
	c.said(out, 1, kindAccept)
	require.Empty(t, said(t, out, 4, kindAck), "no quorum is there yet")
	c.hear(2, acceptOf(second))
	out = c.hear(1, acceptOf(second))
	require.Equal(t, Follower, c.Stats().State, "line 77")
	require.Equal(t, ackOf(second, 1, 30), c.said(out, 4, kindAck), "line 81")
}

// TestAlg3EntriesThatNoQuorumHasAreDropped: T' lacks entry 1; the message is proposed again later.
func TestAlg3EntriesThatNoQuorumHasAreDropped(t *testing.T) {
	c, _ := promised(t)
	c.hear(2, newStateOf(second, 0, 0, 30))
	require.Zero(t, c.Stats().Entries)
	require.Zero(t, c.Stats().Pending)
	c.hear(2, acceptOf(second))
	c.hear(1, acceptOf(second))
	out := c.hear(2, entryOf(second, 1, 31, msg(1, both...)))
	require.Equal(t, ackOf(second, 1, 31), c.said(out, 4, kindAck))
	require.EqualValues(t, 1, c.restart(nil).Stats().Entries)
}

// TestAlg3ProposalThatOvertakesAccepts: line 42 would lose the proposal.
func TestAlg3ProposalThatOvertakesAccepts(t *testing.T) {
	c, _ := promised(t)
	c.hear(2, newStateOf(second, 1, 1, 30))
	c.hear(5, startOf(msg(2, 1), 0))
	out := c.hear(2, entryOf(second, 2, 31, msg(2, 1)))
	require.Equal(t, Follower, c.Stats().State)
	require.Equal(t, ackOf(second, 2, 31), c.said(out, 1, kindAck))
}

// TestAlg3RestartBetweenRecords: every durable prefix of the log makes a legal state.
func TestAlg3RestartBetweenRecords(t *testing.T) {
	c, _ := promised(t)
	c.hear(2, newStateOf(second, 0, 0, 30))
	records := c.records
	for n := range len(records) + 1 {
		c.records = records[:n]
		again := c.restart(nil)
		again.step(multicast.Input{})
		again.hear(3, newEpochOf(third))
	}
}

// TestAlg3LinkRestartRepeatsTheChange: the packets of lines 60, 64 and 74 are repeated if they were lost with
// the link.
func TestAlg3LinkRestartRepeatsTheChange(t *testing.T) {
	c, _ := promised(t)
	require.Equal(t, promiseOf(second, epochG, 1, 4), c.said(c.hear(2), 2, kindPromise))
	require.Empty(t, said(t, c.hear(1), 1, kindPromise), "it is not for others")
	c.hear(2, newStateOf(second, 1, 1, 30))
	require.Equal(t, acceptOf(second), c.said(c.hear(1), 1, kindAccept))

	leader, _ := candidate(t)
	require.Equal(t, newEpochOf(second), leader.said(leader.hear(1), 1, kindNewEpoch))
}

// TestNewStateAgainProvesNothing: links have restarted, and the candidate sends its T once more. No other
// process has accepted it.
func TestNewStateAgainProvesNothing(t *testing.T) {
	c := newProc(t, 2)
	next := Epoch{Number: 2, Leader: 1}
	c.hear(1, newEpochOf(next))
	state := []packet{newStateOf(next, 0, 1, 4), startOf(msg(1, 1), 0), entryOf(next, 1, 4, msg(1, 1))}
	for range 2 {
		c.hear(1, state...)
		require.Equal(t, next, c.Stats().Current)
		require.Equal(t, Promised, c.Stats().State)
	}
	c.hear(5, startOf(msg(2, 1), 1))
	c.hear(1, entryOf(next, 2, 5, msg(2, 1)))
	require.Equal(t, Follower, c.Stats().State, "a proposal")
}
