package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/test/cluster"
	"github.com/globalfs/globalfs/test/program"
	"github.com/globalfs/globalfs/test/wan"
)

var (
	duration   = flag.Duration("chaos.duration", 40*time.Second, "how long things go wrong")
	seed       = flag.Uint64("chaos.seed", rand.Uint64(), "of the faults and the load")
	pace       = flag.Duration("chaos.pace", 5*time.Second, "how long a fault lasts, about")
	clock      = flag.Bool("chaos.clock", false, "also step this machine's clock")
	figuresDir = flag.String("chaos.figures", "", "directory for what was measured, as JSON and SVG")
	order      = flag.String("chaos.order", "", "protocol that orders the partitions of a region, primcast or tram; empty: the default")
	shards     = flag.Int("chaos.partitions", 1, "partitions of each region")
	within     = flag.Duration("chaos.within", 5*time.Second, "how soon after a fault all must be well")
)

var regions = []topology.Region{"us-west-2", "us-east-1", "eu-west-1"}

// diskBytes is the size of a server's disk.
const diskBytes = 256 << 20

// world is a cluster in a laboratory with a mount in each region.
type world struct {
	t       *testing.T
	dir     string
	lab     *wan.Lab
	cluster *cluster.Cluster
	mounts  []*cluster.Mount // one a region
}

// newWorld starts nine servers in three regions.
func newWorld(t *testing.T) *world {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root, for network namespaces and mounts")
	}
	etcd, err := cluster.FindEtcd()
	if err != nil {
		t.Skipf("no etcd: deploy/deps.sh test fetches it (%v)", err)
	}
	dir, err := os.MkdirTemp("", "chaos")
	require.NoError(t, err)
	w := &world{t: t, dir: dir}
	t.Cleanup(w.close)
	hosts := []wan.Host{}
	for _, r := range regions {
		for d := range 3 {
			hosts = append(hosts, wan.Host{Name: fmt.Sprintf("%s%c", r, 'a'+d), Region: r})
		}
		hosts = append(hosts, wan.Host{Name: "client-" + string(r), Region: r})
	}
	w.lab, err = wan.New(wan.Config{Hosts: hosts, Seed: *seed})
	if errors.Is(err, wan.ErrUnavailable) {
		t.Skip(err)
	}
	require.NoError(t, err)
	w.disks()
	t.Setenv(clocksVariable, filepath.Join(dir, "clocks"))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "clocks"), 0o755))
	w.cluster, err = cluster.Start(t.Context(), cluster.Config{
		Program: binary(t), Etcd: etcd, Dir: dir, Regions: regions, Datacenters: 3, Replicas: 3, Copies: 2, Lab: w.lab,
		LocalOrder: *order, Partitions: *shards,
	})
	require.NoError(t, err)
	for _, r := range regions {
		m, err := w.cluster.Mount(t.Context(), r, "client-"+string(r), filepath.Join(dir, "mnt", string(r)), "--timeout", mountTimeout.String())
		require.NoError(t, err)
		w.mounts = append(w.mounts, m)
	}
	return w
}

// build builds the program once, with clocks of its own.
var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "chaos-bin")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "globalfs")
	overlay, err := overlayClock(dir)
	if err != nil {
		return "", err
	}
	if err := program.Build(path, "-overlay", overlay); err != nil {
		return "", err
	}
	return path, nil
})

func binary(t *testing.T) string {
	path, err := build()
	require.NoError(t, err)
	return path
}

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := build(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// disks gives each server its own file system, so that a test can fill it.
func (w *world) disks() {
	for _, r := range regions {
		for d := range 3 {
			dir := filepath.Join(w.dir, "data", fmt.Sprintf("%s%c", r, 'a'+d))
			require.NoError(w.t, os.MkdirAll(dir, 0o700))
			require.NoError(w.t, unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", diskBytes)))
		}
	}
}

// close stops everything, and keeps the logs if the test has failed.
func (w *world) close() {
	if w.cluster != nil {
		if err := w.cluster.Close(); err != nil {
			w.t.Errorf("close: %v", err)
		}
	}
	if w.lab != nil {
		if err := w.lab.Close(); err != nil {
			w.t.Errorf("close the laboratory: %v", err)
		}
	}
	disks, _ := filepath.Glob(filepath.Join(w.dir, "data", "*"))
	for _, dir := range disks {
		_ = unix.Unmount(dir, unix.MNT_DETACH) // not all were mounted if the test was skipped
	}
	if w.t.Failed() {
		w.t.Logf("the logs are in %s", w.dir)
		return
	}
	if err := os.RemoveAll(w.dir); err != nil {
		w.t.Errorf("remove: %v", err)
	}
}

// load starts the workers, and returns the function that stops them.
func (w *world) load(t *tally) (workers []*fileWorker, end func()) {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for i, m := range w.mounts {
		name := fmt.Sprintf("worker-%d", i)
		worker, err := newFileWorker(*seed+uint64(i), t,
			filepath.Join(m.Dir, name),                                            // global
			filepath.Join(m.Dir, string(regions[i]), name),                        // near
			filepath.Join(m.Dir, string(regions[(i+1)%len(regions)]), name+"far")) // far
		require.NoError(w.t, err)
		workers = append(workers, worker)
		running.Go(func() { worker.run(ctx) })
	}
	compiler := &compileWorker{dir: filepath.Join(w.mounts[0].Dir, string(regions[0]), "compile"), tally: t}
	require.NoError(w.t, os.MkdirAll(compiler.dir, 0o755))
	running.Go(func() { compiler.run(ctx) })
	return workers, func() {
		stop()
		running.Wait()
	}
}

// recovered measures the time from now until each mount has changed each partition.
func (w *world) recovered(limit time.Duration) (time.Duration, error) {
	began := time.Now()
	var probing sync.WaitGroup
	failed := make([]error, len(w.mounts)*(len(regions)+1))
	for i, m := range w.mounts {
		for p := range len(regions) + 1 {
			dir := m.Dir
			if p > 0 {
				dir = filepath.Join(m.Dir, string(regions[p-1]))
			}
			probing.Go(func() {
				failed[i*(len(regions)+1)+p] = probe(filepath.Join(dir, fmt.Sprintf("probe-%d", i)), began.Add(limit))
			})
		}
	}
	probing.Wait()
	return time.Since(began), errors.Join(failed...)
}

// probe writes a file until that succeeds.
func probe(path string, until time.Time) error {
	for {
		err := os.WriteFile(path, []byte(time.Now().String()), 0o644)
		if err == nil || time.Now().After(until) {
			return err
		}
	}
}

func TestChaos(t *testing.T) {
	w := newWorld(t)
	t.Logf("seed %d", *seed)
	counts := &tally{doubt: map[unix.Errno]int{}}
	workers, end := w.load(counts)
	sampling, stop := context.WithCancel(t.Context())
	var perSecond []float64
	var sampler sync.WaitGroup
	sampler.Go(func() { perSecond = counts.progress(sampling) })
	var used []usage
	sampler.Go(func() { used = w.usages(sampling) })
	events := w.harass(counts)
	stop()
	sampler.Wait()
	end()
	r := counts.results(events)
	r.PerSecond, r.Usage = perSecond, used
	w.report(r)
	w.requirePlateau(used)
	require.Empty(t, counts.wrong)
	w.compare(workers)
	require.Empty(t, counts.wrong)
	out, err := w.cluster.Run(t.Context(), "fsck", "--blocks", w.mounts[0].Dir)
	require.NoError(t, err, out)
	w.awaitHealthy()
	w.compareReplicas()
	var slow []string
	for _, e := range events {
		if e.Recovered > within.Seconds() {
			slow = append(slow, fmt.Sprintf("%s: %.3f s", e.Fault, e.Recovered))
		}
	}
	require.Empty(t, slow, "recovery after the end of the fault")
}

// awaitHealthy waits until the status has no problems: every replica takes part again.
func (w *world) awaitHealthy() {
	require.EventuallyWithT(w.t, func(c *assert.CollectT) {
		h, err := w.health()
		assert.NoError(c, err)
		assert.Empty(c, h.Problems)
	}, 3*time.Minute, time.Second)
}

// compareReplicas waits until the replicas of each partition have been compared after the end of the load,
// and have the same state. No replica may have differed and been replaced before.
func (w *world) compareReplicas() {
	w.t.Helper()
	first, err := w.health()
	require.NoError(w.t, err)
	require.Len(w.t, first.Partitions, len(regions)**shards+1)
	require.EventuallyWithT(w.t, func(c *assert.CollectT) {
		h, err := w.health()
		if !assert.NoError(c, err) {
			return
		}
		for i, p := range h.Partitions {
			assert.Greater(c, p.Compared, first.Partitions[i].Applied, "partition %d", p.ID)
		}
	}, 3*time.Minute, time.Second)
	for name, server := range w.cluster.Servers {
		said, err := os.ReadFile(server.Log)
		require.NoError(w.t, err)
		require.False(w.t, bytes.Contains(said, []byte(daemon.LogDiverged)), "the log of %s tells of a replica that differs from others", name)
	}
}

func (w *world) health() (h daemon.Health, err error) {
	out, _ := w.cluster.Admin(w.t.Context(), "status", "-o", "json") // an error means that there are problems
	err = json.Unmarshal([]byte(out), &h)
	return h, err
}

// harass causes one fault after the other.
func (w *world) harass(counts *tally) (events []event) {
	a := &adversary{cluster: w.cluster, lab: w.lab, regions: regions, rng: rand.New(rand.NewPCG(*seed, 1)), clock: *clock, clocks: filepath.Join(w.dir, "clocks")}
	began := time.Now()
	kinds := a.kinds()
	for n := 0; time.Since(began) < *duration; n++ {
		if n > 0 && n%len(kinds) == 0 { // the first round has the order of kinds: a short run has its first kinds
			a.rng.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
		}
		f := kinds[n%len(kinds)]()
		if f.settles && time.Since(began) > *duration*3/4 {
			continue // the fault would take longer than the rest of the run
		}
		e := w.suffer(f, began, counts)
		w.t.Logf("%6.1fs %-40s lasted %5.1fs, recovered in %6.3fs, %d operations", e.At, e.Fault, e.Lasted, e.Recovered, e.Done)
		events = append(events, e)
	}
	return events
}

// mountTimeout is the timeout of the mounts' operations.
const mountTimeout = 10 * time.Second

// lasts draws the duration of a fault: about the pace, and sometimes longer than the timeout of mounts.
func lasts() time.Duration {
	if rand.IntN(6) == 0 {
		return mountTimeout + rand.N(*pace)
	}
	return *pace/2 + rand.N(*pace)
}

// suffer causes a fault for a while, and measures the recovery.
func (w *world) suffer(f fault, began time.Time, counts *tally) event {
	before := counts.acknowledged()
	e := event{Fault: f.name, At: time.Since(began).Seconds()}
	require.NoError(w.t, f.begin(w.t.Context()), f.name)
	select {
	case <-time.After(lasts()):
	case <-w.t.Context().Done():
	}
	require.NoError(w.t, f.end(w.t.Context()), f.name)
	e.Lasted = time.Since(began).Seconds() - e.At
	recovered, err := w.recovered(60 * time.Second)
	require.NoError(w.t, err, "after %s", f.name)
	e.Recovered, e.Done = recovered.Seconds(), counts.acknowledged()-before
	return e
}

// compare checks all files through all other mounts, after these have seen the updates of the writers.
func (w *world) compare(workers []*fileWorker) {
	for i, worker := range workers {
		token, err := w.cluster.Run(w.t.Context(), "token", w.mounts[i].Dir)
		require.NoError(w.t, err)
		for j, m := range w.mounts {
			if i == j {
				continue
			}
			_, err := w.cluster.Run(w.t.Context(), "wait", token[:len(token)-1], m.Dir)
			require.NoError(w.t, err)
			require.NoError(w.t, worker.checkAll(w.mounts[i].Dir, m.Dir))
		}
	}
}

// report prints the results, and writes them to files if requested.
func (w *world) report(r *results) {
	var recoveries []float64
	for _, e := range r.Events {
		recoveries = append(recoveries, e.Recovered)
	}
	slices.Sort(recoveries)
	w.t.Logf("%d faults; %d operations acknowledged, in doubt %v; %d programs built, %d builds failed; recovery median %.3f s, longest %.3f s",
		len(r.Events), r.Done, r.Doubt, r.Builds, r.Broken, recoveries[len(recoveries)/2], recoveries[len(recoveries)-1])
	if *figuresDir != "" {
		r.write(w, *figuresDir)
	}
}
