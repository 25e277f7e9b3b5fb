package multiring_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/bench/baseline/multiring"
	"github.com/globalfs/globalfs/internal/sim"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/check"
)

// protocol merges as cfg says.
func protocol(cfg multiring.Config) sim.Protocol {
	return sim.Protocol{
		New: func(self multicast.ProcessID, groups []multicast.Group, _ multicast.Position) (multicast.Core, error) {
			cfg.Self, cfg.Groups = self, groups
			return multiring.New(cfg)
		},
		AtRest: func(core multicast.Core) error {
			if s := core.(*multiring.Core).Stats(); s.Waiting > 0 || s.Malformed+s.Refused > 0 {
				return fmt.Errorf("%+v", s)
			}
			return nil
		},
	}
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
func draw(seed uint64) (sim.Config, sim.Workload, multiring.Config) {
	rng := rand.New(rand.NewPCG(seed, 11))
	cfg := sim.Default()
	cfg.Seed, cfg.Groups = seed, groups(rng, 1+int(seed%6), 1, 2, 3, 5)
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
	ring := multiring.Config{
		Lambda: []int{300, 2000, 0}[rng.IntN(3)], Delta: time.Duration(5+rng.IntN(20)) * time.Millisecond, M: rng.IntN(4),
	}
	if rng.IntN(2) == 0 {
		ring.Ring = slices.Clone(w.Senders) // everybody
		rng.Shuffle(len(ring.Ring), func(i, j int) { ring.Ring[i], ring.Ring[j] = ring.Ring[j], ring.Ring[i] })
	}
	return cfg, w, ring
}

// run gives the violations, of all properties but the one that the protocol does not have.
func run(t *testing.T, cfg sim.Config, w sim.Workload, p sim.Protocol) (*sim.Result, []check.Violation) {
	r, err := sim.Run(cfg, w, p)
	require.NoError(t, err, "seed %d", cfg.Seed)
	return r, slices.DeleteFunc(r.Violations, func(v check.Violation) bool { return v.Property == "genuineness" })
}

// TestSimulated: everything late and nothing lost, with a ring that is slower or faster than the others.
func TestSimulated(t *testing.T) {
	deliveries := 0
	for seed := range uint64(500) {
		cfg, w, ring := draw(seed)
		r, found := run(t, cfg, w, protocol(ring))
		require.Empty(t, found, "seed %d, %+v: %s", seed, ring, check.Describe(found))
		deliveries += len(r.History.Deliveries)
	}
	require.Greater(t, deliveries, 40_000)
}

// TestNotGenuine: the simulator sees that others take part.
func TestNotGenuine(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	cfg := sim.Default()
	for len(cfg.Groups) < 3 {
		cfg.Groups = groups(rng, 4, 3)
	}
	w := everybody(&cfg, 5, 10*time.Millisecond)
	w.Dest, w.MostDest = w.Dest[:2], 2
	r, err := sim.Run(cfg, w, protocol(multiring.Config{}))
	require.NoError(t, err)
	require.NotEmpty(t, check.Genuineness(&r.History))
}

// TestLatency: what stays in a group of three takes the step to the coordinator and a round of the ring, and does not
// wait for the global one. What goes through that takes the step, a round and a bit more of it, and one of the group's.
func TestLatency(t *testing.T) {
	cfg := sim.Default()
	cfg.Groups = []multicast.Group{{ID: 1, Members: []multicast.ProcessID{1, 2, 3}}, {ID: 2, Members: []multicast.ProcessID{4, 5, 6}}}
	cfg.LatencyMin, cfg.LatencyMax = 10*time.Millisecond, 10*time.Millisecond
	w := everybody(&cfg, 200, time.Second)
	w.Steady = true
	r, found := run(t, cfg, w, protocol(multiring.Config{}))
	require.Zero(t, len(found), check.Describe(found))
	slow := func(dest, steps int) []check.Violation {
		return check.Latency(only(&r.History, dest), check.Bounds{Step: cfg.LatencyMax, CollisionFree: steps, FailureFree: steps})
	}
	require.Empty(t, check.Describe(slow(1, 1+3)))
	require.NotEmpty(t, slow(1, 3))
	require.Empty(t, check.Describe(slow(2, 1+6+2+3)))
	require.NotEmpty(t, slow(2, 1+6))
}

// only is the run with the messages to so many groups.
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

// TestCrashesAreNotSurvived: the simulator sees that nothing is recorded.
func TestCrashesAreNotSurvived(t *testing.T) {
	caught := 0
	for seed := range uint64(10) {
		cfg, w, ring := draw(seed)
		cfg.Faults.Crash = 4
		if _, found := run(t, cfg, w, protocol(ring)); len(found) > 0 {
			caught++
		}
	}
	require.Greater(t, caught, 3)
}
