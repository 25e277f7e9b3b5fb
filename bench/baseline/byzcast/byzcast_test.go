package byzcast_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/bench/baseline/baselinetest"
	"github.com/globalfs/globalfs/bench/baseline/byzcast"
	"github.com/globalfs/globalfs/internal/sim"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/check"
)

// protocol has no bounds of steps for everybody: see TestLatency.
var protocol = &baselinetest.Protocol{
	New: in(nil), Vary: vary,
	Stats: func(core multicast.Core) baselinetest.Stats {
		s := core.(*byzcast.Core).Stats()
		return baselinetest.Stats{Malformed: s.Malformed, Refused: s.Refused, Repeated: s.Repeated, Kept: s.Waiting, Pending: s.Waiting}
	},
	Sizes:        []int{1, 2, 3, 5},
	NotGenuine:   true,
	NoTimestamps: true,
	Loop:         baselinetest.Limits{Round: time.Millisecond, Allocations: 40, Kept: 100},
}

// in makes processes in a tree; nil: a binary one.
func in(tree func(groups int) []int) baselinetest.New {
	return func(self multicast.ProcessID, groups []multicast.Group) (multicast.Core, error) {
		cfg := byzcast.Config{Self: self, Groups: groups}
		if tree != nil {
			cfg.Parents = tree(len(groups))
		}
		return byzcast.New(cfg)
	}
}

// vary draws a tree: each group's parent is any group before it.
func vary(rng *rand.Rand, _ []multicast.ProcessID) baselinetest.New {
	draws := make([]int, 64)
	for i := range draws {
		draws[i] = rng.IntN(1 << 20)
	}
	return in(func(groups int) []int {
		parents := make([]int, groups)
		for i := 1; i < groups; i++ {
			parents[i] = draws[i%len(draws)] % i
		}
		return parents
	})
}

func TestProtocol(t *testing.T)      { baselinetest.Test(t, protocol) }
func TestOnPaxos(t *testing.T)       { baselinetest.TestOnPaxos(t, protocol, "byzcast") }
func FuzzStep(f *testing.F)          { baselinetest.FuzzLoop(f, protocol) }
func BenchmarkProtocol(b *testing.B) { baselinetest.Benchmark(b, protocol) }

// chain makes each group the child of the one before it.
func chain(groups int) []int {
	parents := make([]int, groups)
	for i := range parents {
		parents[i] = max(0, i-1)
	}
	return parents
}

// TestLatency: a destination at depth d below the lca delivers after 3d+3 steps, or a step earlier at
// followers of groups of three. Messages at the same time do not change that.
func TestLatency(t *testing.T) {
	p := *protocol
	p.New = in(chain)
	cfg := sim.Default()
	for g := range 3 {
		first := multicast.ProcessID(3*g + 1)
		cfg.Groups = append(cfg.Groups, multicast.Group{ID: multicast.GroupID(g), Members: []multicast.ProcessID{first, first + 1, first + 2}})
	}
	cfg.Groups = cfg.Groups[len(cfg.Groups)-3:] // without those of the default
	cfg.LatencyMin, cfg.LatencyMax = 10*time.Millisecond, 10*time.Millisecond
	w := baselinetest.Everybody(&cfg, 200, time.Millisecond)
	w.Dest, w.MostDest = []multicast.GroupID{0, 2}, 2
	h := baselinetest.Run(t, &p, cfg, w)
	slow := func(steps int) []check.Violation {
		return check.Latency(h, check.Bounds{Step: cfg.LatencyMax, CollisionFree: steps, FailureFree: steps})
	}
	require.Empty(t, check.Describe(slow(3*2+3)))
	require.NotEmpty(t, slow(3*2+2))
	require.NotEmpty(t, check.Genuineness(h), "the middle group takes part in messages to the first and the last one")
}

// TestTree: a wrong tree is named.
func TestTree(t *testing.T) {
	groups := baselinetest.TwoGroups()
	_, err := byzcast.New(byzcast.Config{Self: 1, Groups: groups, Parents: []int{0}})
	require.ErrorContains(t, err, "Parents: 1 of them for 2 groups")
	_, err = byzcast.New(byzcast.Config{Self: 1, Groups: groups, Parents: []int{0, 1}})
	require.ErrorContains(t, err, "use one below 1")
}
