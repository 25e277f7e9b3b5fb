package growth

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/globalfs/globalfs/internal/digest"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/test/cluster"
)

// Config of a run.
type Config struct {
	Program    string        // the globalfs binary
	Holder     []string      // starts a process that runs Hold
	Etcd       string        // the etcd binary
	Dir        string        // an empty directory, for the data of the cluster
	Durability string        // of the servers: sync or os
	Sizes      []int         // files in the partition, ascending
	Directory  int           // files in one directory, at most; the others are in directories of 1,000
	Operations int           // of each kind at each size
	Skip       []string      // some of Measures
	Open       int           // files that are open at the last size, 50,000 through each mount; 0: this is not measured
	Idle       int           // idle mounts at the last size; 0: this is not measured
	Sessions   int           // idle sessions of the client library at the last size; 0: this is not measured
	Client     []string      // starts a process that runs ServeSessions
	Window     time.Duration // for which idle servers, mounts and sessions are observed
	Progress   func(what string)
}

// Measures are the measurements at each size that a run can skip.
func Measures() []string { return []string{"rest", "operations", "fsck", "backup", "transfer"} }

// Validate names the field that is wrong.
func (c *Config) Validate() error {
	if len(c.Sizes) == 0 || c.Operations < 1 || c.Directory < 1 || c.Open < 0 || c.Idle < 0 || c.Sessions < 0 || c.Window <= 0 {
		return errors.New("give at least one size, one operation and one file in the directory, and no negative number")
	}
	for _, name := range c.Skip {
		if !slices.Contains(Measures(), name) {
			return fmt.Errorf("a run cannot skip %q, only %s", name, strings.Join(Measures(), ", "))
		}
	}
	last := c.Operations
	for _, n := range c.Sizes {
		if n < last {
			return fmt.Errorf("size %d: sizes must ascend, and begin with at least as many files as there are operations (%d)", n, c.Operations)
		}
		last = n
	}
	return nil
}

// The partition with the files, and its region.
const (
	partition uint16          = 1
	region    topology.Region = "west"
)

// run is one run.
type run struct {
	Config
	cluster *cluster.Cluster
	mount   *cluster.Mount
	plan    plan
	files   int // made so far
}

// Run measures all sizes.
func Run(ctx context.Context, cfg Config) (_ *Report, err error) {
	if err := os.Mkdir(filepath.Join(cfg.Dir, "cluster"), 0o700); err != nil {
		return nil, err
	}
	cfg.Progress("three servers, three replicas, TLS, durability " + cfg.Durability)
	c, err := cluster.Start(ctx, cluster.Config{
		Program: cfg.Program, Etcd: cfg.Etcd, Dir: filepath.Join(cfg.Dir, "cluster"),
		Regions: []topology.Region{region}, Datacenters: 3, Replicas: 3, Copies: 2, Durability: cfg.Durability,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	r := &run{Config: cfg, cluster: c}
	if err := r.begin(ctx); err != nil {
		return nil, err
	}
	report := &Report{Durability: cfg.Durability, Directory: cfg.Directory, Operations: cfg.Operations}
	for _, n := range cfg.Sizes {
		p, err := r.point(ctx, n)
		if err != nil {
			return report, fmt.Errorf("%d files: %w", n, err)
		}
		report.Points = append(report.Points, *p)
	}
	return report, r.crowds(ctx, report)
}

// begin makes the directories of the files.
func (r *run) begin(ctx context.Context) error {
	m, err := r.cluster.Mount(ctx, region, "", filepath.Join(r.Dir, "mount"))
	if err != nil {
		return err
	}
	r.mount = m
	for name, ino := range map[string]*posix.Ino{"one": &r.plan.dir, "more": &r.plan.more} {
		dir := r.path(name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		*ino = posix.Ino(info.Sys().(*syscall.Stat_t).Ino)
	}
	r.plan.directory = r.Directory
	return m.Close()
}

// path returns a path in the mounted directory of the region.
func (r *run) path(parts ...string) string {
	return filepath.Join(append([]string{r.mount.Dir, string(region)}, parts...)...)
}

// point makes files until the partition has n, and measures.
func (r *run) point(ctx context.Context, n int) (*Point, error) {
	p := &Point{Files: n}
	r.Progress(fmt.Sprintf("%d files: make them", n))
	if err := r.grow(ctx, n); err != nil {
		return nil, err
	}
	for _, measure := range []struct {
		what string
		do   func(context.Context, *Point) error
	}{
		{"start", r.start}, {"rest", r.rest}, {"operations", r.operations}, {"fsck", r.fsck}, {"backup", r.backup}, {"transfer", r.transfer},
	} {
		if slices.Contains(r.Skip, measure.what) {
			continue
		}
		r.Progress(fmt.Sprintf("%d files: %s", n, measure.what))
		if err := measure.do(ctx, p); err != nil {
			return nil, fmt.Errorf("%s: %w", measure.what, err)
		}
	}
	return p, nil
}

// grow stops the servers and makes files in their stores. It makes them in one store and copies the store to
// the other servers: stores with equal digests have equal entries.
func (r *run) grow(ctx context.Context, n int) error {
	if err := r.settled(ctx); err != nil {
		return err
	}
	for _, name := range r.cluster.Names() {
		if err := r.cluster.Servers[name].Stop(); err != nil {
			return err
		}
	}
	names := r.cluster.Names()
	sums := make([]digest.Sum, len(names))
	for i, name := range names {
		var err error
		if sums[i], err = sumOf(r.store(name)); err != nil {
			return fmt.Errorf("server %s: %w", name, err)
		}
		if sums[i] != sums[0] {
			return fmt.Errorf("the replicas have executed different entries: their digests are %v", sums[:i+1])
		}
	}
	if err := r.plan.fill(ctx, r.store(names[0]), partition, r.files, n); err != nil {
		return err
	}
	for _, name := range names[1:] {
		err := os.RemoveAll(r.store(name))
		if err = errors.Join(err, os.CopyFS(r.store(name), os.DirFS(r.store(names[0])))); err != nil {
			return err
		}
	}
	r.files = n
	return nil
}

// store returns the directory of the partition's store on a server.
func (r *run) store(server string) string {
	return filepath.Join(r.cluster.DataDir(server), fmt.Sprintf("partition-%d", partition), "state")
}

// start starts the servers and notes their times and memory. Their first start is not the measured one: it
// compacts the files of a bulk write.
func (r *run) start(ctx context.Context, p *Point) error {
	for round := range 2 {
		began := time.Now()
		for _, name := range r.cluster.Names() {
			if err := r.cluster.Servers[name].Start(ctx); err != nil {
				return err
			}
		}
		if err := r.settled(ctx); err != nil {
			return err
		}
		p.Start = time.Since(began)
		if round == 0 {
			for _, name := range r.cluster.Names() {
				if err := r.cluster.Servers[name].Stop(); err != nil {
					return err
				}
			}
		}
	}
	var err error
	p.Store, err = sizeOf(r.store(r.cluster.Names()[0]))
	return err
}
