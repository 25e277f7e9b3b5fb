package sim

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/fabric/fabricsim"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/tram"
)

// tramDraw draws a tree of groups and a load, without faults.
func tramDraw(seed uint64) (tramConfig, *rand.Rand) {
	rng := rand.New(rand.NewPCG(seed, 12))
	cfg := tramConfig{
		seed: seed, groups: groups(sizes(seed, 5, 1, 3, 3, 5)...), parents: map[multicast.GroupID]multicast.GroupID{},
		fabric:   fabricsim.Config{Seed: seed, LatencyMin: time.Microsecond, LatencyMax: time.Duration(2+rng.IntN(30)) * time.Microsecond, Timeout: 300 * time.Microsecond},
		core:     tram.Config{Slots: []int{4, 8, 32}[rng.IntN(3)], SlotSize: 256, SuspectAfter: time.Duration(1+rng.IntN(3)) * time.Millisecond},
		messages: 10 + rng.IntN(60), every: time.Duration(5+rng.IntN(300)) * time.Microsecond,
		linger: time.Duration(rng.IntN(20)) * time.Microsecond,
	}
	cfg.core.RetryAfter = time.Duration(20+rng.IntN(300)) * time.Microsecond
	cfg.core.NoteEvery = time.Duration(20+rng.IntN(1000)) * time.Microsecond
	cfg.mostDest = len(cfg.groups)
	for i := 1; i < len(cfg.groups); i++ {
		cfg.parents[cfg.groups[i].ID] = cfg.groups[rng.IntN(i)].ID
	}
	return cfg, rng
}

// tramFaults adds faults of the fabric, of links and of processes.
func tramFaults(seed uint64) tramConfig {
	cfg, rng := tramDraw(seed)
	f := &cfg.fabric.Faults
	f.Tear, f.TearMax = 20+rng.IntN(60), time.Duration(1+rng.IntN(20))*time.Microsecond
	f.Late, f.LateMax = rng.IntN(30), time.Duration(1+rng.IntN(500))*time.Microsecond
	f.Lose, f.LoseReply = rng.IntN(4), rng.IntN(4)
	cfg.faultEvery = time.Duration(100+rng.IntN(2000)) * time.Microsecond
	cfg.longest = time.Duration(1+rng.IntN(12)) * time.Millisecond
	cfg.cut, cfg.pause, cfg.chase, cfg.kill = 1+rng.IntN(3), 1+rng.IntN(3), 1+rng.IntN(3), rng.IntN(2)
	return cfg
}

// TestTram runs stable leaders and trees of all shapes, without faults.
func TestTram(t *testing.T) {
	var reach tramReach
	seeds(t, 60, func(seed uint64) error {
		cfg, _ := tramDraw(seed)
		cfg.core.SuspectAfter = time.Second
		return runTram(cfg, &reach)
	})
	require.Zero(t, reach.Campaigns)
	require.Zero(t, reach.Failed)
}

// TestTramFaults: operations are lost before and after their execution, land in pieces and late; links are
// cut; leaders are paused and killed one after the other.
func TestTramFaults(t *testing.T) {
	var reach tramReach
	seeds(t, 120, func(seed uint64) error { return runTram(tramFaults(seed), &reach) })
	t.Logf("reached: %+v", reach)
	if *oneSeed == 0 && *seedCount == 0 {
		for what, count := range map[string]int{
			"led": reach.Led, "adopted": reach.Adopted, "helped": reach.Helped, "denied": reach.fabric.Denied, "killed": reach.killed,
			"paused": reach.paused, "cuts": reach.cuts, "torn": reach.fabric.Torn, "landed late": reach.fabric.LandedLate,
			"halved": reach.fabric.Halved, "lost replies": reach.fabric.LostReplies,
		} {
			require.Positive(t, count, what)
		}
	}
}

// tramRestartsOf adds restarts of processes and losses of power.
func tramRestartsOf(seed uint64, sync bool) tramConfig {
	cfg := tramFaults(seed)
	rng := rand.New(rand.NewPCG(seed, 13))
	cfg.restart, cfg.core.Sync = 3, sync
	cfg.syncMax = time.Duration(rng.IntN(300)) * time.Microsecond
	cfg.core.CheckpointMin = 200 + rng.IntN(5000)
	cfg.core.Keep = cfg.core.Slots << rng.IntN(4)
	cfg.replace = rng.IntN(2)
	return cfg
}

// TestTramSync: with durability sync, one process, one group or all processes lose power, under all other
// faults. No delivered message is lost.
func TestTramSync(t *testing.T) {
	tramRestart(t, 120, true, "restarted", "blackouts", "transfers", "checkpoints", "replaced", "zombies")
}

// TestTramMemory: in mode memory a process that restarts has lost everything, and has no vote until it has
// caught up.
func TestTramMemory(t *testing.T) {
	tramRestart(t, 120, false, "restarted", "recovered", "transfers", "replaced", "zombies")
}

func tramRestart(t *testing.T, count uint64, sync bool, reached ...string) {
	var reach tramReach
	seeds(t, count, func(seed uint64) error { return runTram(tramRestartsOf(seed, sync), &reach) })
	t.Logf("reached: %+v", reach)
	if *oneSeed == 0 && *seedCount == 0 {
		r := &reach.tramRestarts
		all := map[string]int{
			"restarted": r.restarted, "blackouts": r.blackouts, "recovered": r.recovered, "transfers": r.transfers,
			"checkpoints": r.checkpoints, "replaced": r.replaced, "zombies": r.zombies,
		}
		for _, what := range reached {
			require.Positive(t, all[what], what)
		}
		require.Positive(t, reach.Reborn)
	}
}

// TestTramBarrier: a barrier drains the tree amid all faults, and another tree goes on behind it. What was
// ordered before it comes before it everywhere, and the rest is multicast again.
func TestTramBarrier(t *testing.T) {
	var reach tramReach
	seeds(t, 60, func(seed uint64) error {
		cfg := tramFaults(seed)
		if seed%2 == 0 {
			cfg = tramRestartsOf(seed, seed%4 == 0)
		}
		rng := rand.New(rand.NewPCG(seed, 14))
		cfg.barrierAt = time.Duration(rng.Int64N(int64(cfg.every) * int64(cfg.messages)))
		cfg.nextParents = map[multicast.GroupID]multicast.GroupID{}
		order := rng.Perm(len(cfg.groups))
		for i := 1; i < len(order); i++ {
			cfg.nextParents[cfg.groups[order[i]].ID] = cfg.groups[order[rng.IntN(i)]].ID
		}
		return runTram(cfg, &reach)
	})
	t.Logf("reached: %+v", reach)
	if *oneSeed == 0 && *seedCount == 0 {
		require.Positive(t, reach.returned)
	}
}
