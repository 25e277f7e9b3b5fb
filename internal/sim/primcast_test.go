package sim

import (
	"fmt"
	"hash/fnv"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/primcast"
)

// primCast writes checkpoints after so many bytes, asks soon for missing content, and changes primaries soon.
func primCast(checkpointMin int) Protocol {
	return primCastThatSuspects(50*time.Millisecond, checkpointMin)
}

func primCastThatSuspects(suspectAfter time.Duration, checkpointMin int) Protocol {
	return primCastWith(primcast.Config{
		FetchAfter: 20 * time.Millisecond, SuspectAfter: suspectAfter, CheckpointMin: checkpointMin,
	})
}

func primCastWith(cfg primcast.Config) Protocol {
	cfg.AuditEvery = 16
	make := func(self, dead multicast.ProcessID, groups []multicast.Group, delivered multicast.Progress) (multicast.Core, error) {
		start := fnv.New32a()
		fmt.Fprint(start, self, delivered)
		cfg.Overlap = start.Sum32()%4 != 0 // sometimes other than before a restart
		cfg.Self, cfg.Replaces, cfg.Groups, cfg.Delivered = self, dead, groups, delivered
		return primcast.New(cfg)
	}
	return Protocol{
		New: func(self multicast.ProcessID, groups []multicast.Group, delivered multicast.Progress) (multicast.Core, error) {
			return make(self, 0, groups, delivered)
		},
		NewSpare: make,
		Leads:    func(core multicast.Core) bool { return core.(*primcast.Core).Stats().State == primcast.Primary },
		Replace:  askToReplace,
		AtRest: func(core multicast.Core) error {
			// The next frames carry the news of durable state, so the closing messages may still be there.
			s := core.(*primcast.Core).Stats()
			if s.Entries > 2 || s.Pending > 0 || s.BadFrames+s.BadPackets+s.Refused > 0 {
				return fmt.Errorf("%+v", s)
			}
			return nil
		},
	}
}

// askToReplace asks some process of the group, again and again until the change is made: the part of an
// operator.
func askToReplace(n *Network, group multicast.GroupID, what multicast.Replacement, done func()) {
	p := n.ids[n.Rand().IntN(len(n.ids))]
	if n.Up(p) && n.Node(p).(*coreNode).machine.run.groupOf(p) == group {
		members := n.Node(p).(*coreNode).core.(*primcast.Core).Members(group)
		if (what.New == 0 || slices.Contains(members, what.New)) && !slices.Contains(members, what.Old) {
			done()
			return
		}
		n.Replace(p, what)
	}
	n.Schedule(n.Now()+100*time.Millisecond, func() { askToReplace(n, group, what, done) })
}

// TestPrimCastSlow: all frames are late and none is lost.
func TestPrimCastSlow(t *testing.T) {
	var reach Reach
	seeds(t, 500, func(seed uint64) error {
		cfg, w, p := primCastRun(seed)
		cfg.Faults.Reset, cfg.Faults.Crash, cfg.Faults.CrashAll = 0, 0, 0
		return judge(cfg, w, p, &reach)
	})
	require.Zero(t, reach.Restarts)
}

// TestPrimCastResets: links restart between processes that live on.
func TestPrimCastResets(t *testing.T) {
	var reach Reach
	seeds(t, 500, func(seed uint64) error {
		cfg, w, p := primCastRun(seed)
		cfg.Faults.Reset++
		cfg.Faults.Crash, cfg.Faults.CrashAll = 0, 0
		return judge(cfg, w, p, &reach)
	})
}

// TestPrimCastCrashes: processes stop and restart, one at a time and all at once.
func TestPrimCastCrashes(t *testing.T) {
	var reach Reach
	seeds(t, 1000, func(seed uint64) error {
		cfg, w, p := primCastRun(seed)
		w.SendersFinish = true
		return judge(cfg, w, p, &reach)
	})
	t.Logf("reached: %+v", reach)
	if *oneSeed == 0 && *seedCount == 0 {
		require.Greater(t, reach.Restarts, 2000)
		require.Greater(t, reach.Repeated, 2000)
		require.Greater(t, reach.Checkpoints, 2000)
	}
}

// TestPrimCastSendersCrash: a sender also stops while only some destinations have received its message.
func TestPrimCastSendersCrash(t *testing.T) {
	var reach Reach
	seeds(t, 1000, func(seed uint64) error {
		cfg, w, p := primCastRun(seed)
		return judge(cfg, w, p, &reach)
	})
	t.Logf("reached: %+v", reach)
	if *oneSeed == 0 && *seedCount == 0 {
		require.Greater(t, reach.Lost, 500)
	}
}

// primCastRun draws a run with all faults.
func primCastRun(seed uint64) (Config, Workload, Protocol) {
	return primCastRunOn(seed, sizes(seed, 1+int(seed%8), 1, 3, 5)...)
}

// primCastRunOn is primCastRun on groups of these sizes.
func primCastRunOn(seed uint64, sizes ...int) (Config, Workload, Protocol) {
	cfg, rng := config(seed, sizes...)
	cfg.Faults = Faults{
		Every: time.Duration(5+rng.IntN(60)) * time.Millisecond, Longest: 100 * time.Millisecond,
		Pause: rng.IntN(3), Stall: rng.IntN(3), Reset: rng.IntN(3), SlowDisk: rng.IntN(3), Jump: 1, Crash: rng.IntN(4), CrashAll: rng.IntN(2),
	}
	w := everybody(&cfg, 5+rng.IntN(30), time.Duration(1+rng.IntN(20))*time.Millisecond)
	w.AfterPercent, w.AgainPercent, w.Payload = 10*rng.IntN(3), 10*rng.IntN(2), 20
	return cfg, w, primCast(1 << (6 + rng.IntN(12)))
}
