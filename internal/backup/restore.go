package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/globalfs/globalfs/internal/cross"
	"github.com/globalfs/globalfs/internal/durable"
	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

// maxProblems bounds the problems of a report.
const maxProblems = 100

// Report is the result of reading a backup.
type Report struct {
	ID       string   `json:"id"`
	Blocks   uint64   `json:"blocks"`            // that the restored files name
	Read     uint64   `json:"blocks_read"`       // of these, read back from the repository or put into a cluster
	Finished int      `json:"commands_finished"` // of several partitions: that were open, and are executed by a restore
	Aborted  int      `json:"commands_aborted"`
	Lost     uint64   `json:"blocks_lost,omitempty"` // without a copy when the backup was made
	Problems []string `json:"problems"`
}

// opened are the states of a backup as a restore makes them, in temporary stores.
type opened struct {
	*Report
	manifest *Manifest
	dir      string
	stores   []*kv.Store
}

func (x *opened) close() error {
	var errs []error
	for _, s := range x.stores {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(x.dir))...)
}

// partitionDir returns the directory of a partition in dir, which is the directory of a server or of opened.
func partitionDir(dir string, p uint16) string {
	return filepath.Join(dir, topology.PartitionDir(p))
}

// open reads the states of a backup, and makes them the first states of a cluster. The caller closes them.
func (r *Repository) open(ctx context.Context, id string, o *Options) (_ *opened, err error) {
	m, err := r.Find(ctx, id)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(o.Scratch, "globalfs-restore-")
	if err != nil {
		return nil, err
	}
	x := &opened{Report: &Report{ID: m.ID, Problems: []string{}}, manifest: m, dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, x.close())
		}
	}()
	var keys []meta.Keys
	o.Progress.Count(uint64(len(m.Partitions)), "partitions", "reading the metadata")
	for i := range m.Partitions {
		p := &m.Partitions[i]
		store, err := kv.Open(filepath.Join(partitionDir(dir, p.ID), "state"), kv.Options{})
		if err != nil {
			return nil, err
		}
		x.stores, keys = append(x.stores, store), append(keys, store)
		if err := r.load(ctx, p, store); err != nil {
			return nil, err
		}
		o.Progress.Add(1)
	}
	found, err := cross.Contradictions(keys)
	if err != nil {
		return nil, err
	}
	x.Problems = append(x.Problems, found...)
	done, err := refound(m.ID, x.stores)
	if err != nil {
		return nil, err
	}
	x.Finished, x.Aborted = done.Committed, done.Aborted
	o.Progress.Begin("checking the metadata")
	for p, k := range keys {
		for _, what := range meta.Check(k) {
			x.Problems = append(x.Problems, fmt.Sprintf("partition %d: %s", p, what))
		}
	}
	x.Problems = append(x.Problems, meta.CheckAll(keys)...)
	x.Problems = x.Problems[:min(len(x.Problems), maxProblems)]
	for _, s := range x.stores {
		if err := s.Commit(true); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// Verify reads a backup back: all metadata, as a restore would make it, and all blocks.
func (r *Repository) Verify(ctx context.Context, id string, o Options) (_ *Report, err error) {
	x, err := r.open(ctx, id, &o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, x.close()) }()
	problems, err := r.eachBlock(ctx, x, &o, func(uint16, posix.BlockID, []byte) error { return nil })
	x.Problems = append(x.Problems, problems...)
	return x.Report, err
}

// RestoreBlocks puts the blocks of a backup into the storage of a cluster that was restored from it.
func (r *Repository) RestoreBlocks(ctx context.Context, id string, c Cluster, o Options) (_ *Report, err error) {
	x, err := r.open(ctx, id, &o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, x.close()) }()
	problems, err := r.eachBlock(ctx, x, &o, func(p uint16, id posix.BlockID, data []byte) error { return c.PutBlock(ctx, p, id, data) })
	x.Problems = append(x.Problems, problems...)
	return x.Report, err
}

// eachBlock reads all blocks that the states name. It returns those that are missing or damaged; an error
// ends it.
func (r *Repository) eachBlock(ctx context.Context, x *opened, o *Options, do func(uint16, posix.BlockID, []byte) error) (problems []string, err error) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	bad := make(chan string, parallel)
	all := make(chan []string)
	go func() {
		var found []string
		for b := range bad {
			if len(found) < maxProblems {
				found = append(found, b)
			}
		}
		all <- found
	}()
	o.Progress.Count(x.manifest.BlockCount, "blocks", "reading the blocks")
	var read atomic.Uint64
	lost := map[string]bool{}
	for _, id := range x.manifest.Lost {
		lost[id] = true
	}
	for p, s := range x.stores {
		for id := range meta.Held(s) {
			if ctx.Err() != nil {
				break
			}
			x.Report.Blocks++
			if lost[id.String()] {
				x.Report.Lost++
				o.Progress.Add(1)
				continue
			}
			g.Go(func() error {
				defer o.Progress.Add(1)
				data, err := r.block(ctx, id)
				switch {
				case err != nil && ctx.Err() != nil:
					return err
				case err != nil:
					bad <- fmt.Sprintf("block %v of partition %d: %v", id, p, err)
					return nil
				}
				read.Add(1)
				return do(uint16(p), id, data)
			})
		}
	}
	err = g.Wait()
	close(bad)
	x.Read = read.Load()
	for _, s := range x.stores {
		err = errors.Join(err, s.Err()) // it may have ended the blocks early
	}
	return <-all, err
}

// Mark is the file in the directory of a server that names the backup which the directory was restored from
// (package daemon).
type Mark struct {
	File       string
	Incomplete string // content of the file until the directory is complete: no server starts on it
	Added      string // the file with the partitions that the cluster file does not give
}

// RestoreMetadata makes the data directories of servers of a new cluster, which must not have started: dirs
// are the directories by the names of the servers. Partitions that were added to the cluster of the backup
// are added to spec.
func (r *Repository) RestoreMetadata(ctx context.Context, id string, spec topology.Spec, dirs map[string]string, mark Mark, o Options) (_ *Report, err error) {
	for _, dir := range dirs {
		if err := mark.checkEmpty(dir); err != nil {
			return nil, err
		}
	}
	x, err := r.open(ctx, id, &o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(x.dir)) }()
	for _, s := range x.stores {
		err = errors.Join(err, s.Close())
	}
	var plan *topology.Cluster
	if err == nil {
		plan, err = x.fit(&spec)
	}
	if err == nil && len(x.Problems) > 0 {
		err = fmt.Errorf("backup %s has problems: 'globalfs backup verify' shows them; use another backup: %s", x.ID, x.Problems[0])
	}
	if err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(dirs))
	for i, name := range names {
		if err := x.install(plan, spec.Added, name, dirs[name], mark); err != nil {
			err = fmt.Errorf("server %s: %w", name, err)
			for _, made := range names[:i+1] { // a server would start on the complete ones
				err = errors.Join(err, x.uninstall(dirs[made], mark))
			}
			return nil, err
		}
	}
	return x.Report, nil
}

// checkEmpty fails if a data directory holds anything.
func (m *Mark) checkEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if text, err := os.ReadFile(filepath.Join(dir, m.File)); err == nil && strings.TrimSpace(string(text)) == m.Incomplete {
		return fmt.Errorf("%s is incomplete: a restore into it was interrupted; remove the directory and restore again", dir)
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s is not empty: it has %q; move it away: a restored server needs a new directory", dir, entries[0].Name())
	}
	return nil
}

// fit returns the cluster of spec with all partitions of the backup. It fails if this cluster cannot hold the
// states: numbers of inodes name their partitions.
func (x *opened) fit(spec *topology.Spec) (*topology.Cluster, error) {
	var paths []string
	for _, p := range x.manifest.Partitions {
		paths = append(paths, p.Path)
	}
	if err := spec.AddMissing(paths); err != nil {
		return nil, fmt.Errorf("the cluster file gives fewer partitions than the backup has: %w", err)
	}
	plan, err := spec.Plan()
	if err != nil {
		return nil, err
	}
	if len(plan.Partitions) != len(x.manifest.Partitions) {
		return nil, fmt.Errorf("the cluster file gives %d partitions, and the backup has %d: name the same regions in the same order; their servers may be elsewhere", len(plan.Partitions), len(x.manifest.Partitions))
	}
	for i, p := range plan.Partitions {
		if p.Path != x.manifest.Partitions[i].Path {
			return nil, fmt.Errorf("partition %d of the cluster file is %s, and %s in the backup: name the same regions in the same order; their servers may be elsewhere", i, p.Path, x.manifest.Partitions[i].Path)
		}
	}
	return plan, nil
}

// install makes the directory of a server. The mark says first that the directory is incomplete, and names
// the backup last: a restore that is killed leaves no directory that a server starts on.
func (x *opened) install(plan *topology.Cluster, added []topology.Addition, name, dir string, mark Mark) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(dir, mark.File), []byte(mark.Incomplete+"\n")); err != nil {
		return err
	}
	for _, p := range plan.Partitions {
		for _, r := range p.Replicas {
			if r.Server != name {
				continue
			}
			to := partitionDir(dir, p.ID)
			if err := copyDir(filepath.Join(partitionDir(x.dir, p.ID), "state"), filepath.Join(to, "state")); err != nil {
				return err
			}
			// As a server leaves it that is about to start a new replica (package daemon).
			if err := durable.WriteFile(filepath.Join(to, "process"), fmt.Appendf(nil, "%d new\n", r.Process)); err != nil {
				return err
			}
		}
	}
	if len(added) > 0 {
		if err := durable.WriteFile(filepath.Join(dir, mark.Added), topology.EncodeAdded(added)); err != nil {
			return err
		}
	}
	return durable.WriteFile(filepath.Join(dir, mark.File), []byte(x.ID+"\n"))
}

// uninstall removes the files of a failed install: the directory was empty. The mark goes last.
func (x *opened) uninstall(dir string, mark Mark) (err error) {
	for _, p := range x.manifest.Partitions {
		err = errors.Join(err, os.RemoveAll(partitionDir(dir, p.ID)))
	}
	if mark.Added != "" {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, mark.Added)))
	}
	if err == nil {
		err = os.RemoveAll(filepath.Join(dir, mark.File))
	}
	return err
}

// copyDir copies the files of a directory, and syncs them.
func copyDir(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	for _, e := range entries {
		if err := copyFile(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return durable.SyncDir(to)
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return errors.Join(err, in.Close())
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close(), in.Close())
}
