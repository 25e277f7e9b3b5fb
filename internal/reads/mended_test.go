package reads

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
)

// A query behind a barrier is one query.
func TestLenCountsEachQueryOnce(t *testing.T) {
	w := newWorld(t)
	w.add(1, ask.Seen{}, true)
	w.add(2, ask.Seen{}, true)
	require.Equal(t, 2, w.Len())
	require.True(t, w.raise())
	require.Equal(t, 2, w.Len())
}

// A fresh query that came while a barrier was under way needs a step when that has passed: nothing else may ask for one.
func TestAWakeIsAskedForBehindABarrier(t *testing.T) {
	w := newWorld(t)
	w.add(1, ask.Seen{}, true)
	require.True(t, w.raise())
	w.now++
	w.add(2, ask.Seen{}, true)
	require.False(t, w.raise())
	w.pass(1)
	require.Equal(t, []uint64{1}, w.ready())
	require.NotZero(t, w.Wake(), "the second query needs a barrier")
}

// The same for a count that is to be checked.
func TestADoubtIsNotForgottenBehindABarrier(t *testing.T) {
	w := newWorld(t)
	w.add(1, ask.Seen{}, true)
	require.True(t, w.raise())
	w.add(2, ask.Seen{Count: 99}, false)
	require.False(t, w.raise())
	w.pass(1)
	require.NotZero(t, w.Wake())
	require.LessOrEqual(t, w.Wake(), w.now+ask.DoubtAfter)
}
