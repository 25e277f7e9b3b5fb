package queues

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

type item struct{ at, slot int }

func (x *item) Before(other *item) bool { return x.at < other.at }
func (x *item) Slot() *int              { return &x.slot }

// TestHeap: with pushes, pops and raises at random, the lowest comes out.
func TestHeap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var h Heap[*item]
	var all []*item
	for range 1000 {
		switch {
		case rng.IntN(3) > 0 || len(all) == 0:
			x := &item{at: rng.IntN(1000)}
			h.Push(x)
			all = append(all, x)
		case rng.IntN(2) == 0:
			x := all[rng.IntN(len(all))]
			x.at += rng.IntN(100)
			h.Raised(x)
		default:
			lowest := slices.MinFunc(all, func(a, b *item) int { return a.at - b.at })
			x := h.Pop()
			require.Equal(t, lowest.at, x.at)
			all = slices.DeleteFunc(all, func(y *item) bool { return y == x })
		}
		for i, x := range h {
			require.Equal(t, i, x.slot)
		}
	}
	require.Len(t, h, len(all))
}

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
