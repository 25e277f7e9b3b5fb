package tram

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A member stands early if the memory of the leader cannot be reached, in the order of the ranks, also if
// work has waited before. It stands early once, until it has reached the memory of a leader.
func TestEarlyCandidates(t *testing.T) {
	const suspect = 250 * time.Millisecond
	o := newOracle(suspect, 1)
	o.jitter = 0
	begin := time.Second
	require.Equal(t, begin+suspect, o.due(begin, 0))
	died := begin + 200*time.Millisecond
	o.reached(died, false)
	o.reached(died+time.Millisecond, false)
	require.Equal(t, died+suspect/goneFraction, o.due(died, 0))
	require.Equal(t, died+2*suspect/goneFraction, o.due(died, 1), "after the first one, although work has waited")
	require.LessOrEqual(t, o.due(died+time.Second, 0), begin+suspect, "not later than without the failure")

	o.stood(died)
	o.progressed(died) // the member or another one leads
	o.jitter = 0
	require.Equal(t, died+suspect, o.due(died, 0), "the second attempt is not early")
	o.reached(died, true)
	o.reached(died, false)
	require.Equal(t, died+suspect/goneFraction, o.due(died, 0))
}
