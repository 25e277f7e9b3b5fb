package fastcast_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/bench/baseline/fastcast"
	"github.com/globalfs/globalfs/bench/baseline/paxos"
	"github.com/globalfs/globalfs/internal/sim"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/check"
)

// protocol must at the end have forgotten all but the last closing messages, whose news has had no
// frame to ride on.
var protocol = sim.Protocol{
	New: func(self multicast.ProcessID, groups []multicast.Group, _ multicast.Position) (multicast.Core, error) {
		return fastcast.New(paxos.Config{Self: self, Groups: groups})
	},
	AtRest: func(core multicast.Core) error {
		s := core.(*fastcast.Core).Stats()
		if s.Kept > 3 || s.Pending > 0 || s.Malformed+s.Refused > 0 {
			return fmt.Errorf("%+v", s)
		}
		return nil
	},
}

// The steps of the package's doc, at leaders; the thesis allows 4 and 8.
const collisionFree, failureFree = 4, 6

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
	rng := rand.New(rand.NewPCG(seed, 21))
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

// TestSteps: the latencies of the package's doc, with one message at a time and with many.
func TestSteps(t *testing.T) {
	for seed := range uint64(150) {
		alone, crowd := crowds(t, seed)
		requireLatency(t, seed, alone, collisionFree, collisionFree)
		requireLatency(t, seed, crowd, collisionFree, failureFree)
	}
}

// TestStepsAreTight: the bounds of TestSteps are reached, so that the test can see.
func TestStepsAreTight(t *testing.T) {
	var slowestAlone, slowestCrowd bool
	for seed := range uint64(300) {
		alone, crowd := crowds(t, seed)
		slowestAlone = slowestAlone || latency(alone, collisionFree-1, collisionFree-1) != nil
		slowestCrowd = slowestCrowd || latency(crowd, collisionFree, failureFree-1) != nil
		if slowestAlone && slowestCrowd {
			return
		}
	}
	require.True(t, slowestAlone, "one at a time")
	require.True(t, slowestCrowd, "many")
}

// crowds runs with one message at a time and with many.
func crowds(t *testing.T, seed uint64) (alone, crowd *check.History) {
	rng := rand.New(rand.NewPCG(seed, 22))
	cfg := sim.Default()
	cfg.Seed, cfg.Groups = seed, groups(rng, 5, 1, 3, 5)
	return steps(t, cfg, 10, time.Minute, true), steps(t, cfg, 60, time.Duration(50+seed*10)*time.Millisecond, false)
}

// steps runs with links that all take a second, and all else taking no time.
func steps(t *testing.T, cfg sim.Config, messages int, every time.Duration, steady bool) *check.History {
	cfg.LatencyMin, cfg.LatencyMax = time.Second, time.Second
	w := everybody(&cfg, messages, every)
	w.Steady = steady
	r, err := sim.Run(cfg, w, protocol)
	require.NoError(t, err)
	require.Empty(t, r.Violations, "seed %d: %s", cfg.Seed, check.Describe(r.Violations))
	return &r.History
}

// TestFollowersAreFaster: in groups of three a follower needs a step less than its leader.
func TestFollowersAreFaster(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 23))
		cfg := sim.Default()
		cfg.Seed, cfg.Groups = seed, groups(rng, 5, 3)
		alone := steps(t, cfg, 10, time.Minute, true)
		leaders := map[multicast.ProcessID]bool{}
		for _, g := range cfg.Groups {
			leaders[g.Members[0]] = true
		}
		alone.Deliveries = slices.DeleteFunc(alone.Deliveries, func(d check.Delivery) bool { return leaders[d.Process] })
		requireLatency(t, seed, alone, collisionFree-1, collisionFree-1)
	}
}

func latency(h *check.History, collisionFree, failureFree int) []check.Violation {
	return check.Latency(h, check.Bounds{Step: time.Second, CollisionFree: collisionFree, FailureFree: failureFree})
}

func requireLatency(t *testing.T, seed uint64, h *check.History, collisionFree, failureFree int) {
	t.Helper()
	found := latency(h, collisionFree, failureFree)
	require.Empty(t, found, "seed %d: %s", seed, check.Describe(found))
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
