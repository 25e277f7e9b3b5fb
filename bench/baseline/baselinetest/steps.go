package baselinetest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/sim"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/check"
)

// step is the time that each link takes in these runs. Everything else takes no time.
const step = time.Second

// even returns a network in which each link takes one step.
func even(seed uint64, sizes []int) sim.Config {
	rng := rand.New(rand.NewPCG(seed, 22))
	cfg := sim.Default()
	cfg.Seed, cfg.Groups = seed, groups(rng, 5, sizes)
	cfg.LatencyMin, cfg.LatencyMax = step, step
	return cfg
}

// Alone runs with one message at a time, in groups of sizes drawn from sizes.
func Alone(t *testing.T, p *Protocol, seed uint64, sizes ...int) *check.History {
	t.Helper()
	cfg := even(seed, sizes)
	w := Everybody(&cfg, 10, time.Minute)
	w.Steady = true
	return Run(t, p, cfg, w)
}

// crowd runs with many messages at a time.
func (p *Protocol) crowd(t *testing.T, seed uint64) *check.History {
	t.Helper()
	cfg := even(seed, p.Sizes)
	return Run(t, p, cfg, Everybody(&cfg, 60, time.Duration(50+seed*10)*time.Millisecond))
}

// RequireSteps fails unless all deliveries of h, the run of a seed, keep to the bounds.
func RequireSteps(t *testing.T, seed uint64, h *check.History, collisionFree, failureFree int) {
	t.Helper()
	found := exceeded(h, collisionFree, failureFree)
	require.Empty(t, found, "seed %d: %s", seed, check.Describe(found))
}

func exceeded(h *check.History, collisionFree, failureFree int) []check.Violation {
	return check.Latency(h, check.Bounds{Step: step, CollisionFree: collisionFree, FailureFree: failureFree})
}

func (s *Steps) of(h *check.History) *check.History {
	if s.At == nil {
		return h
	}
	return s.At(h)
}

// testSteps: the latencies of the protocol's documentation, with one message at a time and with many.
func (p *Protocol) testSteps(t *testing.T) {
	for seed := range uint64(150) {
		alone, crowd := Alone(t, p, seed, p.Sizes...), p.crowd(t, seed)
		for _, s := range p.Steps {
			RequireSteps(t, seed, s.of(alone), s.CollisionFree, s.CollisionFree)
			RequireSteps(t, seed, s.of(crowd), s.CollisionFree, s.FailureFree)
		}
	}
}

// testStepsAreTight: the bounds are reached, so that testSteps is known to see.
func (p *Protocol) testStepsAreTight(t *testing.T) {
	for i := range p.Steps {
		s := &p.Steps[i]
		require.True(t, reached(func(seed uint64) bool {
			return exceeded(s.of(Alone(t, p, seed, p.Sizes...)), s.CollisionFree-1, s.CollisionFree-1) != nil
		}), "one at a time never takes %d steps", s.CollisionFree)
		require.True(t, reached(func(seed uint64) bool {
			return exceeded(s.of(p.crowd(t, seed)), s.CollisionFree, s.FailureFree-1) != nil
		}), "many never take %d steps", s.FailureFree)
	}
}

func reached(by func(seed uint64) bool) bool {
	for seed := range uint64(300) {
		if by(seed) {
			return true
		}
	}
	return false
}

// Leaders returns a run as the first members of the groups saw it.
func Leaders(h *check.History) *check.History { return saw(h, true) }

// Followers returns a run as the other members saw it.
func Followers(h *check.History) *check.History { return saw(h, false) }

func saw(h *check.History, leaders bool) *check.History {
	only := *h
	only.Processes, only.Deliveries = nil, nil
	chosen, led := map[multicast.ProcessID]bool{}, map[multicast.GroupID]bool{}
	for _, p := range h.Processes {
		leads := !led[p.Group]
		led[p.Group] = true
		if leads == leaders {
			chosen[p.ID] = true
			only.Processes = append(only.Processes, p)
		}
	}
	for _, d := range h.Deliveries {
		if chosen[d.Process] {
			only.Deliveries = append(only.Deliveries, d)
		}
	}
	return &only
}
