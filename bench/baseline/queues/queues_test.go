package queues

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFIFO(t *testing.T) {
	var f FIFO[int]
	next, last := 1, 0
	for i := range 1000 {
		for range i % 7 {
			last++
			*f.Push() = last
		}
		for range i % 5 {
			if first := f.First(); first != nil {
				require.Equal(t, next, *first)
				next++
				f.Pop()
			} else {
				require.Greater(t, next, last)
			}
		}
		require.Equal(t, last-next+1, f.Len())
	}
	require.LessOrEqual(t, len(f.all), 2*(last-next+1)+1)
}
