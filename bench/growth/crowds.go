package growth

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/globalfs/globalfs/internal/bench"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/test/cluster"
)

// Window is the default of Config.Window.
const Window = 30 * time.Second

// settle waits for half a window after operations of mounts and sessions: for ten seconds they ask for
// changes of the names that they have looked up.
func (r *run) settle(ctx context.Context) error { return pause.For(ctx, r.Window/2) }

// Servers rest when each of them took less than restPart of a processor for a tenth of a window. They are
// awaited for restMost at most.
const (
	restPart = 0.04
	restMost = 10 * time.Minute
)

// rest waits until the servers have ended the work that follows their start: compaction, and two readings of
// the whole store, for its digest and for damage.
func (r *run) rest(ctx context.Context, p *Point) error {
	for began := time.Now(); ; {
		busiest, err := r.busiest(ctx, r.Window/10)
		if p.Rest = time.Since(began); err != nil || busiest < restPart || p.Rest > restMost {
			return err
		}
	}
}

// crowds measures many open files, many idle mounts and many idle sessions.
func (r *run) crowds(ctx context.Context, report *Report) error {
	if r.Open > 0 {
		r.Progress(fmt.Sprintf("%d open files", r.Open))
		if err := r.openMany(ctx, report); err != nil {
			return fmt.Errorf("open files: %w", err)
		}
	}
	if r.Idle > 0 {
		r.Progress(fmt.Sprintf("%d idle mounts", r.Idle))
		if err := r.idleMounts(ctx, report); err != nil {
			return fmt.Errorf("idle mounts: %w", err)
		}
	}
	if r.Sessions > 0 {
		r.Progress(fmt.Sprintf("%d idle sessions", r.Sessions))
		if err := r.idleSessions(ctx, report); err != nil {
			return fmt.Errorf("idle sessions: %w", err)
		}
	}
	return nil
}

// mountFiles is the number of files that are open through one mount: its limit in a partition is 65,536.
const mountFiles = 5 * holderFiles

// openMany opens files, and keeps them open until all are measured.
func (r *run) openMany(ctx context.Context, report *Report) (err error) {
	if err := r.mount.Start(ctx); err != nil {
		return err
	}
	mounts := []*cluster.Mount{r.mount}
	var holders []*holder
	defer func() {
		for _, h := range holders {
			err = errors.Join(err, h.close())
		}
		for _, m := range mounts {
			err = errors.Join(err, m.Close())
		}
	}()
	o := &Open{Files: r.Open}
	began := time.Now()
	for from := 0; from < r.Open; from += holderFiles {
		if from/mountFiles == len(mounts) {
			m, err := r.cluster.Mount(ctx, region, "", filepath.Join(r.Dir, fmt.Sprintf("mount-%d", from)))
			if err != nil {
				return err
			}
			mounts = append(mounts, m)
		}
		h, err := hold(ctx, r.Holder, r.paths(mounts[len(mounts)-1], from, min(from+holderFiles, r.Open)))
		if err != nil {
			return err
		}
		holders = append(holders, h)
	}
	o.Mounts = len(mounts)
	o.Each = time.Since(began) / time.Duration(r.Open)
	if o.Create, err = r.median(ctx, func(i int) error { return create(r.path("one", fmt.Sprintf("beside-%d", i))) }); err != nil {
		return err
	}
	if o.MountMemory, err = memory(r.mount.PID(), "VmRSS"); err != nil {
		return err
	}
	o.ServerMemory, err = r.largest("VmRSS")
	report.Open = o
	return err
}

// paths returns the paths of files from number from on, below number to.
func (r *run) paths(m *cluster.Mount, from, to int) (all []string) {
	dir := filepath.Join(m.Dir, string(region))
	for i := from; i < to; i++ {
		if i < r.Directory {
			all = append(all, filepath.Join(dir, "one", nameOf(i)))
		} else {
			all = append(all, filepath.Join(dir, "more", branchOf(i), nameOf(i)))
		}
	}
	return all
}

// idleMounts makes mounts that look at the tree once, and observes the servers then.
func (r *run) idleMounts(ctx context.Context, report *Report) (err error) {
	var all []*cluster.Mount
	defer func() {
		for _, m := range all {
			err = errors.Join(err, m.Close())
		}
	}()
	alone, err := r.busiest(ctx, r.Window)
	if err != nil {
		return err
	}
	for i := range r.Idle {
		m, err := r.cluster.Mount(ctx, region, "", filepath.Join(r.Dir, fmt.Sprintf("idle-%d", i)))
		if err != nil {
			return err
		}
		all = append(all, m)
		if _, err := os.ReadDir(filepath.Join(m.Dir, string(region))); err != nil {
			return err
		}
	}
	if err := r.settle(ctx); err != nil {
		return err
	}
	with, err := r.busiest(ctx, r.Window)
	report.Idle = &Idle{Mounts: r.Idle, Alone: alone, With: with}
	return err
}

// busiest returns the part of a processor that the busiest server takes for a time.
func (r *run) busiest(ctx context.Context, window time.Duration) (most float64, err error) {
	before := map[string]time.Duration{}
	for _, name := range r.cluster.Names() {
		if before[name], err = bench.ProcessTime(r.cluster.Servers[name].PID()); err != nil {
			return 0, err
		}
	}
	if err := pause.For(ctx, window); err != nil {
		return 0, err
	}
	for _, name := range r.cluster.Names() {
		after, err := bench.ProcessTime(r.cluster.Servers[name].PID())
		if err != nil {
			return 0, err
		}
		most = max(most, float64(after-before[name])/float64(window))
	}
	return most, nil
}
