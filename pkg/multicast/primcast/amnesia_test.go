package primcast

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

func onlyG(cfg *Config) { cfg.Groups = []multicast.Group{groupG} }

// restartDark restarts p after a loss of power that has left some of the records.
func (p *proc) restartDark(left int, delivered multicast.Progress) *proc {
	again := newProc(p.tb, p.cfg.Self, func(cfg *Config) {
		*cfg = p.cfg
		cfg.Amnesiac, cfg.Delivered = true, delivered
	})
	for _, r := range p.records[:left] {
		require.NoError(p.tb, again.Replay(r))
	}
	again.records = p.records[:left]
	again.step(multicast.Input{})
	again.cfg.Amnesiac = false
	return again
}

// amnesiac returns process 3, which has acknowledged an entry and then lost it.
func amnesiac(t *testing.T) *proc {
	c := newProc(t, 3, onlyG)
	c.hear(5, startOf(msg(1, 1), 0))
	c.hear(1, startOf(msg(1, 1), 0), entryOf(epochG, 1, 4, msg(1, 1)))
	require.EqualValues(t, 1, c.t.last())
	again := c.restartDark(0, nil)
	require.True(t, again.Amnesiac())
	return again
}

// An amnesiac process has no vote until it is in a new epoch (A1).
func TestAmnesiacHasNoVote(t *testing.T) {
	c := amnesiac(t)
	for _, packets := range [][]packet{
		nil, {ackOf(epochG, 1, 4)}, {startOf(msg(1, 1), 0), entryOf(epochG, 1, 4, msg(1, 1))}, {acceptOf(epochG)}, {{kind: kindPing}},
	} {
		out := c.hear(1, packets...)
		for _, k := range []kind{kindAck, kindBump, kindAccept, kindPromise} {
			require.Empty(t, said(t, out, 1, k), "kind %d", k)
		}
		require.Empty(t, out.Deliveries)
		require.Equal(t, Promised, c.Stats().State)
	}
	silent := said(t, c.hear(1), 1, kindSilent)
	require.Equal(t, []packet{{kind: kindSilent, epoch: epochG, amnesiac: true}}, silent)

	promise := c.said(c.hear(2, newEpochOf(second)), 2, kindPromise).promise
	require.True(t, promise.amnesiac)
	c.hear(2, newStateOf(second, 0, 1, 9), startOf(msg(1, 1), 0), entryOf(second, 1, 4, msg(1, 1)))
	require.False(t, c.Amnesiac())
	out := c.hear(2, ackOf(second, 1, 9))
	require.Equal(t, Follower, c.Stats().State)
	require.EqualValues(t, 1, c.said(out, 1, kindAck).length)
}

func TestAmnesiaOutlivesARestart(t *testing.T) {
	c := amnesiac(t)
	require.True(t, c.restart(nil).Amnesiac())
	c.records = [][]byte{c.Checkpoint()}
	require.True(t, c.restart(nil).Amnesiac())
	again := newProc(t, 3, onlyG)
	require.False(t, again.restart(nil).Amnesiac())
}

// TestAmnesiaOutlivesATransfer: a member in the same epoch may lack entries that this process has
// acknowledged. A member of a later epoch has all of them.
func TestAmnesiaOutlivesATransfer(t *testing.T) {
	c := amnesiac(t)
	same, _ := c.adopted(newProc(t, 2, onlyG).State())
	require.True(t, same.Amnesiac())
	donor := newProc(t, 2, onlyG)
	donor.hear(1, newEpochOf(between))
	donor.hear(1, newStateOf(between, 0, 0, 9))
	later, _ := c.adopted(donor.State())
	require.False(t, later.Amnesiac())
}

// gathering returns candidate 2, amnesiac or not, which has promised to itself.
func gathering(t *testing.T, remembers bool) *proc {
	c := newProc(t, 2, onlyG)
	if !remembers {
		c = c.restartDark(0, nil)
	}
	c.loopback(c.loopback(c.campaigns(3)))
	return c
}

func amnesiacPromise(length uint64) packet {
	p := promiseOf(second, epochG, length, 4)
	p.promise.amnesiac = true
	return p
}

// TestAmnesiacPromiseDoesNotCount: an amnesiac promise does not count for a quorum (A2).
func TestAmnesiacPromiseDoesNotCount(t *testing.T) {
	c := gathering(t, true)
	c.hear(3, amnesiacPromise(0))
	require.Equal(t, epochG, c.Stats().Current)
	c.hear(1, promiseOf(second, epochG, 0, 4))
	require.Equal(t, second, c.Stats().Current)
}

// If a majority has lost its memory, the candidate waits for all members. Then the longest of all logs
// counts.
func TestAMajorityThatForgotWaitsForAll(t *testing.T) {
	c := gathering(t, false)
	c.hear(3, amnesiacPromise(1))
	require.Equal(t, epochG, c.Stats().Current)
	out := c.hear(1, amnesiacPromise(0))
	c.said(out, 3, kindFetchLog)
	c.hear(3, startOf(msg(1, 1), 0), entryOf(epochG, 1, 4, msg(1, 1)))
	require.Equal(t, second, c.Stats().Current)
	require.EqualValues(t, 1, c.t.last())
	require.False(t, c.Amnesiac())
}

// TestSourceThatForgetsIsNoSource: the source has promised with a T that it has lost since.
func TestSourceThatForgetsIsNoSource(t *testing.T) {
	c := gathering(t, true)
	c.said(c.hear(3, promiseOf(second, epochG, 3, 4)), 3, kindFetchLog)
	c.hear(3)
	require.Empty(t, said(t, c.hear(3, amnesiacPromise(1)), 3, kindFetchLog))
	c.hear(1, promiseOf(second, epochG, 0, 4))
	c.hear(3, startOf(msg(1, 1), 0), entryOf(epochG, 1, 4, msg(1, 1)))
	require.Equal(t, second, c.Stats().Current)
}

// TestPrimaryBringsAnAmnesiacBack: the primary starts a new epoch.
func TestPrimaryBringsAnAmnesiacBack(t *testing.T) {
	c := newProc(t, 1, onlyG)
	c.loopback(c.hear(2))
	require.Equal(t, Primary, c.Stats().State)
	for range 20 {
		c.hear(3, packet{kind: kindSilent, epoch: epochG, amnesiac: true})
		c.after(DefaultSuspectAfter / 4)
	}
	require.Equal(t, Candidate, c.Stats().State)
}

// TestTheOnlyMemberRemembersEnough: no other process knows more. Its state machine may hold more than its
// log, and new entries come after that.
func TestTheOnlyMemberRemembersEnough(t *testing.T) {
	c := newProc(t, 1, func(cfg *Config) { cfg.Groups = []multicast.Group{{ID: 1, Members: []multicast.ProcessID{1}}} })
	c.loopback(c.cast(&multicast.Message{ID: multicast.MessageID{Sender: 1, Seq: 1}, Dest: []multicast.GroupID{1}}))
	held := multicast.UpTo(multicast.Position{Final: 1 << 30, ID: multicast.MessageID{Sender: 1, Seq: 1}})
	again := c.restartDark(0, held)
	require.False(t, again.Amnesiac())
	out := again.cast(&multicast.Message{ID: multicast.MessageID{Sender: 1, Seq: 2}, Dest: []multicast.GroupID{1}})
	for range 3 {
		if len(out.Deliveries) == 0 {
			out = again.loopback(out)
		}
	}
	require.Equal(t, []uint64{2}, delivered(out))
}

func TestAmnesiaIsForOneGroup(t *testing.T) {
	_, err := New(Config{Self: 1, Groups: []multicast.Group{groupG, groupH}, Amnesiac: true})
	require.ErrorContains(t, err, "Amnesiac")
}

// TestAMajorityThatForgotLeavesOutWhoIsReplaced (A3): members that forgot wait for a member that is to be
// replaced for a while, and for another member for ever.
func TestAMajorityThatForgotLeavesOutWhoIsReplaced(t *testing.T) {
	for name, c := range map[string]struct{ asked, heard, begins bool }{
		"it is to be replaced, and is gone":  {asked: true, begins: true},
		"it is to be replaced, and is there": {asked: true, heard: true},
		"nobody has asked for it":            {},
	} {
		t.Run(name, func(t *testing.T) {
			p := gathering(t, false)
			if c.asked {
				p.step(multicast.Input{Replace: []multicast.Replacement{{Old: 3, New: 9}}})
			}
			p.hear(1, amnesiacPromise(1))
			require.Equal(t, epochG, p.Stats().Current, "it may be back soon")
			p.after(goneAfter)
			if c.heard {
				p.hear(3)
			}
			out := p.hear(1, amnesiacPromise(1))
			if !c.begins {
				require.Equal(t, epochG, p.Stats().Current)
				require.Empty(t, said(t, out, 1, kindFetchLog))
				return
			}
			p.hear(1, startOf(msg(1, 1), 0), entryOf(epochG, 1, 4, msg(1, 1)))
			require.Equal(t, second, p.Stats().Current)
			require.EqualValues(t, 1, p.t.last())
		})
	}
}

// TestOneMemberIsNoQuorum: one member is no quorum, with any replacement (A3).
func TestOneMemberIsNoQuorum(t *testing.T) {
	p := gathering(t, false)
	p.step(multicast.Input{Replace: []multicast.Replacement{{Old: 1, New: 8}, {Old: 3, New: 9}}})
	p.after(goneAfter)
	p.loopback(p.after(goneAfter))
	require.Equal(t, epochG, p.Stats().Current)
}
