package primcast

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

func TestAlg1Line8FirstMemberIsPrimary(t *testing.T) {
	for p, want := range map[multicast.ProcessID]State{1: Primary, 2: Follower, 4: Primary, 6: Follower} {
		c := newProc(t, p)
		c.step(multicast.Input{})
		require.Equal(t, want, c.Stats().State, "process %d", p)
	}
}

// followerWithEntry returns process 2, with m as the only entry of T at 4, and its own ACK.
func followerWithEntry(t *testing.T, m *multicast.Message) *proc {
	c := newProc(t, 2)
	c.hear(5, startOf(m, 0))
	out := c.hear(1, entryOf(epochG, 1, 4, m), ackOf(epochG, 1, 4))
	require.Empty(t, out.Deliveries)
	c.said(out, 1, kindAck)
	return c
}

func TestAlg1Line10LocalTimestampNeedsAQuorum(t *testing.T) {
	c := newProc(t, 2)
	c.hear(5, startOf(msg(1, 1), 0))
	out := c.hear(1, entryOf(epochG, 1, 4, msg(1, 1)), ackOf(epochG, 1, 4))
	require.Empty(t, out.Deliveries)
	require.Empty(t, c.hear(1, ackOf(epochG, 1, 4)).Deliveries, "twice is once")
	require.Equal(t, []uint64{1}, delivered(c.loopback(out)), "its own ACK, which is durable now")
}

func TestAlg1Line10QuorumIsOfOneEpoch(t *testing.T) {
	c := followerWithEntry(t, msg(1, 1))
	require.Empty(t, c.hear(3, ackOf(Epoch{Number: 2, Leader: 3}, 1, 4)).Deliveries)
}

func TestAlg1Line12FinalTimestampIsHighestLocal(t *testing.T) {
	c := followerWithEntry(t, msg(1, both...))
	c.hear(3, ackOf(epochG, 1, 4))
	c.hear(4, entryOf(epochH, 1, 9, msg(1, both...)), ackOf(epochH, 1, 9))
	c.hear(6, ackOf(epochH, 1, 9))
	c.hear(1, ackOf(epochG, 1, 9))
	out := c.hear(3, ackOf(epochG, 1, 9))
	require.Equal(t, []uint64{1}, delivered(out))
	require.EqualValues(t, 9, out.Deliveries[0].Final)
	require.EqualValues(t, 9, out.Safe)
}

// TestAlg1Line16ClocksOfLaterEpochsDoNotCount: a process that has promised takes no part in the quorum-clock
// of the epochs before.
func TestAlg1Line16ClocksOfLaterEpochsDoNotCount(t *testing.T) {
	later := Epoch{Number: 2, Leader: 3}
	c := newProc(t, 2)
	c.hear(1, ackOf(epochG, 0, 9))
	require.Zero(t, c.hear(3, bumpOf(later, 9)).Safe)
	require.EqualValues(t, 5, c.hear(2, ackOf(epochG, 0, 5)).Safe)
}

func TestAlg1Line17QuorumClock(t *testing.T) {
	c := newProc(t, 2)
	c.hear(1, ackOf(epochG, 0, 9))
	require.EqualValues(t, 5, c.hear(3, bumpOf(epochG, 5)).Safe, "two of three are at 5")
	require.EqualValues(t, 7, c.hear(2, bumpOf(epochG, 7)).Safe)
}

// TestAlg1Line22PrimarysClockCountsWithItsProposals: a clock that was sent after lost entries gives no
// information about the proposals of the primary.
func TestAlg1Line22PrimarysClockCountsWithItsProposals(t *testing.T) {
	c := newProc(t, 2)
	c.hear(3, bumpOf(epochG, 9))
	out := c.hear(1, ackOf(epochG, 4, 9))
	require.Zero(t, out.Safe)
	require.Equal(t, packet{kind: kindFetchLog, epoch: epochG}, c.said(out, 1, kindFetchLog))
	require.EqualValues(t, 1, c.Stats().Gaps)
}

func TestAlg1Line24ProposedOnce(t *testing.T) {
	c := newProc(t, 1)
	require.Len(t, c.hear(5, startOf(msg(1, 1), 0)).Records, 1)
	require.Empty(t, c.hear(5, startOf(msg(1, 1), 0)).Records, "it is in T")
}

// TestAlg1Line28PrimarysClock: a quorum is not enough if the primary may propose a lower timestamp.
func TestAlg1Line28PrimarysClock(t *testing.T) {
	c := followerWithEntry(t, msg(1, both...))
	c.hear(4, entryOf(epochH, 1, 9, msg(1, both...)), ackOf(epochH, 1, 9))
	c.hear(6, ackOf(epochH, 1, 9))
	c.hear(2, ackOf(epochG, 1, 9))
	require.Empty(t, c.hear(3, ackOf(epochG, 1, 9)).Deliveries)
	require.Equal(t, []uint64{1}, delivered(c.hear(1, ackOf(epochG, 1, 9))))
}

// TestAlg1Line29QuorumClock: the primary's clock is not enough if the next primary may propose a lower
// timestamp.
func TestAlg1Line29QuorumClock(t *testing.T) {
	c := followerWithEntry(t, msg(1, both...))
	c.hear(4, entryOf(epochH, 1, 9, msg(1, both...)), ackOf(epochH, 1, 9))
	c.hear(6, ackOf(epochH, 1, 9))
	c.hear(3, ackOf(epochG, 1, 4))
	require.Empty(t, c.hear(1, ackOf(epochG, 1, 9)).Deliveries)
	require.Equal(t, []uint64{1}, delivered(c.hear(3, ackOf(epochG, 1, 9))))
}

func TestAlg1Line30LowerPendingMessageHoldsBack(t *testing.T) {
	c := newProc(t, 2)
	first, second := msg(1, both...), msg(2, 1)
	c.hear(5, startOf(first, 0), startOf(second, 1))
	c.hear(1, entryOf(epochG, 1, 1, first), entryOf(epochG, 2, 2, second), ackOf(epochG, 2, 2))
	out := c.hear(3, ackOf(epochG, 2, 2))
	require.Empty(t, out.Deliveries, "final-ts of the first may still be 1")
	require.Zero(t, out.Safe)
	c.hear(4, entryOf(epochH, 1, 7, first), ackOf(epochH, 1, 7))
	out = c.hear(6, ackOf(epochH, 1, 7))
	require.Equal(t, []uint64{2}, delivered(out), "the first is at 7 now")
}
