package heap

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

type item struct{ at, index int }

func (x *item) Before(other *item) bool { return x.at < other.at }
func (x *item) Moved(to int)            { x.index = to }

// The lowest item comes out after pushes, pops and changes at random, in both directions; each item knows its
// index.
func TestHeap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var h Heap[*item]
	var all []*item
	for range 2000 {
		switch {
		case rng.IntN(3) > 0 || len(all) == 0:
			x := &item{at: rng.IntN(1000)}
			h.Push(x)
			all = append(all, x)
		case rng.IntN(2) == 0:
			x := all[rng.IntN(len(all))]
			x.at += rng.IntN(201) - 100
			h.Fix(x.index)
		default:
			lowest := slices.MinFunc(all, func(a, b *item) int { return a.at - b.at })
			x := h.Pop()
			require.Equal(t, lowest.at, x.at)
			require.Equal(t, -1, x.index)
			all = slices.DeleteFunc(all, func(y *item) bool { return y == x })
		}
		require.Len(t, h, len(all))
		for i, x := range h {
			require.Equal(t, i, x.index)
			require.False(t, x.Before(h[max(0, i-1)/2]), "H1 at %d", i)
		}
	}
	for last := -1000; len(h) > 0; {
		x := h.Pop()
		require.GreaterOrEqual(t, x.at, last)
		last = x.at
	}
	require.Panics(t, func() { h.Pop() })
}

// A popped element is not kept from the garbage collector, and is not compared: its order may have become
// meaningless.
func TestPopForgets(t *testing.T) {
	var h Heap[*fragile]
	for i := range 10 {
		h.Push(&fragile{at: &i})
	}
	for want := range 10 {
		first := h[0]
		at := *first.at
		first.at = nil
		require.Same(t, first, h.Pop())
		require.Equal(t, want, at)
		require.Nil(t, h[:len(h)+1][len(h)])
	}
}

// fragile panics when it is compared without a value.
type fragile struct{ at *int }

func (x *fragile) Before(other *fragile) bool { return *x.at < *other.at }
func (x *fragile) Moved(int)                  {}

// event is a value as the simulators keep it: it is never changed.
type event struct {
	at, seq uint64
	_       func() // as large as those of the simulators
}

func (e event) Before(other event) bool {
	return e.at < other.at || e.at == other.at && e.seq < other.seq
}
func (e event) Moved(int) {}

func TestNoAllocations(t *testing.T) {
	var h Heap[event]
	push := func() {
		for i := range uint64(100) {
			h.Push(event{at: i * 7 % 100, seq: i})
		}
	}
	push()
	require.Zero(t, testing.AllocsPerRun(10, func() {
		for range 100 {
			h.Pop()
		}
		push()
	}))
}

// BenchmarkEvents replaces the first of a thousand events, as a simulator does.
func BenchmarkEvents(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	var h Heap[event]
	for i := range uint64(1000) {
		h.Push(event{at: rng.Uint64N(1000), seq: i})
	}
	b.ReportAllocs()
	for b.Loop() {
		e := h.Pop()
		h.Push(event{at: e.at + rng.Uint64N(1000), seq: e.seq + 1000})
	}
}
