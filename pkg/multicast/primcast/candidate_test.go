package primcast

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// candidate is process 2, which has one entry in T, is left alone with process 3 and starts the epoch 2/2.
func candidate(t *testing.T) (*proc, *multicast.Output) {
	c := newProc(t, 2)
	c.hear(5, startOf(msg(1, 1), 0))
	c.hear(1, entryOf(epochG, 1, 4, msg(1, 1)))
	for range 40 {
		c.hear(3, packet{kind: kindSilent, epoch: epochG})
		out := c.after(DefaultSuspectAfter / 4)
		if c.Stats().State == Candidate {
			return c, out
		}
	}
	require.Fail(t, "a quorum hears nothing, and nobody starts an epoch")
	return nil, nil
}

func TestAlg3Line57QuorumStartsAnEpoch(t *testing.T) {
	c, out := candidate(t)
	for p := multicast.ProcessID(1); p <= 3; p++ {
		require.Equal(t, newEpochOf(second), c.said(out, p, kindNewEpoch), "line 60")
	}
	require.NotEmpty(t, out.Records, "line 59 is durable")
}

// TestOracleAMemberThatAloneHearsNothing unseats nobody.
func TestOracleAMemberThatAloneHearsNothing(t *testing.T) {
	c := newProc(t, 2)
	c.hear(5, startOf(msg(1, 1), 0))
	for range 400 {
		require.Empty(t, said(t, c.after(DefaultSuspectAfter/4), 3, kindNewEpoch))
	}
	require.Equal(t, Follower, c.Stats().State)
}

// TestAlg3Line67LongestOfTheHighestEpoch: an own promise of T at 1, and another's at 2, which is fetched.
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
