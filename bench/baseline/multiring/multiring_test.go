package multiring_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/bench/baseline/baselinetest"
	"github.com/globalfs/globalfs/bench/baseline/multiring"
	"github.com/globalfs/globalfs/internal/sim"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/check"
)

// protocol has no bounds of steps for everybody: see TestLatency.
var protocol = &baselinetest.Protocol{
	New: with(multiring.Config{}), Vary: vary,
	Stats: func(core multicast.Core) baselinetest.Stats {
		s := core.(*multiring.Core).Stats()
		return baselinetest.Stats{Malformed: s.Malformed, Refused: s.Refused, Repeated: s.Repeated, Kept: s.Waiting, Pending: s.Waiting}
	},
	Sizes:      []int{1, 2, 3, 5},
	NotGenuine: true,
	Loop:       baselinetest.Limits{Round: 100 * time.Microsecond, Allocations: 15, Kept: 100},
}

// with makes processes that merge as cfg says.
func with(cfg multiring.Config) baselinetest.New {
	return func(self multicast.ProcessID, groups []multicast.Group) (multicast.Core, error) {
		c := cfg
		c.Self, c.Groups = self, groups
		return multiring.New(c)
	}
}

// vary draws rings that are slower or faster than others, and a global ring of the leaders or of everybody.
func vary(rng *rand.Rand, senders []multicast.ProcessID) baselinetest.New {
	cfg := multiring.Config{
		Lambda: []int{300, 2000, 0}[rng.IntN(3)], Delta: time.Duration(5+rng.IntN(20)) * time.Millisecond, M: rng.IntN(4),
	}
	if rng.IntN(2) == 0 {
		for _, i := range rng.Perm(len(senders)) {
			cfg.Ring = append(cfg.Ring, senders[i])
		}
	}
	return with(cfg)
}

func TestProtocol(t *testing.T)      { baselinetest.Test(t, protocol) }
func BenchmarkProtocol(b *testing.B) { baselinetest.Benchmark(b, protocol) }

// groupsOfThree are so many of them.
func groupsOfThree(count int) (all []multicast.Group) {
	for g := range count {
		first := multicast.ProcessID(3*g + 1)
		all = append(all, multicast.Group{ID: multicast.GroupID(g + 1), Members: []multicast.ProcessID{first, first + 1, first + 2}})
	}
	return all
}

// The simulator finds that processes other than the destinations take part.
func TestNotGenuine(t *testing.T) {
	cfg := sim.Default()
	cfg.Groups = groupsOfThree(3)
	w := baselinetest.Everybody(&cfg, 5, 10*time.Millisecond)
	w.Dest, w.MostDest = w.Dest[:2], 2
	require.NotEmpty(t, check.Genuineness(baselinetest.Run(t, protocol, cfg, w)))
}

// A message to one group of three takes the step to the coordinator and a round of the group's ring, and does
// not wait for the global ring. A message to several groups takes the step, a round and a part of another
// round of the global ring, and a round of the group's ring.
func TestLatency(t *testing.T) {
	cfg := sim.Default()
	cfg.Groups = groupsOfThree(2)
	cfg.LatencyMin, cfg.LatencyMax = 10*time.Millisecond, 10*time.Millisecond
	w := baselinetest.Everybody(&cfg, 200, time.Second)
	w.Steady = true
	h := baselinetest.Run(t, protocol, cfg, w)
	slow := func(dest, steps int) []check.Violation {
		return check.Latency(only(h, dest), check.Bounds{Step: cfg.LatencyMax, CollisionFree: steps, FailureFree: steps})
	}
	require.Empty(t, check.Describe(slow(1, 1+3)))
	require.NotEmpty(t, slow(1, 3))
	require.Empty(t, check.Describe(slow(2, 1+6+2+3)))
	require.NotEmpty(t, slow(2, 1+6))
}

// only returns the run with the messages to so many groups.
func only(h *check.History, dest int) *check.History {
	some := *h
	some.Multicasts, some.Deliveries = nil, nil
	in := map[multicast.MessageID]bool{}
	for _, m := range h.Multicasts {
		if len(m.Dest) == dest {
			some.Multicasts, in[m.ID] = append(some.Multicasts, m), true
		}
	}
	for _, d := range h.Deliveries {
		if in[d.ID] {
			some.Deliveries = append(some.Deliveries, d)
		}
	}
	return &some
}
