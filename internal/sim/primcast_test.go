package sim

import (
	"testing"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/primcast"
)

func newPrimCast(self multicast.ProcessID, groups []multicast.Group, delivered multicast.Position) (multicast.Core, error) {
	return primcast.New(primcast.Config{Self: self, Groups: groups, Delivered: delivered})
}

// TestPrimCastSlow: everything late and nothing lost.
func TestPrimCastSlow(t *testing.T) {
	seeds(t, 500, func(seed uint64) error {
		cfg, w := primCastRun(seed)
		cfg.Faults.Reset, cfg.Faults.Crash, cfg.Faults.CrashAll = 0, 0, 0
		return judge(cfg, w, newPrimCast)
	})
}

// TestPrimCastResets: links restart between processes that live on.
func TestPrimCastResets(t *testing.T) {
	seeds(t, 500, func(seed uint64) error {
		cfg, w := primCastRun(seed)
		cfg.Faults.Crash, cfg.Faults.CrashAll = 0, 0
		return judge(cfg, w, newPrimCast)
	})
}

// TestPrimCastCrashes: processes stop and restart, one at a time and all at once.
func TestPrimCastCrashes(t *testing.T) {
	seeds(t, 500, func(seed uint64) error {
		cfg, w := primCastRun(seed)
		w.SendersFinish = true
		return judge(cfg, w, newPrimCast)
	})
}

func primCastRun(seed uint64) (Config, Workload) {
	cfg, rng := config(seed, sizes(seed, 1+int(seed%8), 1, 3, 5)...)
	cfg.Faults = Faults{
		Every: time.Duration(5+rng.IntN(60)) * time.Millisecond, Longest: 100 * time.Millisecond,
		Pause: rng.IntN(3), Stall: rng.IntN(3), Reset: rng.IntN(3), SlowDisk: rng.IntN(3), Jump: 1, Crash: rng.IntN(4), CrashAll: rng.IntN(2),
	}
	w := everybody(&cfg, 5+rng.IntN(30), time.Duration(1+rng.IntN(20))*time.Millisecond)
	w.AfterPercent, w.Payload = 10*rng.IntN(3), 20
	if rng.IntN(20) == 0 {
		w.Payload = 1 << 17 // so that checkpoints are taken
	}
	return cfg, w
}
