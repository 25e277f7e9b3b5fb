package primcast

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// TestHybridClock: timestamps follow the wall clock, and never go back with it (T 4.4.1).
func TestHybridClock(t *testing.T) {
	c := newProc(t, 1, func(cfg *Config) { cfg.HybridClock = true })
	c.instant.Wall = 5_000_000
	require.EqualValues(t, 5_000, c.said(c.hear(5, startOf(msg(1, 1), 0)), 2, kindEntry).ts)
	c.instant.Wall = 1_000_000
	require.EqualValues(t, 5_001, c.said(c.hear(5, startOf(msg(2, 1), 1)), 2, kindEntry).ts)
}

func TestWindowHoldsBack(t *testing.T) {
	c := newProc(t, 5, func(cfg *Config) { cfg.Window = 1 })
	require.Len(t, said(t, c.cast(msg(1, 1), msg(2, 1)), 1, kindStart), 1)
	have := packet{kind: kindHave, message: multicast.Message{ID: msg(1).ID}}
	require.Empty(t, said(t, c.hear(2, have), 1, kindStart), "no quorum has it")
	require.EqualValues(t, 2, c.said(c.hear(3, have), 1, kindStart).message.ID.Seq)
}

func TestPackDelay(t *testing.T) {
	c := newProc(t, 5, func(cfg *Config) { cfg.PackDelay = time.Millisecond })
	out := c.cast(msg(1, 1))
	require.Empty(t, out.Frames)
	require.Equal(t, time.Millisecond, out.Wake)
	c.cast(msg(2, 1))
	require.Len(t, said(t, c.after(time.Millisecond), 1, kindStart), 2)
}

// TestConflicts: a message that commutes with a lower pending message does not wait for it (T 4.4.3).
func TestConflicts(t *testing.T) {
	for _, conflict := range []bool{true, false} {
		c := newProc(t, 2, func(cfg *Config) { cfg.Conflicts = func(_, _ *multicast.Message) bool { return conflict } })
		first, second := msg(1, both...), msg(2, 1)
		c.hear(5, startOf(first, 0), startOf(second, 1))
		c.hear(1, entryOf(epochG, 1, 1, first), entryOf(epochG, 2, 2, second), ackOf(epochG, 2, 2))
		require.Equal(t, conflict, len(c.hear(3, ackOf(epochG, 2, 2)).Deliveries) == 0)
	}
}

// TestAtomicGlobalWaitsForTheOtherFront: h must have delivered the messages that precede m there (order.go).
func TestAtomicGlobalWaitsForTheOtherFront(t *testing.T) {
	m := msg(2, both...)
	m.Order = multicast.AtomicGlobal
	c := newProc(t, 2)
	c.hear(5, startOf(m, 0))
	c.hear(1, entryOf(epochG, 1, 9, m), ackOf(epochG, 1, 9))
	c.hear(3, ackOf(epochG, 1, 9))
	c.hear(6, ackOf(epochH, 1, 9))
	before := multicast.Position{Final: 3, ID: msg(1).ID}
	require.Empty(t, c.hear(4, entryOf(epochH, 1, 5, m), frontOf(epochH, 1, 9, before)).Deliveries)
	require.Equal(t, []uint64{2}, delivered(c.hear(4, frontOf(epochH, 1, 9, multicast.Position{}))))
}

// TestBytesBoundAStep: a step multicasts and proposes about a frame; the rest follows at once.
func TestBytesBoundAStep(t *testing.T) {
	short := func(cfg *Config) { cfg.MaxFrame = 2 * packetSize(msg(1, 1)) }
	messages := []*multicast.Message{msg(1, 1), msg(2, 1), msg(3, 1)}
	c := newProc(t, 5, short)
	out := c.cast(messages...)
	require.Len(t, said(t, out, 1, kindStart), 2)
	require.Equal(t, time.Duration(1), out.Wake)
	require.EqualValues(t, 3, c.said(c.after(1), 1, kindStart).message.ID.Seq)

	p := newProc(t, 1, short)
	out = p.hear(5, startOf(messages[0], 0), startOf(messages[1], 1), startOf(messages[2], 2))
	require.Len(t, said(t, out, 2, kindEntry), 2)
	require.Equal(t, time.Duration(1), out.Wake)
	require.EqualValues(t, 3, p.said(p.after(1), 2, kindEntry).index)
}

// TestWindowBytes: the messages on the way fit into a sender's window in bytes, except for one message.
func TestWindowBytes(t *testing.T) {
	c := newProc(t, 5, func(cfg *Config) { cfg.WindowBytes = packetSize(msg(1, 1)) + 1 })
	require.Len(t, said(t, c.cast(msg(1, 1), msg(2, 1), msg(3, 1)), 1, kindStart), 2)
	have := func(seq uint64) packet { return packet{kind: kindHave, message: multicast.Message{ID: msg(seq).ID}} }
	c.hear(2, have(1))
	require.EqualValues(t, 3, c.said(c.hear(3, have(1)), 1, kindStart).message.ID.Seq)
}

// TestFramesAreCut: packets of a step beyond a frame leave in the next ones, in order, and not at all if the
// link restarts.
func TestFramesAreCut(t *testing.T) {
	c := newProc(t, 5, func(cfg *Config) { cfg.MaxFrame = 2 * len((&havePacket{msg(1).ID}).append(nil)) })
	seqs := func(out *multicast.Output) (got []uint64) {
		for _, p := range said(t, out, 1, kindHave) {
			got = append(got, p.message.ID.Seq)
		}
		return got
	}
	for seq := range uint64(6) {
		c.peer(1).frame = (&havePacket{msg(seq + 1).ID}).append(c.peer(1).frame)
	}
	out := c.step(multicast.Input{})
	require.Equal(t, []uint64{1, 2}, seqs(out))
	require.Equal(t, time.Duration(1), out.Wake)
	require.Equal(t, []uint64{3, 4}, seqs(c.after(1)))
	require.Empty(t, seqs(c.hear(1)), "the link starts again")
}
