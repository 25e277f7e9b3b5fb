package primcast

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

var (
	replace3 = multicast.Replacement{Old: 3, New: 7}
	changed  = []multicast.ProcessID{1, 2, 7}
	secondBy = func(leader multicast.ProcessID) Epoch { return Epoch{Number: 2, Leader: leader} }
)

// newcomerState is NEW-STATE of 1 for an epoch in which 7 is new in the place of 3.
func newcomerState(ts multicast.Timestamp) packet {
	p := newStateOf(secondBy(1), 0, 0, ts)
	p.roster, p.newcomers = changed, 1<<2
	return p
}

// TestR2NewcomersAcceptDoesNotCount: of the old members, a quorum must know of the epoch; over a restart too.
func TestR2NewcomersAcceptDoesNotCount(t *testing.T) {
	c := newProc(t, 2)
	c.hear(1, newEpochOf(secondBy(1)))
	out := c.hear(1, newcomerState(9))
	require.Equal(t, changed, c.Members(1))
	c.loopback(out)
	again := c.restart(nil)
	require.Equal(t, changed, again.Members(1))
	for _, p := range []*proc{c, again} {
		p.hear(2, acceptOf(secondBy(1)))
		p.hear(7, acceptOf(secondBy(1)))
		p.hear(3, acceptOf(secondBy(1)))
		require.Equal(t, Promised, p.Stats().State, "2 alone is no quorum of 1, 2 and 3; who is out does not count either")
		p.hear(1, acceptOf(secondBy(1)))
		require.Equal(t, Follower, p.Stats().State)
	}
}

// TestR2HoldsForTheCandidate, which counts itself and the newcomer.
func TestR2HoldsForTheCandidate(t *testing.T) {
	c := newProc(t, 1)
	c.hear(7)
	c.loopback(c.loopback(c.step(multicast.Input{Replace: []multicast.Replacement{replace3}})))
	out := c.hear(2, promiseOf(secondBy(1), epochG, 0, 0))
	require.Equal(t, changed, c.Members(1))
	c.loopback(out)
	c.hear(7, acceptOf(secondBy(1)))
	require.Equal(t, Candidate, c.Stats().State)
	c.hear(2, acceptOf(secondBy(1)))
	require.Equal(t, Primary, c.Stats().State)
}

// TestPromiseToANewMemberSurvivesRestarts, though the members of its epoch were only heard of; so do epochs whose
// primary was replaced since.
func TestPromiseToANewMemberSurvivesRestarts(t *testing.T) {
	p := newProc(t, 2)
	p.hear(1, packet{kind: kindRoster, group: 1, epoch: secondBy(1), roster: changed})
	p.hear(7, newEpochOf(Epoch{Number: 3, Leader: 7}))
	require.Equal(t, Epoch{Number: 3, Leader: 7}, p.promised)
	p.hear(1, packet{kind: kindRoster, group: 1, epoch: Epoch{Number: 4, Leader: 1}, roster: []multicast.ProcessID{1, 2, 8}})
	for _, records := range [][][]byte{p.records, {p.appendCheckpoint(nil)}} {
		p.records = records
		again := p.restart(nil)
		require.Equal(t, Epoch{Number: 3, Leader: 7}, again.promised)
		again.step(multicast.Input{})
		require.Equal(t, Promised, again.Stats().State)
	}
}

// TestReplacementsThatMakeNoSense are ignored.
func TestReplacementsThatMakeNoSense(t *testing.T) {
	for _, r := range []multicast.Replacement{{Old: 3, New: 2}, {Old: 3, New: 5}, {Old: 3, New: 0}, {Old: 9, New: 7}, {Old: 5, New: 7}, {Old: 1, New: 7}} {
		c := newProc(t, 1)
		c.step(multicast.Input{Replace: []multicast.Replacement{r}})
		require.Equal(t, Primary, c.Stats().State, "%v", r)
	}
}

// TestR2HoldsAfterACheckpoint: who is new is in it.
func TestR2HoldsAfterACheckpoint(t *testing.T) {
	c := newProc(t, 2)
	c.hear(1, newEpochOf(secondBy(1)))
	c.hear(1, newcomerState(9))
	c.records = [][]byte{c.appendCheckpoint(nil)}
	again := c.restart(nil)
	again.hear(2, acceptOf(secondBy(1)))
	again.hear(7, acceptOf(secondBy(1)))
	require.Equal(t, Promised, again.Stats().State)
}

// TestR1CandidateLearnsTheRosterFromAPromise: 2 has missed that 7 took the place of 5. Promises of 1 and 2
// are no quorum, and that of 5 does not count any more.
func TestR1CandidateLearnsTheRosterFromAPromise(t *testing.T) {
	c := waiting(t, 2, five)
	c.hear(7) // the link of a process that is unknown yet
	next := secondBy(2)
	c.loopback(c.loopback(c.campaigns(3, 4)))
	promise := promiseOf(next, secondBy(1), 0, 50)
	promise.promise.roster = []multicast.ProcessID{1, 2, 3, 4, 7}
	out := c.hear(1, promise)
	require.Equal(t, promise.promise.roster, c.Members(1))
	require.Equal(t, next, c.said(out, 7, kindNewEpoch).epoch)

	promise = promiseOf(next, epochG, 0, 4)
	promise.promise.roster = []multicast.ProcessID{1, 2, 3, 4, 5}
	c.hear(5, promise)
	require.Equal(t, epochG, c.Stats().Current)
	promise.promise.current = Epoch{}
	c.hear(7, promise)
	require.Equal(t, next, c.Stats().Current)
	require.Equal(t, []multicast.ProcessID{1, 2, 3, 4, 7}, c.Members(1))
}

// replaced is a cluster in which 7 has taken the place of 3, which is down, in the second epoch. One message is older.
func replaced(t *testing.T) *cluster {
	c := newCluster(t)
	c.run(5 * tick)
	c.cast(msg(1, both...))
	c.run(10 * tick)
	c.down[3] = true
	c.step(2, multicast.Input{Replace: []multicast.Replacement{replace3}}) // a follower, which asks the primary
	c.run(50 * tick)
	for _, id := range []multicast.ProcessID{1, 2, 4, 5, 6, 7} {
		require.Equal(t, changed, c.proc(id).Members(1), "process %d", id)
	}
	require.Equal(t, secondBy(1), c.proc(7).Stats().Current)
	require.Equal(t, Follower, c.proc(7).Stats().State)
	return c
}

// TestReplacement: the new member delivers all, and with it and one other the group goes on; other groups count its ACKs.
func TestReplacement(t *testing.T) {
	c := replaced(t)
	c.has([]uint64{1}, 7)
	c.down[2] = true
	c.cast(msg(2, both...), msg(3, 1))
	c.run(20 * tick)
	c.has([]uint64{1, 2, 3}, 1, 7)
	c.has([]uint64{1, 2}, 4, 5, 6)
	require.Equal(t, secondBy(1), c.proc(7).Stats().Current)
}

// TestReplacementSurvivesRestarts of all at once.
func TestReplacementSurvivesRestarts(t *testing.T) {
	c := replaced(t)
	for _, id := range []multicast.ProcessID{1, 2, 4, 5, 6, 7} {
		c.restart(id)
	}
	for _, id := range []multicast.ProcessID{1, 2, 7} {
		require.Equal(t, changed, c.proc(id).Members(1), "process %d", id)
	}
	c.down[2] = true
	c.run(20 * tick)
	c.cast(msg(2, both...))
	c.run(5 * time.Second)
	c.has([]uint64{1, 2}, 1, 4, 5, 6, 7)
}

// TestNewMemberLeads: 1 dies, and 2 does not hear that a quorum hears nothing.
func TestNewMemberLeads(t *testing.T) {
	c := replaced(t)
	c.lose = func(from, to multicast.ProcessID, k kind) bool { return from == 7 && to == 2 && k == kindSilent }
	c.down[1] = true
	c.cast(msg(2, both...))
	c.run(5 * time.Second)
	require.Equal(t, Primary, c.proc(7).Stats().State)
	c.has([]uint64{1, 2}, 2, 4, 5, 6, 7)
	c.restart(1)
	c.run(5 * time.Second)
	c.has([]uint64{1, 2}, 1)
}

// TestReplacementIsDoneOnce: it may be asked for more than once, and of any member.
func TestReplacementIsDoneOnce(t *testing.T) {
	c := replaced(t)
	for _, id := range []multicast.ProcessID{1, 2, 7} {
		c.step(id, multicast.Input{Replace: []multicast.Replacement{replace3}})
	}
	c.run(2 * time.Second)
	require.Equal(t, secondBy(1), c.proc(1).Stats().Current)
}

// TestRemovedMemberDoesNoHarm: 3 comes back and knows of nothing.
func TestRemovedMemberDoesNoHarm(t *testing.T) {
	c := replaced(t)
	c.restart(3)
	c.run(tick)
	c.cast(msg(2, both...))
	c.run(5 * time.Second)
	c.has([]uint64{1, 2}, 1, 2, 4, 5, 6, 7)
	require.Equal(t, secondBy(1), c.proc(7).Stats().Current)
	c.down[1] = true
	c.cast(msg(3, both...))
	c.run(5 * time.Second)
	c.has([]uint64{1, 2, 3}, 2, 4, 5, 6, 7)
	require.NotContains(t, c.proc(7).Members(1), multicast.ProcessID(3))
}

// TestRemovedMemberThatCampaigns: it was cut off, and its NEW-EPOCH arrives after its removal. That costs one more epoch.
func TestRemovedMemberThatCampaigns(t *testing.T) {
	c := replaced(t)
	c.restart(3)
	c.step(3, multicast.Input{})
	c.proc(3).startCampaign()
	for range 3 { // its own disk is faster than the network
		c.step(3, multicast.Input{})
	}
	c.run(10 * tick)
	c.cast(msg(2, both...))
	c.run(5 * time.Second)
	c.has([]uint64{1, 2}, 1, 2, 4, 5, 6, 7)
	require.Equal(t, changed, c.proc(3).Members(1), "it has learned that it is out")
	require.NotEqual(t, Primary, c.proc(3).Stats().State)
}

// TestDeadPrimaryIsReplacedByANewProcess: who was asked becomes the primary first.
func TestDeadPrimaryIsReplacedByANewProcess(t *testing.T) {
	c := newCluster(t)
	c.run(5 * tick)
	c.cast(msg(1, both...))
	c.run(10 * tick)
	c.down[1] = true
	for _, id := range []multicast.ProcessID{2, 3} {
		c.step(id, multicast.Input{Replace: []multicast.Replacement{{Old: 1, New: 7}}})
	}
	c.cast(msg(2, both...))
	c.run(5 * time.Second)
	for id := multicast.ProcessID(2); id <= 7; id++ {
		require.Equal(t, []multicast.ProcessID{7, 2, 3}, c.proc(id).Members(1), "process %d", id)
	}
	c.has([]uint64{1, 2}, 2, 3, 4, 5, 6, 7)
}

// TestRosterIsHeardOnce: other groups take the members of the latest epoch.
func TestRosterIsHeardOnce(t *testing.T) {
	c := newProc(t, 4)
	c.hear(1, packet{kind: kindRoster, group: 1, epoch: secondBy(1), roster: changed})
	require.Equal(t, changed, c.Members(1))
	c.hear(2, packet{kind: kindRoster, group: 1, epoch: Epoch{Number: 1, Leader: 2}, roster: groupG.Members})
	require.Equal(t, changed, c.Members(1), "an older one")
	require.Equal(t, groupH.Members, c.Members(2))
	require.Nil(t, c.Members(9))
}

// TestLinkOfARemovedMember: what it may not have is no matter any more.
func TestLinkOfARemovedMember(t *testing.T) {
	p := newProc(t, 4)
	p.cast(&multicast.Message{ID: multicast.MessageID{Sender: 4, Seq: 1}, Dest: []multicast.GroupID{1}})
	p.hear(1, packet{kind: kindRoster, group: 1, epoch: secondBy(1), roster: changed})
	require.Empty(t, p.hear(3).Frames)
	require.Len(t, said(t, p.hear(7), 7, kindStart), 1)
}

// TestEpochsOfOtherGroupsDoNotCount: they would push the numbers of the own ones.
func TestEpochsOfOtherGroupsDoNotCount(t *testing.T) {
	p := newProc(t, 1)
	far := Epoch{Number: maxNumber, Leader: 4}
	p.hear(4, newEpochOf(far), acceptOf(far))
	require.EqualValues(t, 2, p.Stats().BadPackets)
	p.startCampaign()
	require.Equal(t, secondBy(1), p.promised)
}
