package route

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The counters of a session's blocks grow, so that there is a horizon below them. The counters of one write
// do not reveal those of the next.
func TestBlockCountersGrowAndCannotBeForeseen(t *testing.T) {
	s, last, guessed := newSession(), uint64(0), 0
	require.EqualValues(t, 1, s.horizon())
	for range 200 {
		const count = 64
		first := s.numberBlocks(count)
		require.Greater(t, first, last)
		require.LessOrEqual(t, s.horizon(), first)
		s.decided(first)
		require.Equal(t, first+count, s.horizon())
		if first == last+1 {
			guessed++
		}
		last = first + count - 1
	}
	require.Less(t, guessed, 2)
	a, b := s.numberBlocks(1), s.numberBlocks(1)
	s.decided(b)
	require.Equal(t, a, s.horizon(), "the oldest that is not decided")
}
