package sim

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// forgets draws a run with slow disks. Senders stop after early frames have arrived, and before the records
// of the same steps are durable. So they forget proposals that other processes have.
func forgets(seed uint64) (Config, Workload, Protocol) {
	cfg, w, _ := primCastCutsOn(seed, sizes(seed, 1+int(seed%3), 3, 3, 5)...)
	rng := rand.New(rand.NewPCG(seed, 15))
	cfg.LatencyMax = time.Duration(2+rng.IntN(10)) * time.Millisecond
	cfg.DiskMax = time.Duration(10+rng.IntN(40)) * time.Millisecond
	cfg.Faults.Every *= time.Duration(1 + rng.IntN(8))
	cfg.Faults.Chase, cfg.Faults.Move = rng.IntN(2), rng.IntN(2)
	cfg.Faults.ForgetPercent = 2 + rng.IntN(20)
	w.Messages, w.Every = 3*w.Messages, w.Every/2
	pc := everything(seed)
	pc.SuspectAfter = time.Duration(60+rng.IntN(200)) * time.Millisecond
	return cfg, w, primCastWith(pc)
}

// TestPrimCastForgets: a primary that has forgotten proposals resigns. Nothing that a quorum accepted is
// lost.
func TestPrimCastForgets(t *testing.T) {
	var reach Reach
	seeds(t, 500, func(seed uint64) error {
		cfg, w, p := forgets(seed)
		w.SendersFinish = seed%2 == 0
		return judge(cfg, w, p, &reach)
	})
	t.Logf("reached: %+v", reach)
	reach.requireMarks(t, Forgotten, Torn, Unsent, CutFrames)
}

// TestPrimCastForgetsAndReplaces: members are killed and replaced meanwhile.
func TestPrimCastForgetsAndReplaces(t *testing.T) {
	var reach Reach
	seeds(t, 300, func(seed uint64) error {
		cfg, w, p := forgets(seed)
		cfg.Faults.Kill, cfg.Spares = 1+int(seed%3), []multicast.ProcessID{1001, 1003, 1005}
		p.AtRest = nil
		return judge(cfg, w, p, &reach)
	})
	t.Logf("reached: %+v", reach)
	reach.requireMarks(t, Forgotten, Killed, Replaced)
}
