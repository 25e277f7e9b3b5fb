package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/primcast"
)

func newPrimCast(self multicast.ProcessID, groups []multicast.Group, delivered multicast.Position) (multicast.Core, error) {
	return primcast.New(primcast.Config{Self: self, Groups: groups, Delivered: delivered, FetchAfter: 20 * time.Millisecond})
}

// TestPrimCastSlow: everything late and nothing lost.
func TestPrimCastSlow(t *testing.T) {
	var reach Reach
	seeds(t, 300, func(seed uint64) error {
		cfg, w := primCastRun(seed)
		cfg.Faults.Reset, cfg.Faults.Crash, cfg.Faults.CrashAll = 0, 0, 0
		return judge(cfg, w, newPrimCast, &reach)
	})
	require.Zero(t, reach.Restarts)
}

// TestPrimCastResets: links restart between processes that live on.
func TestPrimCastResets(t *testing.T) {
	var reach Reach
	seeds(t, 300, func(seed uint64) error {
		cfg, w := primCastRun(seed)
		cfg.Faults.Reset++
		cfg.Faults.Crash, cfg.Faults.CrashAll = 0, 0
		return judge(cfg, w, newPrimCast, &reach)
	})
}

// TestPrimCastCrashes: processes stop and restart, one at a time and all at once.
func TestPrimCastCrashes(t *testing.T) {
	var reach Reach
	seeds(t, 600, func(seed uint64) error {
		cfg, w := primCastRun(seed)
		w.SendersFinish = true
		return judge(cfg, w, newPrimCast, &reach)
	})
	t.Logf("reached: %+v", reach)
	if *oneSeed == 0 {
		require.Greater(t, reach.Restarts, 600)
		require.Greater(t, reach.Repeated, 600)
	}
}

// TestPrimCastSendersCrash: a sender also stops while only some destinations have heard of its message.
func TestPrimCastSendersCrash(t *testing.T) {
	var reach Reach
	seeds(t, 600, func(seed uint64) error {
		cfg, w := primCastRun(seed)
		return judge(cfg, w, newPrimCast, &reach)
	})
	t.Logf("reached: %+v", reach)
	if *oneSeed == 0 {
		require.Greater(t, reach.Lost, 600)
	}
}

// TestPrimCastCheckpoints: so much is written that the records before it are dropped again and again.
func TestPrimCastCheckpoints(t *testing.T) {
	var reach Reach
	seeds(t, 40, func(seed uint64) error {
		cfg, w := primCastRun(seed)
		cfg.Faults.CrashAll++
		w.SendersFinish, w.Payload = true, 1<<18
		return judge(cfg, w, newPrimCast, &reach)
	})
	t.Logf("reached: %+v", reach)
	if *oneSeed == 0 {
		require.Greater(t, reach.Checkpoints, 40)
	}
}

func primCastRun(seed uint64) (Config, Workload) {
	cfg, rng := config(seed, sizes(seed, 1+int(seed%8), 1, 3, 5)...)
	cfg.Faults = Faults{
		Every: time.Duration(5+rng.IntN(60)) * time.Millisecond, Longest: 100 * time.Millisecond,
		Pause: rng.IntN(3), Stall: rng.IntN(3), Reset: rng.IntN(3), SlowDisk: rng.IntN(3), Jump: 1, Crash: rng.IntN(4), CrashAll: rng.IntN(2),
	}
	w := everybody(&cfg, 5+rng.IntN(30), time.Duration(1+rng.IntN(20))*time.Millisecond)
	w.AfterPercent, w.Payload = 10*rng.IntN(3), 20
	return cfg, w
}
