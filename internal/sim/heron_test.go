package sim

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/heron"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// heronOn puts Heron on a run of TRAM.
func heronOn(cfg tramConfig, reach *heron.Stats) error {
	rng := rand.New(rand.NewPCG(cfg.seed, 13))
	h := &heronRun{
		objects: 1 + rng.IntN(4),
		core: heron.Config{
			Objects: 8, ObjectSize: 64, ChunkSize: []int{48, 64, 4096}[rng.IntN(3)], KeepUpdates: []int{1, 4, 1000}[rng.IntN(3)],
			HelpAfter: time.Duration(100+rng.IntN(2000)) * time.Microsecond, RetryAfter: cfg.core.RetryAfter,
			Patience: time.Duration(rng.IntN(2)*rng.IntN(100)) * time.Microsecond,
		},
		answers: map[multicast.MessageID]map[multicast.GroupID]heronAnswer{}, first: map[multicast.MessageID]time.Duration{},
	}
	cfg.upper = h
	cfg.linger = time.Duration(rng.IntN(2)*rng.IntN(20)) * time.Microsecond
	err := runTram(cfg, &tramReach{})
	for _, x := range h.run.processes {
		s := x.upper.core.Stats()
		reach.Malformed += s.Malformed
		reach.Failed += s.Failed
		reach.Shared += s.Shared
		reach.Remote += s.Remote
		reach.Unclear += s.Unclear
		reach.Past += s.Past
		reach.Lagged += s.Lagged
		reach.Helped += s.Helped
		reach.Delayed += s.Delayed
	}
	return err
}

// TestHeron runs stable leaders and trees of all shapes, without faults.
func TestHeron(t *testing.T) {
	var reach heron.Stats
	seeds(t, 30, func(seed uint64) error {
		cfg, _ := tramDraw(seed)
		cfg.core.SuspectAfter = time.Second
		return heronOn(cfg, &reach)
	})
	t.Logf("reached: %+v", reach)
	require.Zero(t, reach.Malformed)
	require.Zero(t, reach.Failed)
}

// TestHeronFaults has the faults of TestTramFaults. Processes that were paused or cut off become laggers.
func TestHeronFaults(t *testing.T) {
	var reach heron.Stats
	seeds(t, 60, func(seed uint64) error { return heronOn(tramFaults(seed), &reach) })
	t.Logf("reached: %+v", reach)
	require.Zero(t, reach.Malformed)
	if *oneSeed == 0 && *seedCount == 0 {
		for what, count := range map[string]int{
			"failed": reach.Failed, "shared": reach.Shared, "remote": reach.Remote, "unclear": reach.Unclear,
			"past": reach.Past, "lagged": reach.Lagged, "helped": reach.Helped, "delayed": reach.Delayed,
		} {
			require.Positive(t, count, what)
		}
	}
}
