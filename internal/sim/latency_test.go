package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/check"
)

// unit makes every link take one communication step, and everything else no time (T 4.1.2).
func unit(seed uint64, sizes ...int) Config {
	cfg := Default()
	cfg.Seed = seed
	cfg.Groups = groups(sizes...)
	cfg.LatencyMin, cfg.LatencyMax = time.Second, time.Second
	cfg.Trace = tracer()
	return cfg
}

// latency runs a workload and compares the latencies with the bounds.
func latency(cfg Config, w Workload, p Protocol, collisionFree, failureFree int) error {
	r, err := Run(cfg, w, p)
	if err != nil {
		return err
	}
	bounds := check.Bounds{Step: cfg.LatencyMax, CollisionFree: collisionFree, FailureFree: failureFree}
	if found := append(r.Violations, check.Latency(&r.History, bounds)...); len(found) > 0 {
		return fmt.Errorf("%s", check.Describe(found))
	}
	return nil
}

// TestSteps checks the latencies of the protocols, with one message at a time and with many.
func TestSteps(t *testing.T) {
	for name, p := range map[string]struct {
		protocol                   Protocol
		sizes                      []int
		collisionFree, failureFree int
	}{
		"Skeen":    {skeenProtocol, []int{1}, 2, 4},
		"PrimCast": {primCastThatSuspects(time.Hour, 1<<20), []int{1, 3, 5}, 3, 5}, // T proposition 2
	} {
		t.Run(name, func(t *testing.T) {
			seeds(t, 100, func(seed uint64) error {
				cfg := unit(seed, sizes(seed, 5, p.sizes...)...)
				alone := everybody(&cfg, 20, time.Minute)
				alone.Steady = true
				if err := latency(cfg, alone, p.protocol, p.collisionFree, p.collisionFree); err != nil {
					return err
				}
				crowd := everybody(&cfg, 60, time.Duration(50+seed*20)*time.Millisecond)
				return latency(cfg, crowd, p.protocol, p.collisionFree, p.failureFree)
			})
		})
	}
}

// TestBoundsAreTight: some runs reach the bounds of TestSteps, so TestSteps can notice a violation.
func TestBoundsAreTight(t *testing.T) {
	cfg := unit(1, 3, 3, 3)
	alone := everybody(&cfg, 20, time.Minute)
	alone.Steady = true
	require.ErrorContains(t, latency(cfg, alone, primCastThatSuspects(time.Hour, 1<<20), 2, 2), "3.00 steps")
	require.ErrorContains(t, latency(cfg, everybody(&cfg, 200, 500*time.Millisecond), primCastThatSuspects(time.Hour, 1<<20), 3, 4), "failure-free latency is at most 4")
}

// TestGenuine: processes of groups that are no destination of any message do nothing, under all faults.
func TestGenuine(t *testing.T) {
	var reach Reach
	seeds(t, 200, func(seed uint64) error {
		cfg, w, p := primCastRun(seed)
		cfg.Groups = groups(3, 1, 5, 3, 3)
		w.SendersFinish = true
		w.Senders = []multicast.ProcessID{1, cfg.Groups[4].Members[1]} // one of a destination, one of none
		w.Dest, w.MostDest = []multicast.GroupID{cfg.Groups[0].ID, cfg.Groups[2].ID}, 2
		return judge(cfg, w, p, &reach)
	})
}
