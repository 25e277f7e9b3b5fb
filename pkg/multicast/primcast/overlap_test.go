package primcast

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

func overlapping(cfg *Config) { cfg.Overlap = true }

// early returns the part of a step's output that leaves before the records of the step are durable.
func early(out *multicast.Output) *multicast.Output { return &multicast.Output{Frames: out.Early} }

// overlapped returns primary 1 with entry 1 in its log, and the mark of its epoch. Its clock is not the
// lowest.
func overlapped(t *testing.T) *proc {
	c := newProc(t, 1, overlapping)
	c.hear(4, entryOf(epochH, 1, 50, msg(9, both...)))
	out := c.hear(3, startOf(msg(1, 1), 0))
	require.Empty(t, out.Early, "the mark is not in the log yet (O5)")
	require.True(t, out.Sync)
	c.said(out, 2, kindEntry)
	c.loopback(out)
	c.hear(2, ackOf(epochG, 1, 51))
	return c
}

// forgetful is overlapped after a crash: the log lacks its entry 2, which has left early with a timestamp.
func forgetful(t *testing.T, change ...func(*Config)) (*proc, multicast.Timestamp) {
	c := overlapped(t)
	before := len(c.records)
	entry := c.said(early(c.hear(3, startOf(msg(2, 1), 1))), 2, kindEntry)
	require.EqualValues(t, 2, entry.index)
	c.records = c.records[:before]
	for _, f := range change {
		f(&c.cfg)
	}
	again := c.restart(nil)
	again.step(multicast.Input{})
	require.EqualValues(t, 1, again.t.last())
	return again, entry.ts
}

// Content and proposals leave early. The acknowledgement waits for the records (O2, O3).
func TestProposalsLeaveEarly(t *testing.T) {
	c := overlapped(t)
	m := msg(1, 1)
	m.ID.Sender = 1
	out := c.cast(m)
	for _, q := range []multicast.ProcessID{2, 3} {
		c.said(early(out), q, kindStart)
		c.said(early(out), q, kindEntry)
		require.Empty(t, said(t, early(out), q, kindAck))
		require.EqualValues(t, 2, c.said(out, q, kindAck).length)
		require.Empty(t, said(t, out, q, kindEntry), "once")
	}
	require.EqualValues(t, 2, c.said(out, 1, kindAck).length, "its own acknowledgement waits, too")
	require.NotEmpty(t, out.Records)

	plain := newProc(t, 1, onlyG)
	for seq := uint64(1); seq < 4; seq++ {
		require.Empty(t, plain.hear(3, startOf(msg(seq, 1), seq-1)).Early)
	}
}

// TestOnlyStatementsLeaveEarly: whatever happens, only START and entries of primaries do, and only within a
// group (O3).
func TestOnlyStatementsLeaveEarly(t *testing.T) {
	c := newCluster(t, func(cfg *Config) { cfg.Overlap, cfg.MaxFrame, cfg.CheckpointMin = true, 300, 600 })
	kinds := map[kind]int{}
	c.early = func(from, to multicast.ProcessID, p packet) {
		kinds[p.kind]++
		require.NotEqual(t, from, to)
		require.Equal(t, c.proc(from).own.id, c.proc(to).own.id)
	}
	c.run(2 * tick)
	cast := func(from, to uint64) {
		for seq := from; seq <= to; seq++ {
			c.cast(msg(seq, [][]multicast.GroupID{{1}, {2}, both}[seq%3]...))
			c.run(2 * tick)
		}
	}
	cast(1, 30)
	c.down[1] = true
	cast(31, 40)
	c.run(4 * time.Second)
	c.restart(1)
	c.run(2 * time.Second)
	cast(41, 60)
	c.run(2 * time.Second)
	require.Positive(t, kinds[kindStart])
	require.Positive(t, kinds[kindEntry])
	require.Len(t, kinds, 2)
	require.Len(t, c.applied[1], 40)
	require.Equal(t, c.applied[2], c.applied[3])
}

// TestRestartedPrimaryResigns: it proposes nothing more in its epoch. Once a member follows that epoch, it
// starts the next one (O6).
func TestRestartedPrimaryResigns(t *testing.T) {
	modes := map[string]func(*Config){
		"same mode": func(*Config) {}, "without overlap": func(cfg *Config) { cfg.Overlap = false },
	}
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			c, _ := forgetful(t, mode)
			require.False(t, c.Leads())
			c.said(c.hear(2), 2, kindPing)
			out := c.hear(3, startOf(msg(3, 1), 1))
			require.Empty(t, append(said(t, out, 2, kindEntry), said(t, early(out), 2, kindEntry)...))
			require.Empty(t, said(t, out, 2, kindNewEpoch))
			out = c.hear(2, ackOf(epochG, 2, 5))
			require.Equal(t, Epoch{Number: 2, Leader: 1}, c.said(out, 3, kindNewEpoch).epoch)
			require.Equal(t, Candidate, c.Stats().State)
		})
	}
	c := newProc(t, 1, onlyG)
	c.hear(3, startOf(msg(1, 1), 0))
	again := c.restart(nil)
	again.step(multicast.Input{})
	require.True(t, again.Leads(), "without early proposals it continues")
}

// TestRestartedPrimarySendsNoClock: its clock may be above the timestamp of a proposal that the receiver does
// not know. In the next epoch it counts.
func TestRestartedPrimarySendsNoClock(t *testing.T) {
	c, ts := forgetful(t)
	require.Greater(t, c.Stats().Clock, ts)
	out := c.hear(2, packet{kind: kindPing})
	require.Empty(t, append(said(t, out, 2, kindBump), said(t, out, 2, kindAck)...))
	bumps := said(t, c.hear(2, ackOf(epochG, 1, 51)), 2, kindBump)
	for _, p := range bumps {
		require.NotEqual(t, epochG, p.epoch)
	}
	require.NotEmpty(t, bumps)
}

// TestForgottenProposalSurvives: two members have the entry that the primary has forgotten. They are a
// quorum, so it keeps its place.
func TestForgottenProposalSurvives(t *testing.T) {
	c := newCluster(t, func(cfg *Config) { cfg.Overlap = true })
	c.run(2 * tick)
	c.cast(msg(1, 1))
	c.run(4 * tick)
	c.cast(msg(2, 1))
	before := len(c.proc(1).records)
	c.down[2], c.down[3] = false, false
	waiting := c.wire[1]
	c.wire[1] = nil
	out := c.proc(1).step(multicast.Input{Frames: waiting})
	require.NotEmpty(t, out.Early)
	for _, f := range out.Early {
		c.wire[f.Peer] = append(c.wire[f.Peer], multicast.Frame{Peer: 1, Data: f.Data})
	}
	c.proc(1).records = c.proc(1).records[:before]
	c.down[1] = true
	c.run(tick)
	require.EqualValues(t, 2, c.proc(2).t.last())
	require.EqualValues(t, 2, c.proc(3).t.last())
	index := c.proc(2).t.at(2).ID
	c.restart(1)
	require.EqualValues(t, 1, c.proc(1).t.last())
	c.run(2 * time.Second)
	c.cast(msg(3, 1))
	c.run(2 * time.Second)
	c.has([]uint64{1, 2, 3}, 1, 2, 3)
	require.Equal(t, index, msg(2, 1).ID)
	require.Greater(t, c.proc(1).Stats().Current.Number, uint64(1))
}

// A checkpoint contains the mark of overlapped commits. The state for other members does not contain it, and
// Adopt keeps it.
func TestOverlapMarkStays(t *testing.T) {
	c := overlapped(t)
	state := c.State()
	c.records = [][]byte{c.Checkpoint()}
	again := c.restart(nil)
	again.step(multicast.Input{})
	require.True(t, again.hasResigned())

	other := newProc(t, 2, overlapping)
	record, _, err := other.Adopt(state)
	require.NoError(t, err)
	other.records = [][]byte{record}
	require.Zero(t, other.restart(nil).overlap.epoch)

	donor := newProc(t, 3, overlapping)
	donor.hear(1, startOf(msg(1, 1), 0))
	donor.hear(1, entryOf(epochG, 1, 1, msg(1, 1)))
	c = newProc(t, 1, overlapping)
	c.hear(3, startOf(msg(1, 1), 0))
	record, _, err = c.Adopt(donor.State())
	require.NoError(t, err)
	c.records = [][]byte{record}
	require.Equal(t, epochG, c.restart(nil).overlap.epoch)
}
