package replica

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A client has four recalls at once, and one a second.
func TestRecallBudget(t *testing.T) {
	b := recallBudget{used: map[string]time.Duration{}}
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
}
