package ask

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/varint"
)

// history is the order of one partition: entry i has place i+1. An entry is a vote, the outcome of the vote
// at an earlier place, or neither.
type history struct {
	concludes []uint64          // place of the vote; 0: none
	ends      map[uint64]uint64 // places of votes and of their outcomes
	votes     []uint64
}

// newHistory makes a history with about so many votes undecided at a time.
func newHistory(r *rand.Rand, length, width int) *history {
	h := &history{ends: map[uint64]uint64{}}
	var undecided []uint64
	for len(h.concludes) < length {
		place := uint64(len(h.concludes) + 1)
		switch n := r.IntN(2 * width); {
		case n < len(undecided):
			i := r.IntN(len(undecided))
			h.concludes = append(h.concludes, undecided[i])
			h.ends[undecided[i]] = place
			undecided = slices.Delete(undecided, i, i+1)
		case n < 2*width-width/4:
			h.concludes = append(h.concludes, 0)
			h.votes = append(h.votes, place)
			undecided = append(undecided, place)
		default:
			h.concludes = append(h.concludes, 0)
		}
	}
	return h
}

// isDecided reports whether the outcome of a vote is ordered up to a place.
func (h *history) isDecided(vote, place uint64) bool {
	return h.ends[vote] != 0 && h.ends[vote] <= place
}

// statement returns the partition's entry for itself at a place. The commits of some commands, by vote, are
// marked in it.
func (h *history) statement(place uint64, marked map[uint64]bool) Seen {
	var undecided, open []uint64
	for _, vote := range h.votes {
		if vote <= place && !h.isDecided(vote, place) {
			undecided = append(undecided, vote)
			if marked[vote] {
				open = append(open, vote)
			}
		}
	}
	return State(place, undecided, open)
}

// observer is a Seen with the plain sets that it represents.
type observer struct {
	seen      Seen
	count     uint64
	known     uint64          // place of the newest statement
	committed map[uint64]bool // votes of commands that were seen committed
}

func newObserver() *observer { return &observer{committed: map[uint64]bool{}} }

// isOpen is the meaning of an open place: the commit was seen, and no statement shows it decided.
func (o *observer) isOpen(h *history, vote uint64) bool {
	return o.committed[vote] && !h.isDecided(vote, o.known)
}

func (o *observer) observe(vote uint64) {
	o.seen = o.seen.Observe(vote)
	o.count, o.committed[vote] = max(o.count, vote), true
}

// visit merges the partition's own statement. The observer also learns the commits that are marked there.
func (o *observer) visit(h *history, place uint64, marked map[uint64]bool) {
	o.seen = o.seen.Merge(h.statement(place, marked))
	o.count, o.known = max(o.count, place), max(o.known, place)
	for vote := range marked {
		if vote <= place && !h.isDecided(vote, place) {
			o.committed[vote] = true
		}
	}
}

func (o *observer) merge(other *observer) {
	o.seen = o.seen.Merge(other.seen)
	o.count, o.known = max(o.count, other.count), max(o.known, other.known)
	for vote := range other.committed {
		o.committed[vote] = true
	}
}

// check compares a Seen with its meaning. If it is exact, no place is open without need.
func (o *observer) check(t *testing.T, h *history, exact bool) {
	t.Helper()
	require.Equal(t, o.count, o.seen.Count)
	require.Equal(t, o.known, o.seen.Known)
	require.LessOrEqual(t, len(o.seen.Open), MaxPlaces)
	require.LessOrEqual(t, len(o.seen.Undecided), MaxPlaces)
	require.True(t, slices.IsSorted(o.seen.Open))
	full := len(o.seen.Undecided) == MaxPlaces
	for _, vote := range h.votes {
		is, want := o.seen.IsOpen(vote), o.isOpen(h, vote)
		if want {
			require.True(t, is, "place %d is lost", vote)
			require.LessOrEqual(t, vote, o.seen.LastOpen())
		}
		if exact {
			require.Equal(t, want, is, "place %d", vote)
		}
		if h.isDecided(vote, o.known) && (!full || vote < o.seen.Undecided[MaxPlaces-1]) {
			require.False(t, is, "place %d is known to be decided", vote)
		}
	}
	r := varint.NewReader(o.seen.Append(nil))
	back := ReadSeen(r)
	require.NoError(t, r.Done())
	requireSame(t, h, o.seen, back)
}

// requireSame compares the meanings of two Seen.
func requireSame(t *testing.T, h *history, a, b Seen) {
	t.Helper()
	require.Equal(t, a.Count, b.Count)
	require.Equal(t, a.Known, b.Known)
	require.Equal(t, a.LastOpen() > 0, b.LastOpen() > 0)
	for place := uint64(1); place <= uint64(len(h.concludes)); place++ {
		require.Equal(t, a.IsOpen(place), b.IsOpen(place), "place %d of %+v and %+v", place, a, b)
	}
}

func (o *observer) clone() *observer {
	c := newObserver()
	c.merge(o)
	return c
}

// Several observers see commits, visit the partition, and tell each other, in any order.
func TestSeenIsThePlainSets(t *testing.T) {
	for seed := range uint64(24) {
		width, exact := 6, true
		if seed%3 == 0 {
			width, exact = 120, false // more than the lists hold
		}
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			h := newHistory(r, 40+2*width, width)
			all := []*observer{newObserver(), newObserver(), newObserver(), newObserver()}
			for range 40 {
				o := all[r.IntN(len(all))]
				switch r.IntN(4) {
				case 0, 1:
					o.observe(h.votes[r.IntN(len(h.votes))])
				case 2:
					marked := map[uint64]bool{}
					if other := all[r.IntN(len(all))]; r.IntN(2) == 0 {
						marked = other.committed
					}
					o.visit(h, uint64(1+r.IntN(len(h.concludes))), marked)
				case 3:
					o.merge(all[r.IntN(len(all))])
				}
				o.check(t, h, exact)
				checkMerges(t, h, all, exact)
			}
		})
	}
}

// checkMerges checks the laws of Merge for some observers, and Covers.
func checkMerges(t *testing.T, h *history, all []*observer, exact bool) {
	t.Helper()
	a, b, c := all[0], all[1], all[2]
	before := slices.Clone(a.seen.Open)
	requireSame(t, h, a.seen, a.seen.Merge(a.seen))
	requireSame(t, h, a.seen, a.seen.Merge(Seen{}))
	ab := a.seen.Merge(b.seen)
	requireSame(t, h, ab, b.seen.Merge(a.seen))
	requireSame(t, h, ab, ab.Merge(b.seen))
	if exact {
		requireSame(t, h, ab.Merge(c.seen), a.seen.Merge(b.seen.Merge(c.seen)))
		require.True(t, ab.Covers(a.seen))
		require.True(t, ab.Covers(b.seen))
	}
	require.ElementsMatch(t, before, a.seen.Open, "merging changes no side")
	both := a.clone()
	both.merge(b)
	both.check(t, h, exact)
	if a.seen.Covers(b.seen) {
		require.GreaterOrEqual(t, a.seen.Count, b.seen.Count)
		for _, vote := range h.votes {
			if b.isOpen(h, vote) {
				require.True(t, a.seen.IsOpen(vote) || h.isDecided(vote, a.known), "place %d", vote)
			}
		}
	}
}
