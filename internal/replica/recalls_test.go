package replica

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/posix"
)

// A client has four recalls at once, and one a second. It waits longer if the holders are without their
// directories for long.
func TestRecallBudget(t *testing.T) {
	b := recallBudget{used: map[string]time.Duration{}, away: map[posix.Ino]away{}}
	now := time.Hour
	for range recallBurst {
		require.True(t, b.take("a", now))
	}
	require.False(t, b.take("a", now))
	require.True(t, b.take("b", now), "another client")
	require.Equal(t, now+time.Second, b.wakeAt)
	require.False(t, b.isDue(now))
	now += time.Second
	require.True(t, b.isDue(now))
	require.False(t, b.isDue(now), "once")
	require.True(t, b.take("a", now))
	require.False(t, b.take("a", now))

	now += time.Hour
	require.True(t, b.take("a", now))
	b.takenFor("a", []posix.Ino{5, 6}, now)
	b.heldAgain(7, now+time.Second)
	require.True(t, b.take("a", now), "of another directory")
	b.heldAgain(6, now+time.Second/4)
	require.Equal(t, now+awayShare*time.Second/4, b.used["a"])
	b.heldAgain(5, now+time.Hour)
	require.Equal(t, now+awayMost, b.used["a"])
	paid := b.used["a"]
	b.heldAgain(5, now+time.Hour)
	require.Equal(t, paid, b.used["a"], "paid once")
}
