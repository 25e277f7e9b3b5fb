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

// TestConflicts: what commutes with a lower pending message does not wait for it (T 4.4.3).
func TestConflicts(t *testing.T) {
	for _, conflict := range []bool{true, false} {
		c := newProc(t, 2, func(cfg *Config) { cfg.Conflicts = func(_, _ *multicast.Message) bool { return conflict } })
		first, second := msg(1, both...), msg(2, 1)
		c.hear(5, startOf(first, 0), startOf(second, 1))
		c.hear(1, entryOf(epochG, 1, 1, first), entryOf(epochG, 2, 2, second), ackOf(epochG, 2, 2))
		require.Equal(t, conflict, len(c.hear(3, ackOf(epochG, 2, 2)).Deliveries) == 0)
	}
}

// TestAtomicGlobalWaitsForTheOtherFront: h must have delivered what precedes m there (order.go).
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
