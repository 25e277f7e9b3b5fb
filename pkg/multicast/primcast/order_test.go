package primcast

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// A delivery waits until the clock is past the timestamp by more than twice the clock error. The process
// requests a step at that time.
func TestClockErrorWaitsUntilTheTimestampIsPast(t *testing.T) {
	const e = 3 * time.Millisecond
	c := newProc(t, 2, func(cfg *Config) { cfg.HybridClock, cfg.ClockError = true, e })
	m := msg(1, 1)
	m.Order = multicast.AtomicGlobal
	final := 10 * time.Millisecond
	ts := multicast.Timestamp(final / time.Microsecond)
	c.instant = multicast.Instant{Mono: time.Second, Wall: int64(final)}
	c.hear(5, startOf(m, 0))
	c.hear(1, entryOf(epochG, 1, ts, m), ackOf(epochG, 1, ts))
	out := c.hear(3, ackOf(epochG, 1, ts))
	require.Empty(t, out.Deliveries)
	require.Equal(t, time.Second+2*e+1, out.Wake)

	c.instant.Wall += int64(2 * e)
	out = c.after(2 * e)
	require.Empty(t, out.Deliveries, "not more than 2e past")
	c.instant.Wall++
	require.Equal(t, []uint64{1}, delivered(c.after(1)))
}

// TestClockErrorHoldsBackWhatFollows: positions ascend, so messages without the request wait behind messages
// with it.
func TestClockErrorHoldsBackWhatFollows(t *testing.T) {
	c := newProc(t, 2, func(cfg *Config) { cfg.HybridClock, cfg.ClockError = true, time.Millisecond })
	first, second := msg(1, 1), msg(2, 1)
	first.Order = multicast.AtomicGlobal
	c.hear(5, startOf(first, 0), startOf(second, 1))
	c.hear(1, entryOf(epochG, 1, 10, first), entryOf(epochG, 2, 11, second), ackOf(epochG, 2, 11))
	require.Empty(t, c.hear(3, ackOf(epochG, 2, 11)).Deliveries)
	c.instant.Wall = int64(time.Second)
	require.Equal(t, []uint64{1, 2}, delivered(c.after(time.Second)))
}

// TestClockErrorNeedsNoFronts: the process does not wait for other groups' clocks and fronts, and does not
// send its own.
func TestClockErrorNeedsNoFronts(t *testing.T) {
	c := newProc(t, 2, func(cfg *Config) { cfg.HybridClock, cfg.ClockError = true, time.Millisecond })
	m := msg(1, both...)
	m.Order = multicast.AtomicGlobal
	c.instant.Wall = int64(time.Second)
	c.hear(5, startOf(m, 0))
	c.hear(1, entryOf(epochG, 1, 9, m), ackOf(epochG, 1, 9))
	c.hear(3, ackOf(epochG, 1, 9))
	c.hear(4, entryOf(epochH, 1, 5, m), ackOf(epochH, 1, 5))
	require.Equal(t, []uint64{1}, delivered(c.hear(6, ackOf(epochH, 1, 5))))
}

// TestFrontOfANewPrimaryIsHeardAnew: (b) is about the latest epoch of h. The front of 4 is not valid for 5.
func TestFrontOfANewPrimaryIsHeardAnew(t *testing.T) {
	next := Epoch{Number: 2, Leader: 5}
	m := msg(1, both...)
	m.Order = multicast.AtomicGlobal
	c := newProc(t, 2)
	c.hear(5, startOf(m, 0))
	c.hear(1, entryOf(epochG, 1, 9, m), ackOf(epochG, 1, 9))
	c.hear(3, ackOf(epochG, 1, 9))
	c.hear(4, entryOf(epochH, 1, 5, m), frontOf(epochH, 1, 9, multicast.Position{}))
	c.hear(5, entryOf(next, 1, 5, m), ackOf(next, 1, 9))
	require.Empty(t, c.hear(6, ackOf(next, 1, 9)).Deliveries)
	require.Equal(t, []uint64{1}, delivered(c.hear(5, frontOf(next, 1, 9, multicast.Position{}))))
}
