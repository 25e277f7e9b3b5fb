package whitebox_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/bench/baseline/whitebox"
	"github.com/globalfs/globalfs/internal/sim"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/check"
)

// protocol must at the end have forgotten all but the last closing messages, whose news has had no
// frame to ride on.
var protocol = sim.Protocol{
	New: func(self multicast.ProcessID, groups []multicast.Group, _ multicast.Position) (multicast.Core, error) {
		return whitebox.New(whitebox.Config{Self: self, Groups: groups})
	},
	AtRest: func(core multicast.Core) error {
		s := core.(*whitebox.Core).Stats()
		if s.Kept > 3 || s.Pending > 0 || s.Malformed+s.Refused > 0 {
			return fmt.Errorf("%+v", s)
		}
		return nil
	},
}

// groups makes groups whose sizes are drawn from of; numbers have gaps and are not in step.
func groups(rng *rand.Rand, most int, of ...int) []multicast.Group {
	all := make([]multicast.Group, 1+rng.IntN(most))
	next := multicast.ProcessID(1)
	for i := range all {
		all[i].ID = multicast.GroupID(3 * i)
		for range of[rng.IntN(len(of))] {
			all[i].Members = append(all[i].Members, next)
			next += 2
		}
	}
	return all
}

func everybody(cfg *sim.Config, messages int, every time.Duration) sim.Workload {
	w := sim.Workload{Messages: messages, Every: every, MostDest: len(cfg.Groups)}
	for _, g := range cfg.Groups {
		w.Dest = append(w.Dest, g.ID)
		w.Senders = append(w.Senders, g.Members...)
	}
	return w
}

// draw makes a run with all faults that lose nothing.
func draw(seed uint64) (sim.Config, sim.Workload) {
	rng := rand.New(rand.NewPCG(seed, 11))
	cfg := sim.Default()
	cfg.Seed, cfg.Groups = seed, groups(rng, 1+int(seed%8), 1, 3, 5)
	cfg.LatencyMax = time.Millisecond << rng.IntN(6)
	cfg.Jitter = time.Duration(rng.IntN(3)) * time.Millisecond
	cfg.Gather = time.Duration(rng.IntN(3)) * 500 * time.Microsecond
	cfg.Pipelined = rng.IntN(2) == 0
	cfg.Skew = time.Duration(rng.IntN(2)) * 100 * time.Millisecond
	cfg.Faults = sim.Faults{
		Every: time.Duration(5+rng.IntN(60)) * time.Millisecond, Longest: 100 * time.Millisecond,
		Pause: 1 + rng.IntN(3), Stall: 1 + rng.IntN(3), SlowDisk: 1, Jump: 1,
	}
	w := everybody(&cfg, 5+rng.IntN(60), time.Duration(1+rng.IntN(20))*time.Millisecond)
	w.AfterPercent, w.AgainPercent, w.Payload = 10*rng.IntN(3), 10*rng.IntN(3), 20
	return cfg, w
}

// TestSimulated: everything late and nothing lost. It is genuine, which Run checks too.
func TestSimulated(t *testing.T) {
	deliveries := 0
	for seed := range uint64(600) {
		cfg, w := draw(seed)
		r, err := sim.Run(cfg, w, protocol)
		require.NoError(t, err, "seed %d", seed)
		require.Empty(t, r.Violations, "seed %d: %s", seed, check.Describe(r.Violations))
		deliveries += len(r.History.Deliveries)
	}
	require.Greater(t, deliveries, 50_000)
}

// TestSteps: with one message at a time leaders deliver after three steps and followers after four, and
// with many after five and six (T 4.6.2).
func TestSteps(t *testing.T) {
	for seed := range uint64(150) {
		alone, crowd := steps(t, seed)
		requireLatency(t, seed, alone, 4, 4)
		requireLatency(t, seed, leaders(alone), 3, 3)
		requireLatency(t, seed, crowd, 4, 6)
		requireLatency(t, seed, leaders(crowd), 3, 5)
	}
}

// TestStepsAreTight: the bounds of TestSteps are reached, so that the test can see.
func TestStepsAreTight(t *testing.T) {
	reached := func(one func(alone, crowd *check.History) []check.Violation) {
		t.Helper()
		for seed := range uint64(150) {
			if alone, crowd := steps(t, seed); one(alone, crowd) != nil {
				return
			}
		}
		t.Error("no seed reaches the bound")
	}
	latency := func(h *check.History, collisionFree, failureFree int) []check.Violation {
		return check.Latency(h, check.Bounds{Step: time.Second, CollisionFree: collisionFree, FailureFree: failureFree})
	}
	reached(func(alone, _ *check.History) []check.Violation { return latency(alone, 3, 3) })
	reached(func(alone, _ *check.History) []check.Violation { return latency(leaders(alone), 2, 2) })
	reached(func(_, crowd *check.History) []check.Violation { return latency(crowd, 4, 5) })
	reached(func(_, crowd *check.History) []check.Violation { return latency(leaders(crowd), 3, 4) })
}

// steps runs with links that all take a second, and all else taking no time.
func steps(t *testing.T, seed uint64) (alone, crowd *check.History) {
	rng := rand.New(rand.NewPCG(seed, 12))
	cfg := sim.Default()
	cfg.Seed, cfg.Groups = seed, groups(rng, 5, 1, 3, 5)
	cfg.LatencyMin, cfg.LatencyMax = time.Second, time.Second
	w := everybody(&cfg, 10, time.Minute)
	w.Steady = true
	one, err := sim.Run(cfg, w, protocol)
	require.NoError(t, err)
	require.Empty(t, one.Violations, "seed %d: %s", seed, check.Describe(one.Violations))
	many, err := sim.Run(cfg, everybody(&cfg, 60, time.Duration(50+seed*20)*time.Millisecond), protocol)
	require.NoError(t, err)
	require.Empty(t, many.Violations, "seed %d: %s", seed, check.Describe(many.Violations))
	return &one.History, &many.History
}

func requireLatency(t *testing.T, seed uint64, h *check.History, collisionFree, failureFree int) {
	t.Helper()
	found := check.Latency(h, check.Bounds{Step: time.Second, CollisionFree: collisionFree, FailureFree: failureFree})
	require.Empty(t, found, "seed %d: %s", seed, check.Describe(found))
}

// leaders is the run as the first members of the groups saw it.
func leaders(h *check.History) *check.History {
	only := *h
	only.Processes, only.Deliveries = nil, nil
	leads := map[multicast.ProcessID]bool{}
	led := map[multicast.GroupID]bool{}
	for _, p := range h.Processes {
		if !led[p.Group] {
			led[p.Group], leads[p.ID] = true, true
			only.Processes = append(only.Processes, p)
		}
	}
	for _, d := range h.Deliveries {
		if leads[d.Process] {
			only.Deliveries = append(only.Deliveries, d)
		}
	}
	return &only
}

// TestCrashesAreNotSurvived: the simulator sees that nothing is recorded.
func TestCrashesAreNotSurvived(t *testing.T) {
	caught := 0
	for seed := range uint64(30) {
		cfg, w := draw(seed)
		cfg.Faults.Crash = 4
		r, err := sim.Run(cfg, w, protocol)
		require.NoError(t, err)
		if len(r.Violations) > 0 {
			caught++
		}
	}
	require.Greater(t, caught, 10)
}
