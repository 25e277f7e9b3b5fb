package heap

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Events come by their times, and those of equal times in the order in which they were added.
func TestTimeline(t *testing.T) {
	var line Timeline
	_, ok := line.Next()
	require.False(t, ok)
	var got []int
	for i := range 40 {
		line.Add(time.Duration(i%3), func() { got = append(got, i%3*100+i) })
	}
	last := time.Duration(0)
	for {
		at, ok := line.Next()
		if !ok {
			break
		}
		require.GreaterOrEqual(t, at, last)
		last = at
		e := line.Pop()
		require.Equal(t, at, e.At)
		e.Do()
	}
	require.Len(t, got, 40)
	require.IsIncreasing(t, got)
}
