package baselinetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/sim"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/check"
)

// simulated is the process that the simulator runs. At the end it must have forgotten all messages but the
// last closing ones: news of their delivery has had no frame to ride on.
func (p *Protocol) simulated(construct New) sim.Protocol {
	return sim.Protocol{
		New: func(self multicast.ProcessID, groups []multicast.Group, _ multicast.Progress) (multicast.Core, error) {
			return construct(self, groups)
		},
		AtRest: func(core multicast.Core) error {
			if s := p.Stats(core); s.Kept > 3 || s.Pending > 0 || s.Malformed+s.Refused > 0 {
				return fmt.Errorf("%+v", s)
			}
			return nil
		},
	}
}

// run gives the violations of the properties that the protocol has.
func (p *Protocol) run(t *testing.T, cfg sim.Config, w sim.Workload, construct New) (*sim.Result, []check.Violation) {
	t.Helper()
	r, err := sim.Run(cfg, w, p.simulated(construct))
	require.NoError(t, err, "seed %d", cfg.Seed)
	return r, slices.DeleteFunc(r.Violations, func(v check.Violation) bool {
		return p.NotGenuine && v.Property == "genuineness" || p.NoTimestamps && v.Property == "timestamps"
	})
}

// Run simulates w, in which nothing may be violated, and gives its history.
func Run(t *testing.T, p *Protocol, cfg sim.Config, w sim.Workload) *check.History {
	t.Helper()
	r, found := p.run(t, cfg, w, p.New)
	require.Empty(t, found, "seed %d: %s", cfg.Seed, check.Describe(found))
	return &r.History
}

// Everybody has all processes multicast to all groups.
func Everybody(cfg *sim.Config, messages int, every time.Duration) sim.Workload {
	w := sim.Workload{Messages: messages, Every: every, MostDest: len(cfg.Groups)}
	for _, g := range cfg.Groups {
		w.Dest = append(w.Dest, g.ID)
		w.Senders = append(w.Senders, g.Members...)
	}
	return w
}

// groups makes groups of sizes drawn from sizes; numbers have gaps and are not in step.
func groups(rng *rand.Rand, most int, sizes []int) []multicast.Group {
	all := make([]multicast.Group, 1+rng.IntN(most))
	next := multicast.ProcessID(1)
	for i := range all {
		all[i].ID = multicast.GroupID(3 * i)
		for range sizes[rng.IntN(len(sizes))] {
			all[i].Members = append(all[i].Members, next)
			next += 2
		}
	}
	return all
}

// draw makes a run with all faults that lose nothing.
func (p *Protocol) draw(seed uint64) (sim.Config, sim.Workload, New) {
	rng := rand.New(rand.NewPCG(seed, 21))
	cfg := sim.Default()
	cfg.Seed, cfg.Groups = seed, groups(rng, 1+int(seed%8), p.Sizes)
	cfg.LatencyMax = time.Millisecond << rng.IntN(6)
	cfg.Jitter = time.Duration(rng.IntN(3)) * time.Millisecond
	cfg.Gather = time.Duration(rng.IntN(3)) * 500 * time.Microsecond
	cfg.Pipelined = rng.IntN(2) == 0
	cfg.Skew = time.Duration(rng.IntN(2)) * 100 * time.Millisecond
	cfg.Faults = sim.Faults{
		Every: time.Duration(5+rng.IntN(60)) * time.Millisecond, Longest: 100 * time.Millisecond,
		Pause: 1 + rng.IntN(3), Stall: 1 + rng.IntN(3), SlowDisk: 1, Jump: 1,
	}
	w := Everybody(&cfg, 5+rng.IntN(60), time.Duration(1+rng.IntN(20))*time.Millisecond)
	w.AfterPercent, w.AgainPercent, w.Payload = 10*rng.IntN(3), 10*rng.IntN(3), 20
	if p.Vary == nil {
		return cfg, w, p.New
	}
	return cfg, w, p.Vary(rng, w.Senders)
}

// testSimulated: everything late and nothing lost. sim.Run also checks that a protocol is genuine.
func (p *Protocol) testSimulated(t *testing.T) {
	deliveries := 0
	for seed := range uint64(600) {
		cfg, w, construct := p.draw(seed)
		r, found := p.run(t, cfg, w, construct)
		require.Empty(t, found, "seed %d: %s", seed, check.Describe(found))
		deliveries += len(r.History.Deliveries)
	}
	require.Greater(t, deliveries, 50_000)
}

// testCrashes: the simulator sees that nothing is recorded.
func (p *Protocol) testCrashes(t *testing.T) {
	caught := 0
	for seed := range uint64(30) {
		cfg, w, construct := p.draw(seed)
		cfg.Faults.Crash = 4
		if _, found := p.run(t, cfg, w, construct); len(found) > 0 {
			caught++
		}
	}
	require.Greater(t, caught, 10)
}
