package ring

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/pkg/multicast"
)

const blocks = 4000

func block(i int) posix.BlockID { return posix.MakeBlockID(uint16(i%3), uint64(i%7), uint64(i)) }

// servers makes n members spread over dcs datacenters.
func servers(n, dcs int) []Member {
	ms := make([]Member, n)
	for i := range ms {
		ms[i] = Member{ID: multicast.ProcessID(i + 1), Datacenter: fmt.Sprintf("dc%d", i%dcs)}
	}
	return ms
}

func mustNew(t testing.TB, ms []Member) *Ring {
	r, err := New(ms)
	require.NoError(t, err)
	return r
}

func TestNewRefuses(t *testing.T) {
	for name, ms := range map[string][]Member{
		"empty": nil,
		"zero":  {{ID: 0, Datacenter: "a"}},
		"twice": {{ID: 1, Datacenter: "a"}, {ID: 2, Datacenter: "a"}, {ID: 1, Datacenter: "b"}},
	} {
		_, err := New(ms)
		require.Error(t, err, name)
	}
}

func TestR1OrderIsForEver(t *testing.T) {
	ms := servers(6, 3)
	r := mustNew(t, ms)
	slices.Reverse(ms)
	reversed := mustNew(t, ms)
	for i := range blocks {
		require.Equal(t, r.Walk(block(i)), reversed.Walk(block(i)))
	}
	// Golden values: placement must not change with a version.
	require.EqualValues(t, uint64(0x374708fff7719dd5), Position(posix.BlockID{}))
	require.Equal(t, []multicast.ProcessID{3, 2, 1, 6, 5, 4}, r.Walk(posix.MakeBlockID(1, 2, 3)))
}

func TestR2WalkNamesEachMemberOnce(t *testing.T) {
	for _, n := range []int{1, 2, 5, 12} {
		for _, dcs := range []int{1, 2, 3} {
			r := mustNew(t, servers(n, dcs))
			for i := range 200 {
				walk := r.Walk(block(i))
				for k := range n + 2 {
					require.Equal(t, walk[:min(k, n)], r.Owners(block(i), k))
				}
				slices.Sort(walk)
				require.Len(t, slices.Compact(walk), n)
			}
		}
	}
}

func TestR3DistinctDatacentersFirst(t *testing.T) {
	ms := servers(9, 3)
	ms = append(ms, Member{ID: 100, Datacenter: "dc0"}, Member{ID: 101, Datacenter: "dc0"})
	r := mustNew(t, ms)
	dc := map[multicast.ProcessID]string{}
	for _, m := range ms {
		dc[m.ID] = m.Datacenter
	}
	for i := range blocks {
		walk := r.Walk(block(i))
		for round := range 3 {
			names := map[string]bool{}
			for _, p := range walk[3*round : 3*round+3] {
				names[dc[p]] = true
			}
			require.Len(t, names, 3, "round %d of %v", round, walk)
		}
	}
}

func TestR4JoiningMovesItsShareOnly(t *testing.T) {
	for _, dcs := range []int{1, 3} {
		for _, n := range []int{6, 12} {
			before := mustNew(t, servers(n, dcs))
			after := mustNew(t, servers(n+1, dcs))
			joined := multicast.ProcessID(n + 1)
			moved := 0
			for i := range blocks {
				was, is := before.Walk(block(i)), after.Walk(block(i))
				if was[0] != is[0] {
					moved++
				}
				if dcs == 1 { // without the newcomer the order is the same
					at := slices.Index(is, joined)
					require.Equal(t, was, slices.Delete(is, at, at+1))
				}
			}
			share := float64(moved) / blocks
			require.InDelta(t, 1/float64(n+1), share, 0.5/float64(n+1), "%d servers in %d datacenters", n, dcs)
		}
	}
}

// A server that joins replaces at most one of the owners of a block. If it becomes no owner of the block, the
// owners stay the same. It receives its share of the copies.
func TestR4OneGivesWay(t *testing.T) {
	for _, dcs := range []int{1, 2, 3} {
		for n := 1; n <= 9; n++ {
			before, after := mustNew(t, servers(n, dcs)), mustNew(t, servers(n+1, dcs))
			joined := multicast.ProcessID(n + 1)
			for _, copies := range []int{1, 2, 3} {
				received := 0
				for i := range blocks {
					was, is := before.Owners(block(i), copies), after.Owners(block(i), copies)
					if !slices.Contains(is, joined) {
						require.Equal(t, was, is)
						continue
					}
					received++
					stayed := 0
					for _, p := range is {
						if slices.Contains(was, p) {
							stayed++
						}
					}
					require.Equal(t, len(is)-1, stayed, "%v becomes %v", was, is)
				}
				if n >= 3 && (n+1)%dcs == 0 {
					share := float64(min(copies, n+1)) / float64(n+1)
					require.InEpsilon(t, share, float64(received)/blocks, 0.4, "%d copies, %d servers, %d datacenters", copies, n+1, dcs)
				}
			}
		}
	}
}

// TestR5SkipsWhoIsDown compares with the definition.
func TestR5SkipsWhoIsDown(t *testing.T) {
	for _, n := range []int{1, 2, 5, 12} {
		r := mustNew(t, servers(n, 3))
		for i := range 300 {
			var down []multicast.ProcessID
			for p := 1; p <= n; p++ {
				if (i*2654435761>>p)&1 == 1 && i%4 != 0 {
					down = append(down, multicast.ProcessID(p))
				}
			}
			up := slices.DeleteFunc(r.Walk(block(i)), func(p multicast.ProcessID) bool { return slices.Contains(down, p) })
			for k := 1; k <= n+1; k++ {
				require.Equal(t, up[:min(k, len(up))], r.OwnersAmong(block(i), k, down))
			}
		}
	}
}

func TestOwnersNeedNoMemory(t *testing.T) {
	r := mustNew(t, servers(12, 3))
	down := []multicast.ProcessID{}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		r.Owners(block(7), 3)
		r.OwnersAmong(block(8), 3, down)
	}))
}

func TestSharesAreEven(t *testing.T) {
	const n = 12
	r := mustNew(t, servers(n, 3))
	count := map[multicast.ProcessID]int{}
	for i := range blocks {
		for _, p := range r.Owners(block(i), 3) {
			count[p]++
		}
	}
	for p, c := range count {
		require.InEpsilon(t, 3.0*blocks/n, c, 0.35, "server %d", p)
	}
}

func BenchmarkOwners(b *testing.B) {
	r := mustNew(b, servers(12, 3))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r.Owners(block(i), 3)
	}
}

// BenchmarkWalk measures Owners without the places that are computed once.
func BenchmarkWalk(b *testing.B) {
	r := mustNew(b, servers(12, 3))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r.order(r.start(block(i)), 3)
	}
}

func BenchmarkNew(b *testing.B) {
	ms := servers(100, 3)
	for b.Loop() {
		mustNew(b, ms)
	}
}
