package sim

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/primcast"
)

// primCastCuts draws a run in which links also lose frames, and whole regions are cut off.
func primCastCuts(seed uint64) (Config, Workload, Protocol) {
	return primCastCutsOn(seed, sizes(seed, 1+int(seed%8), 1, 3, 5)...)
}

// primCastCutsOn is primCastCuts on groups of these sizes.
func primCastCutsOn(seed uint64, sizes ...int) (Config, Workload, Protocol) {
	cfg, w, p := primCastRunOn(seed, sizes...)
	rng := rand.New(rand.NewPCG(seed, 9))
	f := &cfg.Faults
	f.Cut, f.Lag, f.LagMax = 1+rng.IntN(3), rng.IntN(3), time.Duration(1+rng.IntN(3000))*time.Millisecond
	cfg.Regions = make([][]multicast.ProcessID, 3)
	for _, g := range cfg.Groups {
		for i, p := range g.Members {
			cfg.Regions[i%3] = append(cfg.Regions[i%3], p)
		}
	}
	return cfg, w, p
}

// TestPrimCastCuts: links go down and lose frames, lag by seconds, and leaders stop one after the other.
func TestPrimCastCuts(t *testing.T) {
	var reach Reach
	seeds(t, 300, func(seed uint64) error {
		cfg, w, p := primCastCuts(seed)
		cfg.Faults.Chase = 1
		w.SendersFinish = seed%2 == 0
		return judge(cfg, w, p, &reach)
	})
	t.Logf("reached: %+v", reach)
	reach.requireMarks(t, Torn, Unsent, CutFrames, CutOneWay, CutRegion, CutSurvived, CutRestart, Late, Chased)
}

// TestPrimCastKilled: a minority of each group stops for ever. The others cannot forget its messages until it
// is replaced, so the test does not check cores at rest.
func TestPrimCastKilled(t *testing.T) {
	var reach Reach
	seeds(t, 300, func(seed uint64) error {
		cfg, w, p := primCastCuts(seed)
		cfg.Faults.Kill = 2
		p.AtRest = nil
		return judge(cfg, w, p, &reach)
	})
	t.Logf("reached: %+v", reach)
	reach.requireMarks(t, Killed, KilledMost)
	if *oneSeed == 0 && *seedCount == 0 {
		require.Greater(t, reach.Marks[Killed], 100)
	}
}

// TestPrimCastTransfers: cores keep little for members that are away, so these members often need the state
// of another member.
func TestPrimCastTransfers(t *testing.T) {
	var reach Reach
	seeds(t, 300, func(seed uint64) error {
		cfg, w, _ := primCastCuts(seed)
		w.Messages *= 2
		cfg.Faults.Crash++
		return judge(cfg, w, primCastWith(everything(seed)), &reach)
	})
	t.Logf("reached: %+v", reach)
	reach.requireMarks(t, Transferred)
}

// TestPrimCastAhead: messages are few, and often the others take over the state of a process that has just
// restarted.
func TestPrimCastAhead(t *testing.T) {
	var reach Reach
	seeds(t, 400, func(seed uint64) error {
		cfg, w, _ := primCastCuts(seed)
		w.Every *= 10
		cfg.Faults.Ahead = 5
		p := everything(seed)
		p.Retain = 64 // a message
		return judge(cfg, w, primCastWith(p), &reach)
	})
	t.Logf("reached: %+v", reach)
	reach.requireMarks(t, Transferred)
}

// TestPrimCastEverything: all faults and all extensions at once, and the killed are replaced.
func TestPrimCastEverything(t *testing.T) {
	var reach Reach
	seeds(t, 1000, func(seed uint64) error {
		cfg, w, _ := primCastCuts(seed)
		rng := rand.New(rand.NewPCG(seed, 10))
		cfg.Faults.Kill, cfg.Faults.Chase, cfg.Faults.Move = 1+rng.IntN(2), rng.IntN(2), rng.IntN(3)
		cfg.Spares = []multicast.ProcessID{1001, 1003, 1005}
		w.SendersFinish = seed%2 == 0
		w.OrderPercent, w.Reactions, w.ReactPercent = 50*rng.IntN(3), 20, 20
		p := primCastWith(everything(seed))
		p.AtRest = nil // killed processes without replacement keep others from forgetting
		return judge(cfg, w, p, &reach)
	})
	t.Logf("reached: %+v", reach)
	reach.requireMarks(t, Killed, Replaced, Transferred, Chased, Moved)
}

// everything draws the extensions of a protocol.
func everything(seed uint64) primcast.Config {
	rng := rand.New(rand.NewPCG(seed, 11))
	return primcast.Config{
		FetchAfter: 20 * time.Millisecond, SuspectAfter: 50 * time.Millisecond, Seed: seed,
		CheckpointMin: 1 << (6 + rng.IntN(12)), Retain: 1 << (7 + rng.IntN(6)), Window: 1 + rng.IntN(50),
		HybridClock: rng.IntN(2) == 0, PackDelay: time.Duration(rng.IntN(2)*rng.IntN(10)) * time.Millisecond,
	}
}
