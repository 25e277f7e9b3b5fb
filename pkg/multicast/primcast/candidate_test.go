package primcast

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// candidate returns process 2 with one entry in T: it is left alone with process 3 and starts the epoch 2/2.
func candidate(t *testing.T) (*proc, *multicast.Output) {
	c := newProc(t, 2)
	c.hear(5, startOf(msg(1, 1), 0))
	c.hear(1, entryOf(epochG, 1, 4, msg(1, 1)))
	return c, c.campaigns(3)
}

// campaigns leaves p alone with others that receive nothing either, until it starts an epoch.
func (p *proc) campaigns(with ...multicast.ProcessID) *multicast.Output {
	for range 40 {
		for _, q := range with {
			p.hear(q, packet{kind: kindSilent, epoch: p.Stats().Current})
		}
		out := p.after(DefaultSuspectAfter / 4)
		if p.Stats().State == Candidate {
			return out
		}
	}
	require.Fail(p.tb, "a quorum hears nothing, and nobody starts an epoch")
	return nil
}

func TestAlg3Line57QuorumStartsAnEpoch(t *testing.T) {
	c, out := candidate(t)
	for p := multicast.ProcessID(1); p <= 3; p++ {
		require.Equal(t, newEpochOf(second), c.said(out, p, kindNewEpoch), "line 60")
	}
	require.NotEmpty(t, out.Records, "line 59 is durable")
}

// TestOracleAMemberThatAloneHearsNothing: such a member unseats no primary.
func TestOracleAMemberThatAloneHearsNothing(t *testing.T) {
	c := newProc(t, 2)
	c.hear(5, startOf(msg(1, 1), 0))
	for range 400 {
		require.Empty(t, said(t, c.after(DefaultSuspectAfter/4), 3, kindNewEpoch))
	}
	require.Equal(t, Follower, c.Stats().State)
}

// TestAlg3Line67LongestOfTheHighestEpoch: an own promise of T at 1, and another promise at 2, which is
// fetched.
func TestAlg3Line67LongestOfTheHighestEpoch(t *testing.T) {
	c, out := candidate(t)
	c.loopback(c.loopback(out))
	out = c.hear(3, promiseOf(second, epochG, 2, 50))
	require.Equal(t, packet{kind: kindFetchLog, epoch: epochG, index: 1, length: 1}, c.said(out, 3, kindFetchLog))
	require.Equal(t, epochG, c.Stats().Current, "T_max is not here yet")
	out = c.hear(3, startOf(msg(2, 1), 1), entryOf(epochG, 2, 5, msg(2, 1)))
	require.Equal(t, second, c.Stats().Current)
	require.EqualValues(t, 50, c.Stats().Clock, "line 68")
	state := c.said(out, 3, kindNewState)
	require.Equal(t, []uint64{2, 2, 50}, []uint64{state.index, state.length, uint64(state.ts)})

	late := c.hear(1, promiseOf(second, epochG, 1, 4))
	require.EqualValues(t, 1, c.said(late, 1, kindNewState).index, "a late PROMISE gets NEW-STATE too")
	require.EqualValues(t, 2, c.said(late, 1, kindEntry).index)

	c.loopback(c.loopback(out))
	c.hear(3, acceptOf(second))
	require.Equal(t, Primary, c.Stats().State, "line 78")
	require.EqualValues(t, 51, c.said(c.hear(5, startOf(msg(3, 1), 2)), 3, kindEntry).ts)
}

func TestAlg3Line65NeedsAQuorum(t *testing.T) {
	c, out := candidate(t)
	c.loopback(c.loopback(out))
	require.Equal(t, epochG, c.Stats().Current)
	require.Empty(t, said(t, c.hear(3, promiseOf(third, epochG, 1, 4)), 3, kindNewState), "for another epoch")
}

// The T of the highest epoch counts, even if the T of a lower epoch is longer. Dropped messages are proposed
// again (line 78), in the order of ids.
func TestAlg3Line66HighestEpochWins(t *testing.T) {
	c := newProc(t, 2)
	dropped := []uint64{1, 2, 3, 4, 5, 6, 7, 8}
	for _, seq := range []uint64{7, 2, 8, 1, 5, 3, 6, 4} {
		c.hear(5, startOf(msg(seq, 1), 0))
		index := c.t.last() + 1
		c.hear(1, entryOf(epochG, index, multicast.Timestamp(index), msg(seq, 1)))
	}
	c.loopback(c.loopback(c.campaigns(3)))
	between := Epoch{Number: 2, Leader: 1}
	out := c.hear(3, promiseOf(second, between, 1, 4))
	require.Equal(t, packet{kind: kindFetchLog, epoch: between}, c.said(out, 3, kindFetchLog))
	out = c.hear(3, startOf(msg(9, 1), 0), entryOf(between, 1, 4, msg(9, 1)))
	require.Equal(t, second, c.Stats().Current)
	require.Equal(t, 1, c.Stats().Entries)

	c.loopback(out)
	out = c.hear(3, acceptOf(second))
	var again []uint64
	for i, p := range said(t, out, 3, kindEntry) {
		again = append(again, p.message.ID.Seq)
		require.EqualValues(t, i+2, p.index)
	}
	require.Equal(t, dropped, again)
}

// TestLongStateIsProgress: members that ask for one part of T after the other are not left for a new epoch.
func TestLongStateIsProgress(t *testing.T) {
	c, out := candidate(t)
	c.loopback(c.loopback(out))
	c.hear(3, promiseOf(second, epochG, 1, 50))
	require.Equal(t, second, c.Stats().Current)
	for range 40 {
		out = c.after(DefaultSuspectAfter / 2)
		require.Empty(t, said(t, out, 3, kindSilent))
		c.hear(3, packet{kind: kindSilent, epoch: second}, packet{kind: kindFetchLog, epoch: second})
	}
	require.EqualValues(t, 1, c.Stats().Campaigns)
}
