package sim

import (
	"testing"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/primcast"
)

// outages draws a run of one group with durability `os`: single members lose power, and with it the unsynced
// records of their logs, while others stop, are cut off, and take over each other's states.
func outages(seed uint64) (Config, Workload, Protocol) {
	cfg, rng := config(seed, 3+2*int(seed%2))
	some := func(most int) time.Duration { return time.Duration(1+rng.IntN(most)) * time.Millisecond }
	cfg.LatencyMax = time.Millisecond + some(15)
	cfg.Faults = Faults{
		Every: 3*time.Millisecond + some(25), Longest: 40*time.Millisecond + some(80), LagMax: 60*time.Millisecond + some(500),
		Pause: rng.IntN(2), Cut: rng.IntN(4), Lag: rng.IntN(2), Reset: rng.IntN(3), SlowDisk: rng.IntN(2),
		Crash: rng.IntN(3), Chase: rng.IntN(2), Move: rng.IntN(2), Ahead: rng.IntN(2), Outage: 2 + rng.IntN(8),
	}
	w := everybody(&cfg, 40+rng.IntN(100), some(8))
	w.Payload, w.AgainPercent = 20, 10*rng.IntN(2)
	pc := primcast.Config{
		FetchAfter: 20 * time.Millisecond, SuspectAfter: 9*time.Millisecond + some(40), Seed: seed,
		CheckpointMin: 1 << (6 + rng.IntN(12)), Retain: 1 << (7 + rng.IntN(9)), Window: 1 + rng.IntN(50),
	}
	p := primCastWith(pc)
	p.AtRest = nil
	p.NewAmnesiac = func(self multicast.ProcessID, groups []multicast.Group, delivered multicast.Progress) (multicast.Core, error) {
		c := pc
		c.Self, c.Groups, c.Delivered, c.Amnesiac, c.AuditEvery = self, groups, delivered, true, 16
		return primcast.New(c)
	}
	p.Remembers = func(core multicast.Core) bool { return !core.(*primcast.Core).Amnesiac() }
	return cfg, w, p
}

// TestPrimCastOutages: no delivery of any process is lost, and the run continues.
func TestPrimCastOutages(t *testing.T) {
	var reach Reach
	seeds(t, 300, func(seed uint64) error {
		cfg, w, p := outages(seed)
		return judge(cfg, w, p, &reach)
	})
	t.Logf("reached: %+v", reach)
	reach.requireMarks(t, Outage, OutageLost, Transferred, Moved)
}
