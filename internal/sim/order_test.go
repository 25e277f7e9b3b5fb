package sim

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/check"
	"github.com/globalfs/globalfs/pkg/multicast/primcast"
	"github.com/globalfs/globalfs/pkg/multicast/skeen"
)

// skeenThat is Skeen's protocol with acknowledgements.
func skeenThat(when skeen.Acknowledge) Protocol {
	p := skeenProtocol
	p.New = func(self multicast.ProcessID, groups []multicast.Group, _ multicast.Progress) (multicast.Core, error) {
		return skeen.New(skeen.Config{Self: self, Groups: groups, Acknowledge: when})
	}
	return p
}

// orderRun draws messages that follow deliveries at once, on links of which some are slow now and then. Pairs
// of groups form cyclic chains of messages.
func orderRun(seed uint64, sizes ...int) (Config, Workload) {
	cfg, rng := config(seed, sizes...)
	cfg.Gather = 0
	if seed%2 == 0 {
		cfg.LatencyMax = 3 * time.Millisecond
		cfg.Faults = Faults{Every: 10 * time.Millisecond, Longest: 200 * time.Millisecond, Lag: 1, LagMax: 200 * time.Millisecond}
	}
	w := everybody(&cfg, 10+rng.IntN(20), time.Duration(1+rng.IntN(20))*time.Millisecond)
	w.MostDest = min(2, len(cfg.Groups))
	w.Reactions, w.ReactPercent = 40, 10+rng.IntN(60)
	return cfg, w
}

// groupsOf draws that many groups of one size.
func groupsOf(seed uint64, least, most, size int) []int {
	all := make([]int, least+rand.New(rand.NewPCG(seed, 9)).IntN(most-least+1))
	for i := range all {
		all[i] = size
	}
	return all
}

// breaking gives the number of runs, of so many seeds, that break atomic global order and nothing else. For a
// protocol without atomic global order the messages do not ask for it, and are checked as if they did.
func breaking(t *testing.T, count uint64, draw func(seed uint64) (Config, Workload), p Protocol) int {
	t.Helper()
	broken := 0
	for seed := uint64(1); seed <= count; seed++ {
		cfg, w := draw(seed)
		r, err := Run(cfg, w, p)
		require.NoError(t, err)
		for _, v := range r.Violations {
			require.Equal(t, "atomic global order", v.Property, "seed %d: %v", seed, v)
		}
		for i := range r.History.Multicasts {
			r.History.Multicasts[i].Order = multicast.AtomicGlobal
		}
		if found := check.AtomicGlobalOrder(&r.History); found != nil {
			if broken == 0 {
				t.Logf("seed %d: %s", seed, check.Describe(found))
			}
			broken++
		}
	}
	t.Logf("%d of %d seeds break it", broken, count)
	return broken
}

func skeenOrderRun(seed uint64) (Config, Workload) { return orderRun(seed, groupsOf(seed, 3, 8, 1)...) }

// asking makes all messages ask for atomic global order.
func asking(draw func(uint64) (Config, Workload)) func(uint64) (Config, Workload) {
	return func(seed uint64) (Config, Workload) {
		cfg, w := draw(seed)
		w.OrderPercent = 100
		return cfg, w
	}
}

// TestSkeenBreaksAtomicGlobalOrder finds executions like thesis figure 5.3 (top) at random.
func TestSkeenBreaksAtomicGlobalOrder(t *testing.T) {
	require.Greater(t, breaking(t, 100, skeenOrderRun, skeenThat(skeen.Never)), 10)
}

// Algorithm 4 as it is printed, with all gray lines, breaks atomic global order.
func TestSkeenDecidedBreaksAtomicGlobalOrder(t *testing.T) {
	require.Greater(t, breaking(t, 300, asking(skeenOrderRun), skeenThat(skeen.Decided)), 5)
}

// Some of the runs also have messages that do not request atomic global order, more destinations, or faults.
func TestSkeenInOrderKeepsAtomicGlobalOrder(t *testing.T) {
	var reach Reach
	seeds(t, 1000, func(seed uint64) error {
		cfg, w := skeenOrderRun(seed)
		w.OrderPercent = 100
		if seed%3 == 0 {
			w.OrderPercent = 50
		}
		if seed%5 == 0 {
			w.MostDest, w.AfterPercent = 3, 20
		}
		if seed%7 == 0 {
			cfg.Faults = Faults{Every: 20 * time.Millisecond, Longest: 100 * time.Millisecond, Pause: 1, Stall: 1, Jump: 1}
		}
		return judge(cfg, w, skeenThat(skeen.InOrder), &reach)
	})
}

// TestSkeenInOrderSteps: a message takes three steps without concurrent messages, and four with concurrent
// messages to the same destinations.
func TestSkeenInOrderSteps(t *testing.T) {
	seeds(t, 100, func(seed uint64) error {
		cfg := unit(seed, groupsOf(seed, 1, 5, 1)...)
		alone := everybody(&cfg, 20, time.Minute)
		alone.Steady, alone.OrderPercent = true, 100
		if err := latency(cfg, alone, skeenThat(skeen.InOrder), 3, 3); err != nil {
			return err
		}
		cfg = unit(seed, 1, 1)
		crowd := everybody(&cfg, 60, time.Duration(50+seed*20)*time.Millisecond)
		crowd.OrderPercent = 100
		return latency(cfg, crowd, skeenThat(skeen.InOrder), 3, 4)
	})
}

// primCastOrderRun has groups of one and three, with the faults that Skeen's protocol tolerates.
func primCastOrderRun(seed uint64) (Config, Workload) {
	return orderRun(seed, groupsOf(seed, 2, 5, 1+2*int(seed%2))...)
}

// PrimCast breaks atomic global order if no message requests it: thesis figure 5.2 (top).
func TestPrimCastBreaksAtomicGlobalOrder(t *testing.T) {
	require.Greater(t, breaking(t, 300, primCastOrderRun, primCast(1<<20)), 15)
}

// PrimCast keeps atomic global order for the messages that request it.
func TestPrimCastKeepsAtomicGlobalOrder(t *testing.T) {
	var reach Reach
	seeds(t, 300, func(seed uint64) error {
		cfg, w := primCastOrderRun(seed)
		w.OrderPercent = 100
		if seed%5 == 0 {
			w.OrderPercent = 50
		}
		return judge(cfg, w, primCast(1<<20), &reach)
	})
}

// PrimCast keeps atomic global order also over crashes, link restarts and changes of primaries.
func TestPrimCastKeepsAtomicGlobalOrderOverCrashes(t *testing.T) {
	var reach Reach
	seeds(t, 300, func(seed uint64) error {
		cfg, w, p := primCastRun(seed)
		w.Reactions, w.ReactPercent, w.SendersFinish = 40, 30, true
		w.OrderPercent = 50 + 50*int(seed%2)
		return judge(cfg, w, p, &reach)
	})
}

// byClocks lets messages wait for clocks that are off by up to an error, with all faults.
func byClocks(seed uint64, clockError time.Duration) (Config, Workload, Protocol) {
	cfg, w, _ := primCastRun(seed)
	cfg.Skew, cfg.Faults.Jump = time.Duration(1+seed%20)*time.Millisecond, 2
	w.OrderPercent, w.Reactions, w.ReactPercent, w.SendersFinish = 100, 40, 30, true
	if clockError == 0 {
		clockError = cfg.Skew
	}
	return cfg, w, primCastWith(primcast.Config{
		FetchAfter: 20 * time.Millisecond, SuspectAfter: 50 * time.Millisecond, HybridClock: true, ClockError: clockError,
	})
}

// PrimCast by clocks keeps atomic global order while the clock errors are within the configured bound.
func TestPrimCastKeepsAtomicGlobalOrderByClocks(t *testing.T) {
	var reach Reach
	seeds(t, 500, func(seed uint64) error {
		cfg, w, p := byClocks(seed, 0)
		return judge(cfg, w, p, &reach)
	})
}

// Clock errors above the configured bound break atomic global order, and no other property.
func TestClocksOutOfBoundsBreakAtomicGlobalOrder(t *testing.T) {
	broken := 0
	for seed := uint64(1); seed <= 600; seed++ {
		cfg, w, p := byClocks(seed, time.Nanosecond)
		r, err := Run(cfg, w, p)
		require.NoError(t, err)
		for _, v := range r.Violations {
			require.Equal(t, "atomic global order", v.Property, "seed %d: %v", seed, v)
			broken++
		}
	}
	require.Positive(t, broken)
	t.Logf("%d of 600 seeds break it", broken)
}
