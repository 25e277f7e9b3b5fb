package sim

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/check"
)

var (
	oneSeed   = flag.Uint64("sim.seed", 0, "run only this seed; 0: the first -sim.seeds ones")
	seedCount = flag.Uint64("sim.seeds", 0, "how many seeds each test runs; 0: what fits in a few seconds")
	traceAll  = flag.Bool("sim.trace", false, "print every event; use it with -sim.seed")
)

// TestMain raises the garbage collector's threshold: a run makes much garbage, and little of it lives. That
// saves a fifth of the processor's time.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// seeds runs a test for its seeds. The first one that fails is printed with the command
// that replays it.
func seeds(t *testing.T, usual uint64, one func(seed uint64) error) {
	t.Helper()
	first, last := uint64(1), usual
	if *seedCount != 0 {
		last = *seedCount
	}
	if *oneSeed != 0 {
		first, last = *oneSeed, *oneSeed
	}
	for seed := first; seed <= last; seed++ {
		if err := guarded(seed, one); err != nil {
			t.Fatalf("%v\nreplay: go test ./internal/sim -run '^%s$' -sim.seed=%d -sim.trace", err, t.Name(), seed)
		}
	}
}

// guarded turns a panic, as of a broken invariant, into an error.
func guarded(seed uint64, one func(seed uint64) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return one(seed)
}

// judge runs a workload, adds to the reached situations, and gives the first error.
func judge(cfg Config, w Workload, p Protocol, reach *Reach) error {
	r, err := Run(cfg, w, p)
	if err != nil {
		return err
	}
	reach.add(r.Reach)
	if len(r.Violations) > 0 {
		return fmt.Errorf("%d processes in %d groups, %d messages, %+v:\n%s",
			len(r.History.Processes), len(cfg.Groups), len(r.History.Multicasts), r.Reach, check.Describe(r.Violations))
	}
	return nil
}

// add sums up.
func (a *Reach) add(b Reach) {
	a.Restarts += b.Restarts
	a.Repeated += b.Repeated
	a.Lost += b.Lost
	a.Checkpoints += b.Checkpoints
	for m, count := range b.Marks {
		a.Marks[m] += count
	}
}

// requireMarks demands that the seeds of a test have reached each of these situations.
func (a *Reach) requireMarks(t *testing.T, marks ...Mark) {
	t.Helper()
	if *oneSeed != 0 || *seedCount != 0 {
		return
	}
	for _, m := range marks {
		require.Positive(t, a.Marks[m], "no seed got to %v", m)
	}
}

// groups makes groups of these sizes. The numbers of groups and processes have gaps and do not correspond.
func groups(sizes ...int) []multicast.Group {
	var all []multicast.Group
	next := multicast.ProcessID(1)
	for i, size := range sizes {
		g := multicast.Group{ID: multicast.GroupID(3 * i)}
		for range size {
			g.Members = append(g.Members, next)
			next += 2
		}
		all = append(all, g)
	}
	return all
}

// everybody returns a workload in which each process multicasts to all groups.
func everybody(cfg *Config, messages int, every time.Duration) Workload {
	w := Workload{Messages: messages, Every: every, MostDest: len(cfg.Groups)}
	for _, g := range cfg.Groups {
		w.Dest = append(w.Dest, g.ID)
		w.Senders = append(w.Senders, g.Members...)
	}
	return w
}

// config draws a network without faults from a seed.
func config(seed uint64, sizes ...int) (Config, *rand.Rand) {
	rng := rand.New(rand.NewPCG(seed, 7))
	cfg := Default()
	cfg.Seed = seed
	cfg.Groups = groups(sizes...)
	cfg.LatencyMax = time.Millisecond << rng.IntN(6)
	cfg.Jitter = time.Duration(rng.IntN(3)) * time.Millisecond
	cfg.Gather = time.Duration(rng.IntN(3)) * 500 * time.Microsecond
	cfg.DiskMax = time.Duration(rng.IntN(3)) * 2 * time.Millisecond
	cfg.Pipelined = rng.IntN(2) == 0
	cfg.Skew = time.Duration(rng.IntN(2)) * 100 * time.Millisecond
	cfg.Trace = tracer()
	return cfg, rng
}

// tracer is where -sim.trace writes.
func tracer() io.Writer {
	if *traceAll {
		return os.Stderr
	}
	return nil
}

// sizes draws how large groups are.
func sizes(seed uint64, most int, of ...int) []int {
	rng := rand.New(rand.NewPCG(seed, 8))
	all := make([]int, 1+rng.IntN(most))
	for i := range all {
		all[i] = of[rng.IntN(len(of))]
	}
	return all
}

func TestConfigNamesTheWrongField(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"Groups":        func(c *Config) { c.Groups = append(c.Groups, c.Groups[0]) },
		"LatencyMin":    func(c *Config) { c.LatencyMin = -1 },
		"LatencyMax":    func(c *Config) { c.LatencyMax = 0 },
		"Spares":        func(c *Config) { c.Spares = []multicast.ProcessID{1} },
		"Regions":       func(c *Config) { c.Regions = [][]multicast.ProcessID{{1, 4}} },
		"LagMax":        func(c *Config) { c.Faults.LagMax = -1 },
		"Faults: Every": func(c *Config) { c.Faults.Every = 1 },
	} {
		cfg := Default()
		require.NoError(t, cfg.Validate())
		change(&cfg)
		require.ErrorContains(t, cfg.Validate(), want)
	}
}
