package fsck

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/registry"
	"github.com/globalfs/globalfs/internal/replica"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Offline checks the data directory of a stopped 'globalfs dev'. The error is the reason why the check was
// impossible; a damaged store is not an error but a Problem.
func Offline(ctx context.Context, dir string, o Options) (r Report, err error) {
	unlock, err := claim(dir)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	plan, err := readPlan(ctx, dir)
	if err != nil {
		return Report{}, err
	}
	dirs := map[string]string{}
	for _, s := range plan.Servers {
		dirs[s.Name] = filepath.Join(dir, s.Name)
	}
	return Servers(ctx, plan, dirs, o)
}

// Servers checks the data directories of the servers of a stopped cluster, by their names. The caller
// prevents a start of these servers. The replicas of servers without a directory are not checked.
func Servers(ctx context.Context, plan *topology.Cluster, dirs map[string]string, o Options) (r Report, err error) {
	c := &offline{dirs: dirs, plan: plan, report: Report{Problems: []Problem{}}}
	defer func() { err = errors.Join(err, c.close()) }()
	var absent []string
	for _, s := range plan.Servers {
		if dirs[s.Name] == "" {
			absent = append(absent, s.Name)
		}
	}
	if len(absent) > 0 {
		c.report.Notes = append(c.report.Notes, fmt.Sprintf("data directories that are not here: %s: their replicas and blocks were not checked", strings.Join(absent, ", ")))
	}
	var newest []meta.Reader
	o.Progress.Count(uint64(len(plan.Partitions)), "partitions", "checking the replicas")
	for i := range plan.Partitions {
		if err := ctx.Err(); err != nil {
			return Report{}, err
		}
		if keys := c.partition(&plan.Partitions[i]); keys != nil {
			newest = append(newest, keys)
		}
		o.Progress.Add(1)
	}
	if len(newest) < len(plan.Partitions) {
		c.report.Notes = append(c.report.Notes, "a partition has no replica here that can be read: references between partitions, and blocks, were not checked")
		return c.report, nil
	}
	o.Progress.Begin("checking the references between partitions")
	c.report.across(newest)
	if o.Blocks > 0 {
		err = c.blocks(ctx, &o, newest)
	}
	return c.report, err
}

// claim prevents a start of the cluster in dir during the check, and refuses a running cluster.
func claim(dir string) (unlock func() error, err error) {
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is not a data directory: name that of 'globalfs dev', or DATA_DIR/NAME of a server", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("data directory %s is in use: stop its cluster, or check it through one of its mounts", dir), lock.Close())
	}
	return lock.Close, nil
}

// readPlan returns the cluster as its registry describes it.
func readPlan(ctx context.Context, dir string) (*topology.Cluster, error) {
	path := filepath.Join(dir, registry.LocalFile)
	r, err := registry.OpenLocal(path)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	document, err := r.Load(ctx)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	spec, err := topology.ParseSpec(document.Value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return spec.Plan()
}

// offline is a check of the data directories of servers.
type offline struct {
	dirs   map[string]string // by server
	plan   *topology.Cluster
	open   []*kv.Store
	report Report
}

func (c *offline) close() error {
	var errs []error
	for _, s := range c.open {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// copyOf is a replica's store with its position.
type copyOf struct {
	where    string
	keys     *kv.Store
	position multicast.Position
}

// partition checks the replicas of p, and returns the store of the most advanced replica, which has executed
// all entries that any replica has reported to another partition. If several replicas are equally advanced
// and have different states, the store is one of the majority. nil: no store can be read.
func (c *offline) partition(p *topology.Partition) meta.Keys {
	states := map[multicast.Position][]*copyOf{}
	for i := range p.Replicas {
		if one, ok := c.replica(p, &p.Replicas[i]); ok {
			states[one.position] = append(states[one.position], one)
		}
	}
	var newest *copyOf
	looked := 0
	for _, position := range slices.SortedFunc(maps.Keys(states), multicast.Position.Compare) {
		best, readable := c.compare(states[position])
		looked += readable
		if best != nil {
			newest = best
		}
	}
	if newest == nil {
		return nil
	}
	c.report.Partitions = append(c.report.Partitions, count(p.ID, newest.keys, looked))
	return newest.keys
}

// compare checks replicas that have executed the same commands, and compares their states. It reports the
// replicas that differ from the majority. It returns a replica of the majority, or the first one if there is
// no majority, and the number of readable replicas.
func (c *offline) compare(copies []*copyOf) (best *copyOf, readable int) {
	for len(copies) > 0 {
		best, what := majority(copies)
		found := map[*copyOf][]string{best: meta.Check(best.keys)}
		for i, w := range what {
			if w != "" {
				found[copies[i]] = append(meta.Check(copies[i].keys), fmt.Sprintf("it has executed the same commands as %s, but %s", best.where, w))
			}
		}
		damaged := func(one *copyOf) bool { return one.keys.Err() != nil }
		if !slices.ContainsFunc(copies, damaged) {
			for _, one := range copies {
				c.report.add(one.where, found[one]...)
			}
			return best, len(copies)
		}
		for _, one := range copies { // report these first: they may be the reason for the other findings
			if damaged(one) {
				c.report.add(one.where, one.keys.Err().Error())
			}
		}
		copies = slices.DeleteFunc(copies, damaged)
	}
	return nil, 0
}

// majority returns a copy with the state of most copies, and the difference of each copy from it.
func majority(copies []*copyOf) (best *copyOf, what []string) {
	most := 0
	for _, one := range copies {
		differences, same := make([]string, len(copies)), 0
		for i, other := range copies {
			if other != one {
				differences[i] = differ(one.keys, other.keys)
			}
			if differences[i] == "" {
				same++
			}
		}
		if same > most {
			best, what, most = one, differences, same
		}
		if 2*most > len(copies) {
			break
		}
	}
	return best, what
}

// replica opens the store of a replica.
func (c *offline) replica(p *topology.Partition, r *topology.Replica) (*copyOf, bool) {
	state := &copyOf{where: fmt.Sprintf("%s on %s", partitionName(p.ID), r.Server)}
	if c.dirs[r.Server] == "" {
		return nil, false
	}
	dir := filepath.Join(c.dirs[r.Server], topology.PartitionDir(p.ID), "state")
	if _, err := os.Stat(dir); err != nil {
		c.report.add(state.where, fmt.Sprintf("there is no store: %v", err))
		return nil, false
	}
	var err error
	if state.keys, err = kv.Open(dir, kv.Options{}); err != nil {
		c.report.add(state.where, err.Error())
		return nil, false
	}
	c.open = append(c.open, state.keys)
	if state.position, _, err = replica.Positions(state.keys); err != nil {
		c.report.add(state.where, err.Error())
		return nil, false
	}
	return state, true
}
