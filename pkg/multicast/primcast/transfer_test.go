package primcast

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// deliveredOne returns a process of g that has delivered a message, at 4, which no state machine covers.
func deliveredOne(t *testing.T, self multicast.ProcessID, change ...func(*Config)) (*proc, multicast.Position) {
	c := newProc(t, self, change...)
	other := 5 - self // of 2 and 3
	c.hear(5, startOf(msg(1, 1), 0))
	c.hear(1, entryOf(epochG, 1, 4, msg(1, 1)), ackOf(epochG, 1, 4))
	out := c.hear(other, ackOf(epochG, 1, 4))
	require.Equal(t, []uint64{1}, delivered(out))
	return c, out.Deliveries[0].Position()
}

// adopted is p with the state of another process in the place of all its records.
func (p *proc) adopted(state []byte) (*proc, multicast.Progress) {
	record, at, err := p.Adopt(state)
	require.NoError(p.tb, err)
	p.records = [][]byte{record}
	return p.restart(at), at
}

func TestAdoptTakesTheStateOfAnother(t *testing.T) {
	ahead, at := deliveredOne(t, 3)
	c := newProc(t, 2)
	c.hear(3, packet{kind: kindBehind, position: at})
	again, got := c.adopted(ahead.State())
	require.Equal(t, multicast.UpTo(at), got)
	again.step(multicast.Input{Covered: got})
	require.EqualValues(t, 1, again.t.last())
	require.Zero(t, again.Stats().Pending)
	require.Zero(t, again.missing)
}

// TestAdoptKeepsWhatWasSaid: a process that adopts a state keeps its own promise and the ceiling of its
// clock, if they are ahead of those in the state (I1).
func TestAdoptKeepsWhatWasSaid(t *testing.T) {
	ahead, _ := deliveredOne(t, 3)
	c := newProc(t, 2)
	c.clock = 9000
	c.said(c.hear(3, newEpochOf(third)), 3, kindPromise)
	again, _ := c.adopted(ahead.State())
	out := again.hear(1, newEpochOf(Epoch{Number: 2, Leader: 1}))
	require.Empty(t, said(t, out, 1, kindPromise))
	require.Equal(t, third, again.promised)
	require.Equal(t, epochG, again.Stats().Current)
	require.GreaterOrEqual(t, again.Stats().Clock, multicast.Timestamp(9000))
}

// A process does not adopt a state that lacks an entry that the process needs, or may have acknowledged to a
// quorum.
func TestAdoptRefuses(t *testing.T) {
	ahead, at := deliveredOne(t, 3)
	short := newProc(t, 2)
	short.hear(5, startOf(msg(1, 1), 0))
	short.hear(1, entryOf(epochG, 1, 4, msg(1, 1)))
	later := promisedAndInstalled(t)
	for name, adopt := range map[string]func() (*proc, []byte){
		"a lower epoch": func() (*proc, []byte) { return later, ahead.State() },
		"a shorter T":   func() (*proc, []byte) { return short, newProc(t, 3).State() },
		"fewer deliveries": func() (*proc, []byte) {
			c, _ := deliveredOne(t, 2)
			return c, short.State()
		},
		"less than is needed": func() (*proc, []byte) {
			c := newProc(t, 2)
			c.hear(1, packet{kind: kindBehind, position: multicast.Position{Final: at.Final + 1, ID: at.ID}})
			return c, ahead.State()
		},
		"another group's": func() (*proc, []byte) { return newProc(t, 2), newProc(t, 4).State() },
		"nothing":         func() (*proc, []byte) { return newProc(t, 2), nil },
		"half of it":      func() (*proc, []byte) { return newProc(t, 2), ahead.State()[:20] },
	} {
		t.Run(name, func(t *testing.T) {
			c, state := adopt()
			_, _, err := c.Adopt(state)
			require.Error(t, err)
		})
	}
}

// promisedAndInstalled returns process 3 in the epoch of 2.
func promisedAndInstalled(t *testing.T) *proc {
	c, _ := promised(t)
	c.hear(2, newStateOf(second, 1, 1, 30))
	require.Equal(t, second, c.Stats().Current)
	return c
}

// TestBehindIsSetAndOnlyThen: Behind is set if and only if this process needs messages that a peer may have
// forgotten.
func TestBehindIsSetAndOnlyThen(t *testing.T) {
	c, at := deliveredOne(t, 2)
	next := multicast.Position{Final: at.Final + 1, ID: at.ID}
	require.Zero(t, c.hear(1, packet{kind: kindBehind, position: at}).Behind, "it has delivered that")
	require.Equal(t, multicast.UpTo(next), c.hear(1, packet{kind: kindBehind, position: next}).Behind)
	require.Equal(t, multicast.UpTo(next), c.hear(3, packet{kind: kindBehind, position: at}).Behind)

	c = newProc(t, 2)
	c.hear(5, startOf(msg(1, both...), 0))
	c.hear(1, entryOf(epochG, 1, 4, msg(1, both...)))
	again := c.restart(multicast.UpTo(next))
	require.Equal(t, multicast.UpTo(at), again.hear(1, packet{kind: kindBehind, position: at}).Behind, "how the entry in T was decided may be forgotten")
}

// TestBehindIfOnlyTheStateMachineHasIt: other processes have forgotten a message that is not in T, so that it
// never comes; only the state of a process with the message in T or D helps.
func TestBehindIfOnlyTheStateMachineHasIt(t *testing.T) {
	ahead, at := deliveredOne(t, 3)
	behind := packet{kind: kindBehind, position: at}
	learned := newProc(t, 3).restart(multicast.UpTo(at))
	c := newProc(t, 2).restart(multicast.UpTo(at))
	require.Equal(t, multicast.UpTo(at), c.hear(3, behind).Behind)
	_, _, err := c.Adopt(learned.State())
	require.ErrorContains(t, err, "ask another member")
	again, got := c.adopted(ahead.State())
	require.Equal(t, multicast.UpTo(at), got)
	require.Empty(t, again.hear(3, behind).Behind)
	again.records = [][]byte{again.Checkpoint()}
	require.Empty(t, again.restart(got).hear(3, behind).Behind)
}

// TestCheckpointTellsNoDeliveryBeforeIt: a message with a known final timestamp may have others before it
// without one. The log must know its delivery before it counts for those.
func TestCheckpointTellsNoDeliveryBeforeIt(t *testing.T) {
	c := newProc(t, 2)
	m := msg(1, both...)
	c.hear(5, startOf(m, 0))
	c.hear(1, entryOf(epochG, 1, 4, m), ackOf(epochG, 1, 4))
	c.hear(3, ackOf(epochG, 1, 4))
	c.hear(4, entryOf(epochH, 1, 9, m), ackOf(epochH, 1, 9))
	require.Empty(t, c.hear(6, ackOf(epochH, 1, 9)).Deliveries, "a message may come between 4 and 9")
	require.True(t, c.messages[m.ID].decided)
	c.records = [][]byte{c.Checkpoint()}
	at := multicast.Position{Final: 9, ID: m.ID}
	again := c.restart(multicast.UpTo(at))
	require.Equal(t, multicast.UpTo(at), again.hear(3, packet{kind: kindBehind, position: at}).Behind)
	require.EqualValues(t, 1, again.Stats().Pending)
}

// TestALearnedStateHoldsUpNoEpoch: 3 is away, and its state machine learns the missed messages in another
// way. Its T must become complete nevertheless: it is needed once 2 is away.
func TestALearnedStateHoldsUpNoEpoch(t *testing.T) {
	for name, retain := range map[string]int{"what it lacks is forgotten": 1, "what it lacks is kept": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, func(cfg *Config) { cfg.Retain = retain })
			c.run(5 * tick)
			c.down[3] = true
			for seq := uint64(1); seq <= 5; seq++ {
				c.cast(msg(seq, both...))
				c.run(5 * tick)
			}
			c.run(10 * tick)
			c.applied[3] = slices.Clone(c.applied[2])
			c.restart(3)
			c.run(time.Second)
			require.Equal(t, retain == 1, len(c.behind[3]) > 0)
			if retain == 1 {
				c.proc(3).records = adoptFrom(t, c.proc(3), c.proc(2))
				c.restart(3)
				c.run(time.Second)
				require.Zero(t, c.behind[3])
			}
			require.Equal(t, c.proc(1).t.last(), c.proc(3).t.last())
			c.down[1] = true
			c.cast(msg(6, both...))
			c.run(20 * time.Second)
			c.has([]uint64{1, 2, 3, 4, 5, 6}, 2, 3)
		})
	}
}

// TestTellsBehindOnlyWhoIs: a process that requests T gets BEHIND if it does not cover the forgotten
// messages.
func TestTellsBehindOnlyWhoIs(t *testing.T) {
	c, at := deliveredOne(t, 2, func(cfg *Config) { cfg.Retain = 1 })
	covered := packet{kind: kindCovered, position: at}
	ask := packet{kind: kindFetchLog, epoch: epochG}
	require.Empty(t, said(t, c.hear(3, ask), 3, kindBehind), "nothing is forgotten")
	c.hear(1, covered)
	c.step(multicast.Input{Covered: multicast.UpTo(at)})
	require.Zero(t, c.Stats().Entries)
	require.Empty(t, said(t, c.hear(1, ask), 1, kindBehind), "it covers that")
	require.Equal(t, at, c.said(c.hear(3, ask), 3, kindBehind).position)
	fetch := packet{kind: kindFetch, message: multicast.Message{ID: msg(1).ID}}
	require.Equal(t, at, c.said(c.hear(3, fetch), 3, kindBehind).position)
}

// Beyond Retain, a process forgets messages that a quorum and the process itself have covered.
func TestLeaveBehind(t *testing.T) {
	for name, x := range map[string]struct {
		retain  int
		own     bool
		entries int
	}{
		"within Retain":        {retain: 1 << 20, own: true, entries: 1},
		"beyond":               {retain: 1, own: true, entries: 0},
		"beyond, but not here": {retain: 1, own: false, entries: 1},
	} {
		t.Run(name, func(t *testing.T) {
			c, at := deliveredOne(t, 2, func(cfg *Config) { cfg.Retain = x.retain })
			c.hear(1, packet{kind: kindCovered, position: at})
			if x.own {
				c.step(multicast.Input{Covered: multicast.UpTo(at)})
			} else {
				c.hear(3, packet{kind: kindCovered, position: at})
			}
			require.Equal(t, x.entries, c.Stats().Entries)
			require.EqualValues(t, 1-x.entries, c.Stats().LeftBehind)
		})
	}
}

// TestReturnsWithTheStateOfAnother: 3 is away, memory stays bounded; then 3 gets BEHIND, takes over the state
// of 2 and goes on.
func TestReturnsWithTheStateOfAnother(t *testing.T) {
	const count = 200
	c := newCluster(t, func(cfg *Config) { cfg.Retain, cfg.CheckpointMin = 4096, 1 })
	c.run(5 * tick)
	c.down[3] = true
	for seq := uint64(1); seq <= count; seq++ {
		m := msg(seq, both...)
		m.Payload = make([]byte, 512)
		c.cast(m)
		c.run(tick)
	}
	c.run(10 * tick)
	for _, id := range []multicast.ProcessID{1, 2, 4, 5, 6} {
		require.Less(t, c.proc(id).Stats().Bytes, 16384, "process %d", id)
		require.Zero(t, c.behind[id])
	}
	c.restart(3)
	c.run(time.Second)
	require.NotZero(t, c.behind[3])
	require.Empty(t, c.applied[3])

	c.proc(3).records, c.applied[3] = adoptFrom(t, c.proc(3), c.proc(2)), slices.Clone(c.applied[2])
	c.restart(3)
	c.run(time.Second)
	require.Zero(t, c.behind[3])
	c.down[2] = true
	c.cast(msg(count+1, both...))
	c.run(time.Second)
	require.Len(t, c.applied[3], count+1)
	require.Equal(t, c.applied[1], c.applied[3])
}

// TestAStateInDoubtTeachesNoDoubt: 3 has restarted before its log had the final timestamp of a delivery, and
// h has forgotten it. A process that takes over the state of 3, for example for another order, still knows
// it; so 3 gets a state that helps.
func TestAStateInDoubtTeachesNoDoubt(t *testing.T) {
	for name, retain := range map[string]int{"what is forgotten": 1, "what is kept": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, func(cfg *Config) {
				if cfg.Retain = 1; cfg.Self == 1 || cfg.Self == 2 {
					cfg.Retain = retain
				}
			})
			c.run(5 * tick)
			c.cast(msg(1, both...))
			c.run(10 * tick)
			c.has([]uint64{1}, 1, 2, 3, 4, 5, 6)
			c.down[3] = true
			for _, id := range []multicast.ProcessID{1, 2, 4, 5, 6} {
				c.proc(id).records = [][]byte{c.proc(id).Checkpoint()}
				c.link(id) // all learn the coverage
				c.run(5 * tick)
			}
			for id := multicast.ProcessID(4); id <= 6; id++ {
				require.Nil(t, c.proc(id).messages[msg(1).ID], "process %d", id)
			}
			require.Equal(t, retain == 1, c.proc(2).messages[msg(1).ID] == nil)
			c.restart(3)
			c.run(10 * tick)
			require.NotZero(t, c.behind[3])
			require.EqualValues(t, 1, c.proc(3).Stats().Pending)

			for _, id := range []multicast.ProcessID{2, 1} {
				c.proc(id).records = adoptFrom(t, c.proc(id), c.proc(3))
				c.restart(id)
				c.run(10 * tick)
				require.Zero(t, c.behind[id], "process %d", id)
				require.Zero(t, c.proc(id).Stats().Pending, "process %d", id)
				if retain == 1 {
					require.Equal(t, multicast.UpTo(c.applied[id][0].Position()), c.proc(id).own.forgotten, "who needs it from process %d is told", id)
				}
			}
			c.proc(3).records = adoptFrom(t, c.proc(3), c.proc(2))
			c.restart(3)
			c.cast(msg(2, both...))
			c.run(time.Second)
			require.Zero(t, c.behind[3])
			c.has([]uint64{1, 2}, 1, 2, 3, 4, 5, 6)
		})
	}
}

func adoptFrom(t *testing.T, p, other *proc) [][]byte {
	record, _, err := p.Adopt(other.State())
	require.NoError(t, err)
	return [][]byte{record}
}
