package sim

import (
	"testing"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast/primcast"
)

// duelRun draws a run in which processes suspect each other without reason, and suspected primaries continue:
// patience is about one trip over a link, links lag, and a process that has promised stops at once. Most
// epochs fail.
func duelRun(seed uint64) (Config, Workload, Protocol) {
	cfg, rng := config(seed, sizes(seed, 2, 3, 3, 3, 5)...)
	cfg.LatencyMax = 10 * time.Millisecond
	cfg.Faults = Faults{
		Every: time.Duration(3+rng.IntN(15)) * time.Millisecond, Longest: 80 * time.Millisecond, LagMax: 60 * time.Millisecond,
		Pause: 1 + rng.IntN(2), Stall: 1 + rng.IntN(3), Cut: rng.IntN(3), Lag: 1 + rng.IntN(3), Crash: rng.IntN(4),
	}
	w := everybody(&cfg, 20+rng.IntN(40), time.Duration(1+rng.IntN(10))*time.Millisecond)
	return cfg, w, primCastWith(primcast.Config{
		FetchAfter: 20 * time.Millisecond, SuspectAfter: time.Duration(8+rng.IntN(20)) * time.Millisecond, Seed: seed,
		CheckpointMin: 1 << (10 + rng.IntN(8)),
	})
}

// TestPrimCastDuels: a primary continues while others promise to the next one.
func TestPrimCastDuels(t *testing.T) {
	var reach Reach
	seeds(t, 500, func(seed uint64) error {
		cfg, w, p := duelRun(seed)
		return judge(cfg, w, p, &reach)
	})
	t.Logf("reached: %+v", reach)
	reach.requireMarks(t, Unsent, CutFrames, CutSurvived, CutRestart, Late)
}

// PrimCast keeps atomic global order although a deposed primary still sends.
func TestPrimCastDuelsKeepAtomicGlobalOrder(t *testing.T) {
	var reach Reach
	seeds(t, 300, func(seed uint64) error {
		cfg, w, p := duelRun(seed)
		cfg.Groups = groups(groupsOf(seed, 3, 4, 3)...)
		cfg.Gather = 0
		w = everybody(&cfg, w.Messages, w.Every)
		w.MostDest, w.OrderPercent, w.Reactions, w.ReactPercent = 2, 100, 60, 40
		return judge(cfg, w, p, &reach)
	})
}

// TestPrimCastDuelsKilled: some candidates stop for ever right after they have asked for promises, and a few
// processes have promised.
func TestPrimCastDuelsKilled(t *testing.T) {
	var reach Reach
	seeds(t, 300, func(seed uint64) error {
		cfg, w, p := duelRun(seed)
		cfg.Faults.Kill = 1
		p.AtRest = nil // killed processes keep others from forgetting
		return judge(cfg, w, p, &reach)
	})
	reach.requireMarks(t, Killed, KilledMost)
}
