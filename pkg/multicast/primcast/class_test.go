package primcast

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

var (
	ownClass  = multicast.ClassOf([]multicast.GroupID{1})
	bothClass = multicast.ClassOf(both)
)

func byClasses(cfg *Config) { cfg.Classes = true }

// oneStuck returns process 2 of g in the middle of two messages: the first, to both groups, waits for h; the
// second, to g, is delivered.
func oneStuck(t *testing.T, change ...func(*Config)) (*proc, *multicast.Output) {
	c := newProc(t, 2, append(change, byClasses)...)
	first, second := msg(1, both...), msg(2, 1)
	c.hear(5, startOf(first, 0), startOf(second, 1))
	c.hear(1, entryOf(epochG, 1, 4, first), entryOf(epochG, 2, 5, second), ackOf(epochG, 2, 5))
	return c, c.hear(3, ackOf(epochG, 2, 5))
}

// TestClassesAreIndependent: line 30 is about the messages of a class, and Output.Safe about all.
func TestClassesAreIndependent(t *testing.T) {
	c, out := oneStuck(t)
	require.Equal(t, []uint64{2}, delivered(out))
	require.EqualValues(t, 3, out.Safe)
	require.EqualValues(t, 3, c.SafeOf(bothClass))
	require.EqualValues(t, 5, c.SafeOf(ownClass))
	require.EqualValues(t, 5, c.SafeOf(multicast.ClassOf([]multicast.GroupID{1, 9})), "nothing of it is here yet")
	c.hear(4, entryOf(epochH, 1, 3, msg(1, both...)), ackOf(epochH, 1, 5))
	require.Equal(t, []uint64{1}, delivered(c.hear(6, ackOf(epochH, 1, 5))), "below what was delivered, of another class")
	require.Equal(t, multicast.Progress{
		{Class: ownClass, Position: multicast.Position{Final: 5, ID: msg(2).ID}},
		{Class: bothClass, Position: multicast.Position{Final: 4, ID: msg(1).ID}},
	}, c.delivered)
}

// TestUnknownClassBlocksAll: a proposal with missing content may be of any class.
func TestUnknownClassBlocksAll(t *testing.T) {
	c := newProc(t, 2, byClasses)
	known, unknown := msg(2, 1), msg(1, 1)
	c.hear(5, startOf(known, 0))
	c.hear(4, entryOf(epochH, 1, 3, msg(3, both...)))
	c.hear(1, entryOf(epochG, 1, 4, known), entryOf(epochG, 2, 5, unknown), ackOf(epochG, 2, 5))
	require.Equal(t, []uint64{2}, delivered(c.hear(3, ackOf(epochG, 2, 5))), "it comes before what is not known")
	require.EqualValues(t, 4, c.SafeOf(bothClass))
	require.Len(t, c.unknown, 1)

	late := newProc(t, 2, byClasses)
	late.hear(5, startOf(known, 0))
	require.Empty(t, late.hear(1, entryOf(epochG, 1, 4, unknown), entryOf(epochG, 2, 5, known), ackOf(epochG, 2, 5)).Deliveries)
	require.Empty(t, late.hear(3, ackOf(epochG, 2, 5)).Deliveries)
	out := late.hear(5, startOf(unknown, 0))
	require.Equal(t, []uint64{1, 2}, delivered(out))
	require.Empty(t, late.unknown)
}

// TestStuckMessagePinsNothing: delivered messages of another class are covered, the coverage is reported, and
// they are forgotten with their places in T.
func TestStuckMessagePinsNothing(t *testing.T) {
	c, out := oneStuck(t)
	at := multicast.ClassPosition{Class: ownClass, Position: out.Deliveries[0].Position()}
	out = c.step(multicast.Input{Covered: multicast.Progress{at}, Frames: []multicast.Frame{{Peer: 3, Data: encode(packet{kind: kindPing})}}})
	told := c.said(out, 3, kindCovered)
	require.Equal(t, multicast.ClassPosition{Class: told.class, Position: told.position}, at)
	for _, q := range []multicast.ProcessID{1, 3} {
		c.hear(q, packet{kind: kindCovered, class: at.Class, position: at.Position})
	}
	require.Equal(t, 1, c.Stats().Entries)
	require.Nil(t, c.messages[msg(2).ID])
	require.EqualValues(t, 2, c.t.last())

	again := c.restart(multicast.Progress{at})
	again.step(multicast.Input{})
	require.EqualValues(t, 2, again.own.decided)
	require.Equal(t, 1, again.Stats().Pending)
	checkpoint := c.restart(multicast.Progress{at})
	checkpoint.records = [][]byte{c.Checkpoint()}
	again = checkpoint.restart(multicast.Progress{at})
	again.step(multicast.Input{})
	require.EqualValues(t, 2, again.t.last())
	require.Equal(t, 1, again.Stats().Pending)
	require.True(t, again.done.has(msg(2).ID))
}

// TestCoverageOfAClassThatDoesNotConcern: coverage of a class that does not concern both processes is
// dropped.
func TestCoverageOfAClassThatDoesNotConcern(t *testing.T) {
	c := newProc(t, 2, byClasses)
	at := multicast.Position{Final: 9, ID: msg(1).ID}
	for i, class := range []multicast.Class{"", multicast.ClassOf([]multicast.GroupID{2}), multicast.ClassOf([]multicast.GroupID{1, 9}), ownClass} {
		out := c.hear(4, packet{kind: kindCovered, class: class, position: at}, packet{kind: kindBehind, class: class, position: at})
		require.Empty(t, out.Behind)
		require.EqualValues(t, 2*(i+1), c.Stats().BadPackets)
	}
	require.Empty(t, c.peer(4).covered)
	require.Equal(t, multicast.Progress{{Class: bothClass, Position: at}}, c.hear(4, packet{kind: kindBehind, class: bothClass, position: at}).Behind)
	require.Empty(t, c.step(multicast.Input{Covered: multicast.UpTo(at)}).Records)
	require.Empty(t, c.self.covered, "there is no such class")
}

// TestAdoptNeedsEachClass: a state that is ahead in one class and behind in another is refused.
func TestAdoptNeedsEachClass(t *testing.T) {
	ahead, _ := oneStuck(t)
	c, out := oneStuck(t)
	next := out.Deliveries[0].Position()
	c.hear(3, packet{kind: kindBehind, class: bothClass, position: next})
	_, _, err := c.Adopt(ahead.State())
	require.ErrorContains(t, err, "ask another member")

	c, _ = oneStuck(t)
	again, at := c.adopted(ahead.State())
	require.Equal(t, multicast.Progress{{Class: ownClass, Position: next}}, at)
	again.step(multicast.Input{Covered: at})
	require.Equal(t, 1, again.Stats().Pending)
}

// TestPendingIsNotBehind: after a restart the proposal of a pending message is below the deliveries of its
// class. It is delivered later nevertheless, and processes that have forgotten the deliveries do not lack it.
func TestPendingIsNotBehind(t *testing.T) {
	c := newProc(t, 2, byClasses)
	first, second := msg(1, both...), msg(2, both...)
	c.hear(5, startOf(first, 0), startOf(second, 1))
	c.hear(1, entryOf(epochG, 1, 4, first), entryOf(epochG, 2, 5, second), ackOf(epochG, 2, 8))
	c.hear(3, ackOf(epochG, 2, 8))
	c.hear(4, entryOf(epochH, 1, 8, first), ackOf(epochH, 1, 8))
	out := c.hear(6, ackOf(epochH, 1, 8))
	require.Empty(t, out.Deliveries, "the second may come first")
	c.hear(4, entryOf(epochH, 2, 9, second), ackOf(epochH, 2, 9))
	require.Equal(t, []uint64{1}, delivered(c.hear(6, ackOf(epochH, 2, 8))))
	at := c.delivered
	c.records = [][]byte{c.Checkpoint()}
	again := c.restart(at)
	again.step(multicast.Input{Covered: at})
	require.EqualValues(t, 1, again.Stats().Pending)
	require.Empty(t, again.hear(4, packet{kind: kindBehind, class: bothClass, position: at.Of(bothClass)}).Behind)
	require.Equal(t, at, again.self.covered)
}

// TestWindowsOfClasses: messages that wait in one class do not delay another, and waiting numbers do not
// count as numbers that do not exist.
func TestWindowsOfClasses(t *testing.T) {
	c := newProc(t, 5, byClasses, func(cfg *Config) { cfg.Window = 1 })
	out := c.cast(msg(1, both...), msg(2, both...), msg(3, 1), msg(4, 1))
	starts := said(t, out, 1, kindStart)
	require.Len(t, starts, 2)
	require.Equal(t, []uint64{1, 0, 3, 2}, []uint64{starts[0].message.ID.Seq, starts[0].prev, starts[1].message.ID.Seq, starts[1].prev})
	require.EqualValues(t, 0, c.stats.Repeated)
	c.hear(2, packet{kind: kindHave, message: multicast.Message{ID: msg(3).ID}})
	next := c.said(c.hear(3, packet{kind: kindHave, message: multicast.Message{ID: msg(3).ID}}), 1, kindStart)
	require.Equal(t, []uint64{4, 3}, []uint64{next.message.ID.Seq, next.prev})
}

// TestClassesRefuse: messages with an unsupported order are refused.
func TestClassesRefuse(t *testing.T) {
	c := newProc(t, 1, byClasses)
	ordered := msg(1, 1)
	ordered.Order = multicast.AtomicGlobal
	c.hear(5, startOf(ordered, 0))
	require.EqualValues(t, 1, c.Stats().BadPackets)
	ordered.ID.Sender = 1
	c.cast(ordered)
	require.EqualValues(t, 1, c.Stats().Refused)
	groups := []multicast.Group{groupG, groupH}
	for name, cfg := range map[string]Config{
		"Conflicts":  {Conflicts: func(_, _ *multicast.Message) bool { return true }},
		"ClockError": {HybridClock: true, ClockError: 1},
		"Delivered":  {Delivered: multicast.UpTo(multicast.Position{Final: 1})},
	} {
		cfg.Self, cfg.Groups, cfg.Classes = 1, groups, true
		_, err := New(cfg)
		require.ErrorContains(t, err, name)
	}
	plain := newProc(t, 1)
	plain.own.forgotten = multicast.UpTo(multicast.Position{Final: 1})
	require.ErrorContains(t, newProc(t, 1, byClasses).Replay(plain.appendCheckpoint(nil)), "Config.Classes")
}

// TestSequenceIsSparse: one entry that stays does not keep the places of later entries.
func TestSequenceIsSparse(t *testing.T) {
	var s sequence
	for i := range uint64(1000) {
		m := &message{index: i + 1, ts: multicast.Timestamp(i + 1)}
		s.append(m)
		if i >= 10 && i != 500 {
			s.forget(i - 5)
		}
	}
	require.Less(t, len(s.slots), 40)
	require.EqualValues(t, 3, s.at(3).index)
	require.EqualValues(t, 495, s.at(495).index)
	require.Nil(t, s.at(500))
	var rest []uint64
	for m := range s.after(400) {
		rest = append(rest, m.index)
	}
	require.Equal(t, []uint64{495, 995, 996, 997, 998, 999, 1000}, rest)
	require.EqualValues(t, 994, s.lastGone())
	require.Len(t, s.cut(996), 4)
	require.EqualValues(t, 996, s.last())
	require.EqualValues(t, 996, s.lastTS)
	s.pad(2000)
	require.EqualValues(t, 2000, s.lastGone())
	require.Empty(t, s.cut(2000))
}
