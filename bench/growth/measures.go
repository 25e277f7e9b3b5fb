package growth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/globalfs/globalfs/internal/bench"
	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/pause"
)

// operations measures with a new mount in the one directory.
func (r *run) operations(ctx context.Context, p *Point) (err error) {
	if err := r.mount.Start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.mount.Close()) }()
	had := min(p.Files, r.Directory)
	rng := rand.New(rand.NewPCG(1, uint64(p.Files)))
	old := func(int) string { return r.path("one", nameOf(rng.IntN(had))) }
	fresh := func(i int) string { return r.path("one", fmt.Sprintf("new-%d", i)) }
	renamed := func(i int) string { return r.path("one", fmt.Sprintf("renamed-%d", i)) }
	for _, m := range []struct {
		into, cpu *time.Duration
		do        func(i int) error
	}{
		{&p.Stat, &p.StatCPU, func(i int) error { _, err := os.Lstat(old(i)); return err }},
		{&p.Create, &p.CreateCPU, func(i int) error { return create(fresh(i)) }},
		{&p.Rename, &p.RenameCPU, func(i int) error { return os.Rename(fresh(i), renamed(i)) }},
		{&p.Unlink, &p.UnlinkCPU, func(i int) error { return os.Remove(renamed(i)) }},
	} {
		before, err := r.cpu()
		if err != nil {
			return err
		}
		if *m.into, err = r.median(ctx, m.do); err != nil {
			return err
		}
		after, err := r.cpu()
		if err != nil {
			return err
		}
		*m.cpu = (after - before) / time.Duration(r.Operations)
	}
	began := time.Now()
	names, err := os.ReadDir(r.path("one"))
	if err != nil {
		return err
	}
	if len(names) != had {
		return fmt.Errorf("the directory has %d names, and %d were made", len(names), had)
	}
	p.List = time.Since(began)
	if p.ServerMemory, err = r.largest("VmRSS"); err != nil {
		return err
	}
	p.MountMemory, err = memory(r.mount.PID(), "VmRSS")
	return err
}

// cpu returns the processor time of the servers and of the mount so far.
func (r *run) cpu() (total time.Duration, err error) {
	pids := []int{r.mount.PID()}
	for _, name := range r.cluster.Names() {
		pids = append(pids, r.cluster.Servers[name].PID())
	}
	for _, pid := range pids {
		used, err := bench.ProcessTime(pid)
		if err != nil {
			return 0, err
		}
		total += used
	}
	return total, nil
}

// create makes an empty file.
func create(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// median returns the median time of the operations.
func (r *run) median(ctx context.Context, do func(i int) error) (time.Duration, error) {
	return medianOf(ctx, r.Operations, do)
}

func medianOf(ctx context.Context, count int, do func(i int) error) (time.Duration, error) {
	all := make([]time.Duration, count)
	for i := range all {
		began := time.Now()
		if err := errors.Join(do(i), ctx.Err()); err != nil {
			return 0, err
		}
		all[i] = time.Since(began)
	}
	slices.Sort(all)
	return all[len(all)/2], nil
}

// fsck measures the check of the running cluster.
func (r *run) fsck(ctx context.Context, p *Point) (err error) {
	if err := r.mount.Start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.mount.Close()) }()
	began := time.Now()
	_, err = r.cluster.Run(ctx, "fsck", r.mount.Dir)
	p.Fsck = time.Since(began)
	if err != nil {
		return err
	}
	p.FsckMemory, err = memory(r.mount.PID(), "VmHWM")
	return err
}

// backup measures a first backup, and another one to the same repository.
func (r *run) backup(ctx context.Context, p *Point) (err error) {
	dir := filepath.Join(r.Dir, "backup")
	for _, into := range []*time.Duration{&p.Backup, &p.NextBackup} {
		began := time.Now()
		if _, err := r.cluster.Admin(ctx, "backup", "create", dir); err != nil {
			return err
		}
		*into = time.Since(began)
	}
	return os.RemoveAll(dir)
}

// transfer deletes the data of a server and measures the time until all replicas have the same state again.
func (r *run) transfer(ctx context.Context, p *Point) error {
	names := r.cluster.Names()
	last := r.cluster.Servers[names[len(names)-1]]
	if err := last.Stop(); err != nil {
		return err
	}
	if err := os.RemoveAll(r.cluster.DataDir(names[len(names)-1])); err != nil {
		return err
	}
	began := time.Now()
	if err := last.Start(ctx); err != nil {
		return err
	}
	if err := r.settled(ctx); err != nil {
		return err
	}
	p.Transfer = time.Since(began)
	var err error
	if p.ReceiverMemory, err = memory(last.PID(), "VmHWM"); err != nil {
		return err
	}
	p.DonorMemory, err = r.largest("VmHWM", names[:len(names)-1]...)
	return err
}

// largest returns a field of memory of the server with the most, of those with the names or of all.
func (r *run) largest(field string, names ...string) (most int64, err error) {
	if len(names) == 0 {
		names = r.cluster.Names()
	}
	for _, name := range names {
		bytes, err := memory(r.cluster.Servers[name].PID(), field)
		if err != nil {
			return 0, err
		}
		most = max(most, bytes)
	}
	return most, nil
}

// settled waits until all replicas of all partitions run, and have executed the same entries.
func (r *run) settled(ctx context.Context) error {
	for {
		out, err := r.cluster.Admin(ctx, "status", "-o", "json") // exits with 5 while replicas are away
		var health daemon.Health
		if decoded := json.Unmarshal([]byte(out), &health); decoded == nil && even(health.Partitions) {
			return nil
		}
		if waited := pause.For(ctx, pollTime); waited != nil {
			return errors.Join(waited, err)
		}
	}
}

const pollTime = 50 * time.Millisecond

// even reports whether all replicas run, and none is behind.
func even(partitions []daemon.PartitionHealth) bool {
	for _, p := range partitions {
		for _, replica := range p.Replicas {
			if !replica.Up || replica.Lag != 0 {
				return false
			}
		}
	}
	return len(partitions) > 0
}

// memory returns a field of /proc/PID/status, in bytes.
func memory(pid int, field string) (int64, error) {
	path := fmt.Sprintf("/proc/%d/status", pid)
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(text) {
		if fields := bytes.Fields(line); len(fields) == 3 && string(fields[0]) == field+":" {
			kib, err := strconv.ParseInt(string(fields[1]), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("%s has no %s", path, field)
}

// sizeOf returns the bytes of the files in a directory.
func sizeOf(dir string) (bytes int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			bytes += info.Size()
		}
		return err
	})
	return bytes, err
}
