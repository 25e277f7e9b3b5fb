package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/primcast"
)

// hostile draws a run of three groups of three with every fault that leaves processes alive. Candidates are
// chased too, so that epochs come to nothing.
func hostile(seed uint64) (Config, Workload, Protocol) {
	cfg, rng := config(seed, 3, 3, 3)
	cfg.LatencyMax = time.Duration(2+rng.IntN(15)) * time.Millisecond
	cfg.Faults = Faults{
		Every: time.Duration(3+rng.IntN(25)) * time.Millisecond, Longest: time.Duration(60+rng.IntN(120)) * time.Millisecond,
		LagMax: time.Duration(60+rng.IntN(1000)) * time.Millisecond,
		Pause:  rng.IntN(3), Stall: rng.IntN(3), Cut: 2 + rng.IntN(5), Lag: rng.IntN(3), Reset: rng.IntN(3), Jump: rng.IntN(3),
		SlowDisk: rng.IntN(2), Crash: rng.IntN(3), CrashAll: rng.IntN(5) / 4, Chase: rng.IntN(3), Move: rng.IntN(3), Ahead: rng.IntN(2),
	}
	w := everybody(&cfg, 20+rng.IntN(60), time.Duration(1+rng.IntN(12))*time.Millisecond)
	w.AfterPercent, w.AgainPercent, w.Payload = 10*rng.IntN(3), 10*rng.IntN(2), 20
	p := primCastWith(primcast.Config{
		FetchAfter: 20 * time.Millisecond, SuspectAfter: time.Duration(10+rng.IntN(40)) * time.Millisecond, Seed: seed,
		CheckpointMin: 1 << (6 + rng.IntN(12)), Retain: 1 << (7 + rng.IntN(9)), Window: 1 + rng.IntN(50),
		HybridClock: rng.IntN(2) == 0, PackDelay: time.Duration(rng.IntN(2)*rng.IntN(10)) * time.Millisecond,
	})
	p.Replace = askAndCut
	if rng.IntN(2) == 0 {
		p.Leads = func(core multicast.Core) bool {
			s := core.(*primcast.Core).Stats().State
			return s == primcast.Primary || s == primcast.Candidate
		}
	}
	return cfg, w, p
}

// askAndCut asks for a change, and now and then cuts the group in two while the change is on its way, so that
// the two parts know different facts.
func askAndCut(n *Network, group multicast.GroupID, what multicast.Replacement, done func()) {
	askToReplace(n, group, what, done)
	for range 4 {
		n.Schedule(n.now+n.between(0, 200*time.Millisecond), func() {
			if !n.healed {
				cutInTwo(n, group)
			}
		})
	}
}

// cutInTwo cuts some processes of a group off from the others.
func cutInTwo(n *Network, group multicast.GroupID) {
	until := n.now + n.between(0, 2*n.cfg.Faults.Longest)
	var sides [2][]*process
	for _, id := range n.ids {
		if p := n.processes[id]; p.up && p.node.(*coreNode).machine.run.groupOf(id) == group {
			side := n.rng.IntN(2)
			sides[side] = append(sides[side], p)
		}
	}
	for _, p := range sides[0] {
		for _, q := range sides[1] {
			n.cutLink(p, q, until)
			n.cutLink(q, p, until)
		}
	}
}

// spares returns processes of no group.
func spares(count int) (ids []multicast.ProcessID) {
	for i := range count {
		ids = append(ids, multicast.ProcessID(1001+2*i))
	}
	return ids
}

// leftNothing is the AtRest check of runs with replaced members. Frames that such members have sent need not
// be received by any process.
func leftNothing(core multicast.Core) error {
	if s := core.(*primcast.Core).Stats(); s.Entries > 2 || s.Pending > 0 || s.BadFrames+s.Refused > 0 {
		return fmt.Errorf("%+v", s)
	}
	return nil
}

// TestPrimCastEvicted: live members are replaced, under all other faults. They send and act freely until they
// learn of it.
func TestPrimCastEvicted(t *testing.T) {
	var reach Reach
	seeds(t, 150, func(seed uint64) error {
		cfg, w, p := hostile(seed)
		cfg.Faults.Evict = 2 + rand.New(rand.NewPCG(seed, 12)).IntN(4)
		cfg.Spares = spares(9)
		p.AtRest = leftNothing
		return judge(cfg, w, p, &reach)
	})
	t.Logf("reached: %+v", reach)
	reach.requireMarks(t, Evicted, Replaced, Transferred, Chased, Retired)
}

// TestPrimCastEvictedAndKilled: beside that, others stop for ever, before a change, in the middle of it, and
// after it.
func TestPrimCastEvictedAndKilled(t *testing.T) {
	var reach Reach
	seeds(t, 200, func(seed uint64) error {
		cfg, w, p := hostile(seed)
		rng := rand.New(rand.NewPCG(seed, 13))
		cfg.Groups = groups(3, 3, 5)
		w.Dest, w.Senders = everybody(&cfg, 0, 0).Dest, everybody(&cfg, 0, 0).Senders
		cfg.Faults.Evict, cfg.Faults.Kill = 2+rng.IntN(4), 1+rng.IntN(2)
		cfg.Spares = spares(12)
		p.AtRest = nil
		return judge(cfg, w, p, &reach)
	})
	t.Logf("reached: %+v", reach)
	reach.requireMarks(t, Evicted, Replaced, Killed, KilledMost, Transferred, Chased, Retired)
}

// TestPrimCastResized: groups grow by a spare and shrink by a live member.
func TestPrimCastResized(t *testing.T) {
	var reach Reach
	seeds(t, 200, func(seed uint64) error {
		cfg, w, p := hostile(seed)
		rng := rand.New(rand.NewPCG(seed, 14))
		cfg.Groups = groups(1+rng.IntN(5), 3, 4)
		w.Dest, w.Senders = everybody(&cfg, 0, 0).Dest, everybody(&cfg, 0, 0).Senders
		cfg.Faults.Grow, cfg.Faults.Shrink, cfg.Faults.Evict = 1+rng.IntN(3), 1+rng.IntN(3), rng.IntN(2)
		cfg.Spares = spares(9)
		p.AtRest = leftNothing
		return judge(cfg, w, p, &reach)
	})
	t.Logf("reached: %+v", reach)
	reach.requireMarks(t, Grown, Shrunk, Evicted, Transferred, Chased, Retired)
}
