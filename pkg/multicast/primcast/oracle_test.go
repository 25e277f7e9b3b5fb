package primcast

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// five is a group of five members.
func five(cfg *Config) {
	cfg.Groups = []multicast.Group{{ID: 1, Members: []multicast.ProcessID{1, 2, 3, 4, 5}}}
}

// waiting returns a follower with a message that its primary does not propose.
func waiting(t *testing.T, self multicast.ProcessID, change ...func(*Config)) *proc {
	c := newProc(t, self, change...)
	c.hear(5, startOf(msg(1, 1), 0))
	return c
}

func TestOracleNeedsSilentOfAQuorum(t *testing.T) {
	c := waiting(t, 2, five)
	for range 40 {
		c.hear(3, packet{kind: kindSilent, epoch: epochG})
		c.after(DefaultSuspectAfter / 4)
	}
	require.Equal(t, Follower, c.Stats().State, "two of five")
	c.campaigns(3, 4)
}

// TestOracleSilentIsForgotten: a SILENT older than SuspectAfter does not count.
func TestOracleSilentIsForgotten(t *testing.T) {
	c := waiting(t, 2)
	c.hear(3, packet{kind: kindSilent, epoch: epochG})
	for range 40 {
		c.after(DefaultSuspectAfter / 4)
	}
	require.Equal(t, Follower, c.Stats().State)
}

func TestOraclePrimaryThatSpeaksIsNotSuspected(t *testing.T) {
	c := waiting(t, 2)
	for range 40 {
		c.hear(3, packet{kind: kindSilent, epoch: epochG})
		c.hear(1, ackOf(epochG, 0, 0))
		require.Empty(t, said(t, c.after(DefaultSuspectAfter/4), 3, kindSilent))
	}
	require.Equal(t, Follower, c.Stats().State)
}

// The oracle pings before it suspects, so that the other members watch, too, and the primary answers.
func TestOraclePingsBeforeItSuspects(t *testing.T) {
	c := waiting(t, 2)
	c.step(multicast.Input{})
	out := c.after(DefaultSuspectAfter / 2)
	c.said(out, 1, kindPing)
	c.said(out, 3, kindPing)

	for self, want := range map[multicast.ProcessID]Epoch{1: epochG, 3: epochG} {
		other := newProc(t, self)
		require.Equal(t, want, other.said(other.hear(2, packet{kind: kindPing}), 2, kindAck).epoch)
		require.Equal(t, self == 3, other.step(multicast.Input{}).Wake != 0, "followers watch, process %d", self)
	}
}

// campaignsAfter returns the time until p starts an epoch if the other members all report at once that they
// receive nothing.
func campaignsAfter(p *proc) time.Duration {
	start, count := p.instant.Mono, p.Stats().Campaigns
	for p.Stats().Campaigns == count {
		for _, q := range []multicast.ProcessID{2, 3, 4, 5} {
			if q != p.self.id {
				p.hear(q, packet{kind: kindSilent, epoch: p.promised})
			}
		}
		p.after(DefaultSuspectAfter / 64)
	}
	return p.instant.Mono - start
}

// TestOracleRanks: members step forward one after the other, with any random part of their patience.
func TestOracleRanks(t *testing.T) {
	for seed := range uint64(20) {
		var last time.Duration
		for id := multicast.ProcessID(2); id <= 5; id++ {
			at := campaignsAfter(waiting(t, id, five, func(cfg *Config) { cfg.Seed = seed }))
			require.GreaterOrEqual(t, at-last, DefaultSuspectAfter/5, "process %d", id)
			last = at
		}
	}
}

// TestOracleBacksOff: failed campaigns are repeated later and later, up to eight times as late, and in higher
// epochs.
func TestOracleBacksOff(t *testing.T) {
	c := waiting(t, 2, five)
	for want := uint64(1); want <= 6; want++ {
		took := campaignsAfter(c)
		factor := time.Duration(1) << min(want-1, maxBackoff)
		require.GreaterOrEqual(t, took, factor*DefaultSuspectAfter)
		require.Less(t, took, factor*DefaultSuspectAfter*2)
		require.EqualValues(t, want+1, c.promised.Number)
	}
}

// TestOracleBringsBackWhoHasPromisedToNothing: a member reports repeatedly that it receives nothing of a
// higher epoch; the primary starts one above it.
func TestOracleBringsBackWhoHasPromisedToNothing(t *testing.T) {
	for _, e := range []Epoch{epochG, {Number: 7, Leader: 2}} {
		c := newProc(t, 1)
		for range 12 {
			c.hear(3, packet{kind: kindSilent, epoch: e})
			c.after(DefaultSuspectAfter / 4)
		}
		if e == epochG {
			require.Zero(t, c.Stats().Campaigns, "it follows this one")
		} else {
			require.EqualValues(t, 1, c.Stats().Campaigns)
			require.Equal(t, Epoch{Number: 8, Leader: 1}, c.promised)
		}
	}
}

// TestStuckMemberIsBroughtBack: 2 started an epoch that only 3 received, and died. Without 3 there is no
// quorum.
func TestStuckMemberIsBroughtBack(t *testing.T) {
	c := newCluster(t)
	c.run(5 * tick)
	c.down[2] = true
	c.step(3, multicast.Input{Frames: []multicast.Frame{{Peer: 2, Data: encode(newEpochOf(second))}}})
	c.cast(msg(1, 1))
	c.run(5 * time.Second)
	c.has([]uint64{1}, 1, 3)
	require.Equal(t, Primary, c.proc(1).Stats().State)
}

// TestRelay: the sender crashed when its START had reached one follower only; that follower gives it to the
// primary, since the paper's multicast is reliable.
func TestRelay(t *testing.T) {
	c := newCluster(t)
	c.run(5 * tick)
	c.lose = func(from, to multicast.ProcessID, _ kind) bool { return from == 5 && to != 3 }
	c.cast(msg(1, 1))
	c.down[5] = true
	c.run(2 * time.Second)
	c.has([]uint64{1}, 1, 2, 3)
	require.Equal(t, epochG, c.proc(3).Stats().Current)
}

// TestDeadPrimaryIsReplaced: 1 dies with a message that it has proposed to no process.
func TestDeadPrimaryIsReplaced(t *testing.T) {
	c := newCluster(t)
	c.run(5 * tick)
	c.down[1] = true
	c.cast(msg(1, both...))
	c.run(5 * time.Second)
	c.has([]uint64{1}, 2, 3, 4, 5, 6)
	require.Equal(t, Primary, c.proc(2).Stats().State, "the first in the order of members")
	c.restart(1)
	c.run(5 * time.Second)
	c.has([]uint64{1}, 1)
	require.Equal(t, Follower, c.proc(1).Stats().State)
}

// TestOracleWhoFollowsAgainIsNotSilent: an ACK cancels SILENT.
func TestOracleWhoFollowsAgainIsNotSilent(t *testing.T) {
	c := waiting(t, 2)
	for range 40 {
		c.hear(3, packet{kind: kindSilent, epoch: epochG}, ackOf(epochG, 0, 0))
		c.after(DefaultSuspectAfter / 4)
	}
	require.Equal(t, Follower, c.Stats().State)
}

// TestAskedToLead: an operator's request is enough for a member, and has no effect at the primary or at a
// process that is no member.
func TestAskedToLead(t *testing.T) {
	c := newProc(t, 2)
	out := c.step(multicast.Input{Lead: true})
	require.Equal(t, Candidate, c.Stats().State)
	require.Equal(t, Epoch{Number: 2, Leader: 2}, c.said(out, 3, kindNewEpoch).epoch)

	primary := newProc(t, 1)
	primary.step(multicast.Input{Lead: true})
	require.Equal(t, Primary, primary.Stats().State)
	require.Zero(t, primary.Stats().Campaigns)
}

// TestOracleWatchesForReplacements: a process that waits only for a replacement of a member detects that the
// primary is gone.
func TestOracleWatchesForReplacements(t *testing.T) {
	c := newProc(t, 2)
	c.step(multicast.Input{Replace: []multicast.Replacement{{Old: 1, New: 4}}})
	c.campaigns(3)
}
