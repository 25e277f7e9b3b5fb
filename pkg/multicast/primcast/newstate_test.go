package primcast

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// between is an epoch after the first one and before second.
var between = Epoch{Number: 2, Leader: 1}

// adoptedAfterPromise returns process 3. It has promised epoch second with an entry of the first epoch in T,
// and has then taken over the state of a member of the epoch between, with another entry in its place.
func adoptedAfterPromise(t *testing.T) *proc {
	c := newProc(t, 3)
	c.hear(5, startOf(msg(1, 1), 0))
	c.hear(1, entryOf(epochG, 1, 4, msg(1, 1)))
	require.Equal(t, promiseOf(second, epochG, 1, 4), c.said(c.hear(2, newEpochOf(second)), 2, kindPromise))

	donor := newProc(t, 2)
	donor.hear(1, newEpochOf(between))
	donor.hear(1, newStateOf(between, 0, 1, 9), startOf(msg(2, 1), 1), entryOf(between, 1, 9, msg(2, 1)))
	require.Equal(t, between, donor.Stats().Current)
	again, _ := c.adopted(donor.State())
	return again
}

// TestNewStateForAnotherTIsVoid: T of the epoch between is not the T that a NEW-STATE for the first epoch
// continues. The PROMISE that follows the start of the link gets the right one.
func TestNewStateForAnotherTIsVoid(t *testing.T) {
	c := adoptedAfterPromise(t)
	promise := c.said(c.hear(2), 2, kindPromise).promise
	require.Equal(t, between, promise.current)
	c.hear(2, newStateOf(second, 1, 1, 30))
	require.Equal(t, between, c.Stats().Current)

	state := newStateOf(second, 1, 1, 30)
	state.current = between
	c.hear(2, state)
	require.Equal(t, second, c.Stats().Current)
	require.Equal(t, msg(2, 1).ID, c.t.at(1).ID)
}

// TestNewStateAfterWhatIsDecidedIsForEveryT: decided entries are in the T of each epoch (Lemma 3).
func TestNewStateAfterWhatIsDecidedIsForEveryT(t *testing.T) {
	c := adoptedAfterPromise(t)
	c.hear(2)
	c.hear(2, newStateOf(second, 0, 1, 30), startOf(msg(1, 1), 0), entryOf(second, 1, 4, msg(1, 1)))
	require.Equal(t, second, c.Stats().Current)
	require.Equal(t, msg(1, 1).ID, c.t.at(1).ID)
}

// TestNewStateSkipsWhatIsDecided: the candidate has forgotten entries that this process has covered since it
// promised. They do not come.
func TestNewStateSkipsWhatIsDecided(t *testing.T) {
	c := newProc(t, 3)
	c.hear(5, startOf(msg(1, 1), 0), startOf(msg(2, 1), 1))
	c.hear(1, entryOf(epochG, 1, 4, msg(1, 1)), entryOf(epochG, 2, 5, msg(2, 1)), ackOf(epochG, 2, 5))
	c.hear(2, ackOf(epochG, 2, 5))
	require.EqualValues(t, 2, c.own.decided)
	c.hear(2, newEpochOf(second))
	c.hear(2, newStateOf(second, 0, 3, 30), startOf(msg(3, 1), 2), entryOf(second, 3, 6, msg(3, 1)))
	require.Equal(t, second, c.Stats().Current)
	require.EqualValues(t, 3, c.t.last())
}

// TestEachPromiseIsAnswered: the answer names E_cur of the PROMISE, and continues the T of that epoch.
func TestEachPromiseIsAnswered(t *testing.T) {
	c, out := candidate(t)
	c.loopback(c.loopback(out))
	c.hear(3, promiseOf(second, epochG, 1, 4))
	require.Equal(t, second, c.Stats().Current)
	for _, current := range []Epoch{epochG, between, epochG} {
		state := c.said(c.hear(3, promiseOf(second, current, 1, 4)), 3, kindNewState)
		require.Equal(t, current, state.current)
		require.Equal(t, current == epochG, state.index == 1, "the entry is of the first epoch")
	}
}

// fetching returns candidate 2, which lacks entries 2 and 3 of the T of process 3 and has entry 2 now.
func fetching(t *testing.T) *proc {
	c, out := candidate(t)
	c.loopback(c.loopback(out))
	c.said(c.hear(3, promiseOf(second, epochG, 3, 50)), 3, kindFetchLog)
	c.hear(3, startOf(msg(2, 1), 1), entryOf(epochG, 2, 5, msg(2, 1)))
	require.Equal(t, epochG, c.Stats().Current)
	return c
}

// TestCandidateAsksAgain: a restart of the link loses the request, or the answer. The source then promises
// again.
func TestCandidateAsksAgain(t *testing.T) {
	c := fetching(t)
	c.hear(3)
	out := c.hear(3, promiseOf(second, epochG, 3, 50))
	require.Equal(t, packet{kind: kindFetchLog, epoch: epochG, index: 2, length: 2}, c.said(out, 3, kindFetchLog))
	c.hear(3, startOf(msg(3, 1), 2), entryOf(epochG, 3, 6, msg(3, 1)))
	require.Equal(t, second, c.Stats().Current)
}

// TestCandidateDropsATThatIsNoMore: the source has taken over the T of a later epoch.
func TestCandidateDropsATThatIsNoMore(t *testing.T) {
	c := fetching(t)
	c.hear(3)
	out := c.hear(3, promiseOf(second, between, 2, 50))
	require.Equal(t, packet{kind: kindFetchLog, epoch: between}, c.said(out, 3, kindFetchLog))
}

// TestKnownEntriesAreNoProgress: a candidate that receives only known entries gives up, and starts another
// epoch.
func TestKnownEntriesAreNoProgress(t *testing.T) {
	c := fetching(t)
	for range 40 {
		c.after(DefaultSuspectAfter / 2)
		c.hear(3, packet{kind: kindSilent, epoch: second}, entryOf(epochG, 2, 5, msg(2, 1)))
	}
	require.Greater(t, c.Stats().Campaigns, uint64(1))
}
