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

// newcomerState returns the NEW-STATE of process 1 for an epoch in which process 7 takes the place of 3.
func newcomerState(ts multicast.Timestamp) packet {
	p := newStateOf(secondBy(1), 0, 0, ts)
	p.roster = roster{since: secondBy(1), latest: secondBy(1), ids: changed, before: groupG.Members}
	return p
}

// membersOf returns the packet with these members of g since an epoch.
func membersOf(since Epoch, ids ...multicast.ProcessID) packet {
	return packet{kind: kindRoster, group: 1, roster: roster{since: since, latest: since, ids: ids}}
}

// TestR2TwoQuorumsAccept: a quorum of the members and a quorum of the members before must know of the epoch;
// over a restart too.
func TestR2TwoQuorumsAccept(t *testing.T) {
	for name, by := range map[string][]multicast.ProcessID{"who stays": {2, 7, 1}, "who leaves": {7, 3, 1}} {
		c := newProc(t, 2)
		c.hear(1, newEpochOf(secondBy(1)))
		c.hear(1, newcomerState(9))
		require.Equal(t, changed, idsOf(c.own.members()), name)
		require.Equal(t, groupG.Members, c.Members(1), "%s: not yet", name)
		again := c.restart(nil)
		require.Equal(t, c.own.roster(), again.own.roster(), name)
		again.step(multicast.Input{})
		for _, p := range []*proc{c, again} {
			for _, q := range by {
				require.Equal(t, Promised, p.Stats().State, "%s: %d does not suffice", name, q)
				p.hear(q, acceptOf(secondBy(1)))
			}
			require.Equal(t, Follower, p.Stats().State, name)
			require.Equal(t, changed, p.Members(1), name)
			require.Empty(t, p.restart(nil).own.roster().before, "%s: those before are not needed any more", name)
		}
	}
}

// TestR2HoldsForTheCandidate: the candidate counts itself and the new member.
func TestR2HoldsForTheCandidate(t *testing.T) {
	c := newProc(t, 1)
	c.hear(7)
	c.loopback(c.loopback(c.step(multicast.Input{Replace: []multicast.Replacement{replace3}})))
	out := c.hear(2, promiseOf(secondBy(1), epochG, 0, 0))
	require.Equal(t, changed, idsOf(c.own.members()))
	c.loopback(out)
	c.hear(7, acceptOf(secondBy(1)))
	require.Equal(t, Candidate, c.Stats().State)
	c.hear(2, acceptOf(secondBy(1)))
	require.Equal(t, Primary, c.Stats().State)
	require.Equal(t, changed, c.Members(1))
}

// TestR1AsksThoseBefore: 1 and 7 know of an epoch that no other process has accepted, as far as they know.
// Promises of 1 and 7 are not enough: 2 and 3 may go on without it. Promises of 2 and 3 are not enough
// either: 1 and 7 may have decided in it.
func TestR1AsksThoseBefore(t *testing.T) {
	pending := newcomerState(9).roster
	for name, by := range map[string][]multicast.ProcessID{"who stays": {7, 2}, "who leaves": {7, 3}, "who leaves first": {3, 7}} {
		c := newProc(t, 1)
		c.hear(7)
		c.hear(2, newEpochOf(Epoch{Number: 2, Leader: 2}))
		state := newStateOf(Epoch{Number: 2, Leader: 2}, 0, 0, 9)
		state.roster = roster{since: state.epoch, latest: state.epoch, ids: pending.ids, before: pending.before}
		c.hear(2, state)
		c.startCampaign()
		next := c.promised
		c.loopback(c.loopback(c.step(multicast.Input{})))
		for i, q := range by {
			require.Equal(t, state.epoch, c.Stats().Current, "%s: after %d promises of others", name, i)
			promise := promiseOf(next, epochG, 0, 4)
			if q == 7 {
				promise.promise.roster, promise.promise.current = state.roster, state.epoch
			}
			c.hear(q, promise)
		}
		require.Equal(t, next, c.Stats().Current, name)
		require.Equal(t, roster{since: state.epoch, latest: next, ids: changed, before: groupG.Members}, c.own.roster(), "%s: the change goes on", name)
	}
}

// TestR1TakesTheLatestRoster: process 1 knows the roster of a failed change, and receives a later epoch
// without this roster.
func TestR1TakesTheLatestRoster(t *testing.T) {
	c := newProc(t, 1)
	c.hear(2, newEpochOf(Epoch{Number: 2, Leader: 2}))
	state := newStateOf(Epoch{Number: 2, Leader: 2}, 0, 0, 9)
	state.roster = roster{since: state.epoch, latest: state.epoch, ids: changed, before: groupG.Members}
	c.hear(2, state)
	c.hear(3, newEpochOf(Epoch{Number: 3, Leader: 3})) // it is active without 1
	c.startCampaign()
	next := c.promised
	c.loopback(c.loopback(c.step(multicast.Input{})))
	c.hear(3, promiseOf(next, Epoch{Number: 3, Leader: 3}, 0, 4))
	require.Equal(t, next, c.Stats().Current)
	require.Equal(t, rosterOf(next), c.own.roster())
}

// A candidate gives up if a later epoch is active.
func TestR1GivesUp(t *testing.T) {
	c := newProc(t, 1)
	c.step(multicast.Input{})
	c.startCampaign()
	next := c.promised
	c.hear(2, membersOf(Epoch{Number: 9, Leader: 2}, 1, 2, 8))
	c.loopback(c.step(multicast.Input{}))
	c.hear(1, promiseOf(next, epochG, 0, 4))
	c.hear(2, promiseOf(next, epochG, 0, 4))
	require.Equal(t, epochG, c.Stats().Current)
	c.startCampaign()
	require.Equal(t, Epoch{Number: 10, Leader: 1}, c.promised)
}

// The promise to a new member survives restarts, although the process knows the members of its epoch only
// from others. Epochs of a primary that was replaced since survive restarts, too.
func TestPromiseToANewMemberSurvivesRestarts(t *testing.T) {
	p := newProc(t, 2)
	p.hear(1, membersOf(secondBy(1), changed...))
	p.hear(7, newEpochOf(Epoch{Number: 3, Leader: 7}))
	require.Equal(t, Epoch{Number: 3, Leader: 7}, p.promised)
	p.hear(1, membersOf(Epoch{Number: 4, Leader: 1}, 1, 2, 8))
	for _, records := range [][][]byte{p.records, {p.appendCheckpoint(nil)}} {
		p.records = records
		again := p.restart(nil)
		require.Equal(t, Epoch{Number: 3, Leader: 7}, again.promised)
		again.step(multicast.Input{})
		require.Equal(t, Promised, again.Stats().State)
	}
}

// Replacements that make no sense are ignored.
func TestReplacementsThatMakeNoSense(t *testing.T) {
	for _, r := range []multicast.Replacement{{Old: 3, New: 2}, {Old: 3, New: 5}, {}, {Old: 9, New: 7}, {New: 2}, {New: 5}, {Old: 9}, {Old: 5}, {Old: 5, New: 7}, {Old: 1, New: 7}} {
		c := newProc(t, 1)
		c.step(multicast.Input{Replace: []multicast.Replacement{r}})
		require.Equal(t, Primary, c.Stats().State, "%v", r)
	}
}

// R2 holds after a restart from a checkpoint, which contains the members before the change.
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
// are no quorum, and the promise of 5 does not count any more.
func TestR1CandidateLearnsTheRosterFromAPromise(t *testing.T) {
	c := waiting(t, 2, five)
	c.hear(7) // the link of an unknown process
	next := secondBy(2)
	c.loopback(c.loopback(c.campaigns(3, 4)))
	promise := promiseOf(next, secondBy(1), 0, 50)
	promise.promise.roster = membersOf(secondBy(1), 1, 2, 3, 4, 7).roster
	out := c.hear(1, promise)
	require.Equal(t, promise.promise.roster.ids, c.Members(1))
	require.Equal(t, next, c.said(out, 7, kindNewEpoch).epoch)

	promise = promiseOf(next, epochG, 0, 4)
	promise.promise.roster = roster{latest: epochG, ids: []multicast.ProcessID{1, 2, 3, 4, 5}}
	c.hear(5, promise)
	require.Equal(t, epochG, c.Stats().Current)
	promise.promise.current = Epoch{}
	c.hear(7, promise)
	require.Equal(t, next, c.Stats().Current)
	require.Equal(t, []multicast.ProcessID{1, 2, 3, 4, 7}, c.Members(1))
}

// replaced returns a cluster in which 7 has taken the place of 3, which is down, in the second epoch. One
// message is older.
func replaced(t *testing.T) *cluster {
	c := newCluster(t)
	c.run(5 * tick)
	c.cast(msg(1, both...))
	c.run(10 * tick)
	c.down[3] = true
	c.step(2, multicast.Input{Replace: []multicast.Replacement{replace3}}) // a follower asks the primary
	c.run(50 * tick)
	for _, id := range []multicast.ProcessID{1, 2, 4, 5, 6, 7} {
		require.Equal(t, changed, c.proc(id).Members(1), "process %d", id)
	}
	require.Equal(t, secondBy(1), c.proc(7).Stats().Current)
	require.Equal(t, Follower, c.proc(7).Stats().State)
	return c
}

// TestReplacement: the new member delivers all messages. The group continues with the new member and one
// other, and other groups count the ACKs of the new member.
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

// A replacement survives a restart of all processes at once.
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

// TestNewMemberLeads: 1 dies, and 2 does not learn that a quorum receives nothing.
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

// TestReplacementIsDoneOnce: it may be requested more than once, and from any member.
func TestReplacementIsDoneOnce(t *testing.T) {
	c := replaced(t)
	for _, id := range []multicast.ProcessID{1, 2, 7} {
		c.step(id, multicast.Input{Replace: []multicast.Replacement{replace3}})
	}
	c.run(2 * time.Second)
	require.Equal(t, secondBy(1), c.proc(1).Stats().Current)
}

// TestRemovedMemberDoesNoHarm: 3 comes back and knows nothing of its removal.
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

// TestRemovedMemberThatCampaigns: the member was cut off, and its NEW-EPOCH arrives after its removal. That
// costs one more epoch.
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

// TestDeadPrimaryIsReplacedByANewProcess: the process that was asked becomes the primary first.
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

// Other groups adopt the members of the latest epoch only.
func TestRosterIsHeardOnce(t *testing.T) {
	c := newProc(t, 4)
	c.hear(1, membersOf(secondBy(1), changed...))
	require.Equal(t, changed, c.Members(1))
	c.hear(2, membersOf(Epoch{Number: 1, Leader: 2}, groupG.Members...))
	require.Equal(t, changed, c.Members(1), "an older one")
	require.Equal(t, groupH.Members, c.Members(2))
	require.Nil(t, c.Members(9))
}

// TestLinkOfARemovedMember: messages that it may lack are irrelevant.
func TestLinkOfARemovedMember(t *testing.T) {
	p := newProc(t, 4)
	p.cast(&multicast.Message{ID: multicast.MessageID{Sender: 4, Seq: 1}, Dest: []multicast.GroupID{1}})
	p.hear(1, membersOf(secondBy(1), changed...))
	told := said(t, p.hear(3), 3, kindRoster)
	require.Len(t, told, 1, "only who the members are")
	require.Equal(t, changed, told[0].roster.ids)
	require.Len(t, said(t, p.hear(7), 7, kindStart), 1)
}

// TestEpochsOfOtherGroupsDoNotCount: they would increase the numbers of the own epochs.
func TestEpochsOfOtherGroupsDoNotCount(t *testing.T) {
	p := newProc(t, 1)
	far := Epoch{Number: maxNumber, Leader: 4}
	p.hear(4, newEpochOf(far), acceptOf(far))
	require.EqualValues(t, 2, p.Stats().BadPackets)
	p.startCampaign()
	require.Equal(t, secondBy(1), p.promised)
}

// TestLiveMemberLearnsThatItIsOut: it sends nothing from then on, also after a restart.
func TestLiveMemberLearnsThatItIsOut(t *testing.T) {
	for _, asked := range []multicast.ProcessID{1, 2, 3} {
		c := newCluster(t)
		c.run(5 * tick)
		c.cast(msg(1, both...))
		c.run(10 * tick)
		c.step(asked, multicast.Input{Replace: []multicast.Replacement{replace3}})
		c.run(time.Second)
		require.Equal(t, map[multicast.ProcessID]bool{1: false, 2: false, 3: true, 4: false, 5: false, 6: false, 7: false}, c.retired)
		require.Equal(t, Retired, c.proc(3).Stats().State)
		for range 2 {
			out := c.proc(3).hear(1, startOf(msg(9, 1), 0), newEpochOf(Epoch{Number: 9, Leader: 1}), packet{kind: kindPing})
			require.Empty(t, out.Frames)
			require.Empty(t, out.Records)
			require.Empty(t, c.proc(3).cast(&multicast.Message{ID: multicast.MessageID{Sender: 3, Seq: 1}, Dest: both}).Frames)
			require.True(t, out.Retired)
			c.restart(3)
			c.run(10 * tick)
		}
		c.proc(3).records = [][]byte{c.proc(3).appendCheckpoint(nil)}
		require.True(t, c.proc(3).restart(nil).step(multicast.Input{}).Retired)
		c.down[1] = true
		c.cast(msg(2, both...))
		c.run(5 * time.Second)
		c.has([]uint64{1, 2}, 2, 7, 4, 5, 6)
	}
}

// TestPrimaryThatLivesIsReplaced: another member leads the epoch without it.
func TestPrimaryThatLivesIsReplaced(t *testing.T) {
	c := newCluster(t)
	c.run(5 * tick)
	c.cast(msg(1, both...))
	c.run(10 * tick)
	c.step(1, multicast.Input{Replace: []multicast.Replacement{{Old: 1, New: 7}}})
	c.run(time.Second)
	require.True(t, c.retired[1])
	require.Equal(t, []multicast.ProcessID{7, 2, 3}, c.proc(5).Members(1))
	c.cast(msg(2, both...))
	c.run(20 * tick)
	c.has([]uint64{1, 2}, 2, 3, 7, 4, 5, 6)
}

// TestAnotherGroupTells: it informs a process that left and reaches no member any more.
func TestAnotherGroupTells(t *testing.T) {
	other := newProc(t, 4)
	known := func() bool {
		return other.said(other.hear(3, ackOf(epochG, 0, 1)), 3, kindRoster).known
	}
	other.hear(1, membersOf(secondBy(1), changed...), ackOf(secondBy(1), 0, 9))
	require.False(t, known(), "only 1 is known to know")
	other.hear(7, ackOf(secondBy(1), 0, 9))
	require.True(t, known())

	p := newProc(t, 3)
	told := membersOf(secondBy(1), changed...)
	p.hear(4, told)
	require.Equal(t, changed, p.Members(1))
	require.Equal(t, Follower, p.Stats().State, "its say may still be needed")
	told.known = true
	out := p.hear(4, told)
	require.True(t, out.Retired)
	require.Len(t, out.Records, 1)
}

// A new process takes part after it has received members that include it. Older members without it do not
// retire it.
func TestNewProcessWaits(t *testing.T) {
	p := newProc(t, 7, func(cfg *Config) { cfg.Replaces = 3 })
	told := membersOf(secondBy(1), 1, 8, 3)
	told.known = true
	require.False(t, p.hear(1, told).Retired)
	p.hear(1, newEpochOf(Epoch{Number: 3, Leader: 1}))
	state := newStateOf(Epoch{Number: 3, Leader: 1}, 0, 0, 9)
	state.roster = roster{since: state.epoch, latest: state.epoch, ids: []multicast.ProcessID{1, 8, 7}, before: []multicast.ProcessID{1, 8, 3}}
	p.hear(1, state)
	require.False(t, p.hear(1, told).Retired, "that is older")
	p.hear(1, ackOf(state.epoch, 0, 9))
	require.Equal(t, []multicast.ProcessID{1, 8, 7}, p.Members(1))
	told = membersOf(Epoch{Number: 4, Leader: 1}, 1, 8, 9)
	told.known = true
	require.True(t, p.hear(1, told).Retired)
}

// A group grows by one member and shrinks by one, and its quorums follow from its size.
func TestGroupGrowsAndShrinks(t *testing.T) {
	c := newCluster(t)
	c.run(5 * tick)
	c.cast(msg(1, both...))
	c.run(10 * tick)
	c.step(2, multicast.Input{Replace: []multicast.Replacement{{New: 7}}})
	c.run(time.Second)
	for id := multicast.ProcessID(1); id <= 7; id++ {
		require.Equal(t, []multicast.ProcessID{1, 2, 3, 7}, c.proc(id).Members(1), "process %d", id)
	}
	c.down[2], c.down[3] = true, true
	c.cast(msg(2, both...))
	c.run(5 * time.Second)
	c.has([]uint64{1}, 1, 7, 4) // two of four are no quorum
	c.restart(3)
	c.run(5 * time.Second)
	c.has([]uint64{1, 2}, 1, 3, 7, 4)

	c.step(7, multicast.Input{Replace: []multicast.Replacement{{Old: 1}}})
	c.run(5 * time.Second)
	require.True(t, c.retired[1])
	for _, id := range []multicast.ProcessID{3, 4, 5, 6, 7} {
		require.Equal(t, []multicast.ProcessID{2, 3, 7}, c.proc(id).Members(1), "process %d", id)
	}
	c.cast(msg(3, both...))
	c.run(20 * tick)
	c.has([]uint64{1, 2, 3}, 3, 7, 4)
}

// The last member of a group cannot leave it, and a process joins only after it has started.
func TestNoSuchChange(t *testing.T) {
	alone := newProc(t, 1, func(cfg *Config) { cfg.Groups = []multicast.Group{{ID: 1, Members: []multicast.ProcessID{1}}} })
	alone.hear(7)
	for _, r := range []multicast.Replacement{{Old: 1}, {Old: 1, New: 7}} {
		alone.step(multicast.Input{Replace: []multicast.Replacement{r}})
		require.Equal(t, Primary, alone.Stats().State)
		require.Empty(t, alone.replacements)
	}
	c := newProc(t, 1)
	c.step(multicast.Input{Replace: []multicast.Replacement{{New: 7}}})
	require.Equal(t, Primary, c.Stats().State, "7 does not run")
	c.said(c.after(DefaultSuspectAfter), 7, kindPing) // the link starts with something to send
	c.hear(7)
	c.after(DefaultSuspectAfter)
	require.Equal(t, Candidate, c.Stats().State)
}

// TestHavesSurviveAChange: the members that have a message stay recorded, whatever their places are.
func TestHavesSurviveAChange(t *testing.T) {
	p := newProc(t, 4)
	p.cast(&multicast.Message{ID: multicast.MessageID{Sender: 4, Seq: 1}, Dest: []multicast.GroupID{1}})
	have := packet{kind: kindHave, message: multicast.Message{ID: multicast.MessageID{Sender: 4, Seq: 1}}}
	p.hear(1, have)
	p.hear(3, have)
	p.hear(2, membersOf(secondBy(2), 2, 3))
	require.Len(t, p.outbox.sent, 1)
	p.hear(2, have)
	require.Empty(t, p.outbox.sent, "2 and 3 have it")
}

// TestR3CountsTheRosterOfTheEpoch: of four members, two are no quorum, though they are among the three that
// are members later.
func TestR3CountsTheRosterOfTheEpoch(t *testing.T) {
	g := multicast.Group{ID: 1, Members: []multicast.ProcessID{1, 2, 3, 9}}
	p := newProc(t, 4, func(cfg *Config) { cfg.Groups = []multicast.Group{g, groupH} })
	m := msg(1, both...)
	p.hear(5, startOf(m, 0))
	p.hear(1, entryOf(epochG, 1, 7, m), ackOf(epochG, 1, 7))
	p.hear(2, membersOf(secondBy(2), 1, 2, 3), ackOf(epochG, 1, 7))
	require.Zero(t, p.messages[m.ID].localTS(1))
	p.hear(3, ackOf(epochG, 1, 7))
	require.Zero(t, p.messages[m.ID].localTS(1), "1, 2 and 3 are three of four, but that is of no use to know any more")
	p.hear(2, entryOf(secondBy(2), 1, 8, m), ackOf(secondBy(2), 1, 8))
	p.hear(1, ackOf(secondBy(2), 1, 8))
	require.EqualValues(t, 8, p.messages[m.ID].localTS(1))
}
