package sim

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/primcast"
)

// rough draws a run of three groups of three with every fault and option: candidates are chased like
// primaries, processes suspect others before these can answer, links are slow, and frames, windows and logs
// may be short. Some runs order by classes, some by clocks, some by fronts.
func rough(seed uint64) (Config, Workload, Protocol) {
	cfg, rng := config(seed, 3, 3, 3)
	some := func(most int) time.Duration { return time.Duration(1+rng.IntN(most)) * time.Millisecond }
	cfg.LatencyMax = time.Millisecond + some(15)
	cfg.Faults = Faults{
		Every: 2*time.Millisecond + some(25), Longest: 60*time.Millisecond + some(120), LagMax: 60*time.Millisecond + some(1000),
		Pause: rng.IntN(3), Stall: rng.IntN(3), Cut: 2 + rng.IntN(5), Lag: rng.IntN(3), Reset: rng.IntN(3), Jump: rng.IntN(3), SlowDisk: rng.IntN(2),
		Crash: rng.IntN(3), CrashAll: rng.IntN(5) / 4, Chase: rng.IntN(3), Move: rng.IntN(3), Ahead: rng.IntN(2),
	}
	w := everybody(&cfg, 20+rng.IntN(60), some(12))
	w.AfterPercent, w.AgainPercent, w.Payload = 10*rng.IntN(3), 10*rng.IntN(2), 20
	w.Reactions, w.ReactPercent = 40, 30
	pc := primcast.Config{
		FetchAfter: 20 * time.Millisecond, SuspectAfter: 9*time.Millisecond + some(40), Seed: seed,
		CheckpointMin: 1 << (6 + rng.IntN(12)), Retain: 1 << (7 + rng.IntN(9)), Window: 1 + rng.IntN(50),
		HybridClock: rng.IntN(2) == 0, PackDelay: time.Duration(rng.IntN(2)*rng.IntN(10)) * time.Millisecond,
	}
	if rng.IntN(2) == 0 {
		pc = little(seed, &cfg, pc)
	}
	var p Protocol
	switch {
	case seed%2 == 0:
		p = classy(pc)
	case seed%4 == 1:
		pc.HybridClock, pc.ClockError = true, cfg.Skew+time.Millisecond
		w.OrderPercent = 100
		p = primCastWith(pc)
	default:
		w.OrderPercent = 50 * rng.IntN(3)
		p = primCastWith(pc)
	}
	p.AtRest = nil
	if rng.IntN(2) == 0 {
		p.Leads = func(core multicast.Core) bool {
			s := core.(*primcast.Core).Stats().State
			return s == primcast.Primary || s == primcast.Candidate
		}
	}
	return cfg, w, p
}

func TestPrimCastRough(t *testing.T) {
	var reach Reach
	seeds(t, 300, func(seed uint64) error {
		cfg, w, p := rough(seed)
		w.SendersFinish = rand.New(rand.NewPCG(seed, 14)).IntN(2) == 0
		return judge(cfg, w, p, &reach)
	})
	t.Logf("reached: %+v", reach)
	reach.requireMarks(t, Chased, Transferred, Overflowed, Moved, Late)
}

// TestPrimCastRoughKilled: some are killed, and replaced.
func TestPrimCastRoughKilled(t *testing.T) {
	var reach Reach
	seeds(t, 300, func(seed uint64) error {
		cfg, w, p := rough(seed)
		cfg.Faults.Kill = 1 + int(seed%3)
		cfg.Spares = []multicast.ProcessID{1001, 1003, 1005}
		return judge(cfg, w, p, &reach)
	})
	t.Logf("reached: %+v", reach)
	reach.requireMarks(t, Killed, Replaced, Transferred)
}
