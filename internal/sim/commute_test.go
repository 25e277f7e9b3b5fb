package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/check"
	"github.com/globalfs/globalfs/pkg/multicast/primcast"
)

// last returns the last byte of the payload, which counts the messages of a sender. It decides the conflicts
// of a message.
func last(m *multicast.Message) byte { return m.Payload[len(m.Payload)-1] }

// relations are the conflict relations of the tests.
var relations = map[string]func(a, b *multicast.Message) bool{
	"all":             func(_, _ *multicast.Message) bool { return true },
	"none":            func(_, _ *multicast.Message) bool { return false },
	"the same parity": func(a, b *multicast.Message) bool { return last(a)%2 == last(b)%2 },
	"even with even":  func(a, b *multicast.Message) bool { return last(a)%2+last(b)%2 == 0 },
	// Not transitive.
	"a third with all": func(a, b *multicast.Message) bool { return last(a)%3 == 0 || last(b)%3 == 0 },
}

// commuting orders only conflicting messages.
func commuting(cfg primcast.Config, conflicts func(a, b *multicast.Message) bool) Protocol {
	cfg.Conflicts = conflicts
	p := primCastWith(cfg)
	p.Conflicts = conflicts
	return p
}

// commutingRun draws all faults that restart no process: primaries change because processes pause or are cut
// off.
func commutingRun(seed uint64) (Config, Workload, primcast.Config) {
	cfg, w, _ := primCastCuts(seed)
	rng := rand.New(rand.NewPCG(seed, 12))
	f := &cfg.Faults
	f.Crash, f.CrashAll, f.Pause, f.Longest = 0, 0, 1+rng.IntN(4), 300*time.Millisecond
	w.Messages *= 2
	if seed%3 == 0 {
		w.OrderPercent, w.Reactions, w.ReactPercent = 50, 20, 20
	}
	core := everything(seed)
	core.Retain = 0 // nobody needs the state of another
	return cfg, w, core
}

// TestPrimCastCommuting: conflicting messages are in order under all faults and changes of primaries, and
// other messages are not.
func TestPrimCastCommuting(t *testing.T) {
	for name, conflicts := range relations {
		t.Run(name, func(t *testing.T) {
			var reach Reach
			swapped, epochs := 0, uint64(0)
			seeds(t, 60, func(seed uint64) error {
				cfg, w, core := commutingRun(seed)
				p := commuting(core, conflicts)
				rest := p.AtRest
				p.AtRest = func(core multicast.Core) error {
					epochs += core.(*primcast.Core).Stats().Epochs
					return rest(core)
				}
				if seed%4 == 0 {
					cfg.Faults.Kill, p.AtRest = 1, nil
				}
				r, err := Run(cfg, w, p)
				if err != nil {
					return err
				}
				reach.add(r.Reach)
				swapped += descents(&r.History)
				if len(r.Violations) > 0 {
					return fmt.Errorf("%s", check.Describe(r.Violations))
				}
				return nil
			})
			t.Logf("%d deliveries out of order, %d epochs entered, %+v", swapped, epochs, reach)
			require.Zero(t, reach.Restarts)
			if name == "all" {
				require.Zero(t, swapped)
			} else if *oneSeed == 0 && *seedCount == 0 {
				require.Greater(t, swapped, 200)
				require.Greater(t, epochs, uint64(100), "primaries change")
			}
		})
	}
}

// descents counts deliveries below an earlier one of the same process.
func descents(h *check.History) (count int) {
	highest := map[multicast.ProcessID]multicast.Position{}
	for _, d := range h.Deliveries {
		at := multicast.Position{Final: d.Final, ID: d.ID}
		if at.Compare(highest[d.Process]) < 0 {
			count++
		} else {
			highest[d.Process] = at
		}
	}
	return count
}

// TestConflictsAreSeen: the simulator finds a core that takes conflicting messages for commuting ones.
func TestConflictsAreSeen(t *testing.T) {
	found := map[string]int{}
	for seed := range uint64(30) {
		cfg, w, core := commutingRun(seed)
		p := commuting(core, relations["none"])
		p.Conflicts = relations["the same parity"]
		r, err := Run(cfg, w, p)
		require.NoError(t, err)
		for _, v := range r.Violations {
			found[v.Property]++
		}
	}
	require.NotZero(t, found["timestamps"])
	require.NotZero(t, found["prefix order"])
	require.NotZero(t, found["acyclic order"])
	delete(found, "atomic global order") // a few only
	require.Len(t, found, 3, "%v", found)
}

// TestCommutingProcessesDoNotRestart: the checks do not cover repeated deliveries.
func TestCommutingProcessesDoNotRestart(t *testing.T) {
	cfg, w, core := commutingRun(1)
	cfg.Faults.Crash = 1
	_, err := Run(cfg, w, commuting(core, relations["none"]))
	require.ErrorContains(t, err, "leave Crash, CrashAll, Chase and Spares out")
}

// TestCommutingDoNotWait: under load, a message without conflicts has the latency of a single message (T
// 4.4.3). A message with conflicts still waits for the conflicting messages.
func TestCommutingDoNotWait(t *testing.T) {
	core := primcast.Config{SuspectAfter: time.Hour, CheckpointMin: 1 << 20}
	slow := map[string]bool{}
	seeds(t, 50, func(seed uint64) error {
		cfg := unit(seed, sizes(seed, 5, 1, 3, 5)...)
		crowd := everybody(&cfg, 60, time.Duration(50+seed*20)*time.Millisecond)
		if err := latency(cfg, crowd, commuting(core, relations["none"]), 3, 3); err != nil {
			return err
		}
		r, err := Run(cfg, crowd, commuting(core, relations["even with even"]))
		if err != nil {
			return err
		}
		require.Empty(t, r.Violations, "seed %d", seed)
		bounds := check.Bounds{Step: time.Second, CollisionFree: 3, FailureFree: 3}
		for _, v := range check.Latency(&r.History, bounds) {
			if v.Messages[0].Seq%2 == 1 {
				return fmt.Errorf("%v", v)
			}
			slow["even"] = true
		}
		slow["all"] = slow["all"] || latency(cfg, crowd, commuting(core, nil), 3, 3) != nil
		return nil
	})
	require.True(t, slow["even"], "conflicts cost time")
	require.True(t, slow["all"], "without the extension all conflict")
}
