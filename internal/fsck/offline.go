package fsck

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/registry"
	"github.com/globalfs/globalfs/internal/replica"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Offline checks the data directory of a stopped cluster. The error is the reason why the check was
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
	c := &offline{dir: dir, plan: plan, report: Report{Problems: []Problem{}}}
	defer func() { err = errors.Join(err, c.close()) }()
	var newest []meta.Keys
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
		c.report.Notes = append(c.report.Notes, "a partition cannot be read: what partitions say of each other, and blocks, were not checked")
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

// readPlan gives the cluster as its registry describes it.
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

// offline is a check of a data directory.
type offline struct {
	dir    string
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

// partition checks the replicas of p and gives the store of the one that is ahead: it has executed all
// entries that any of them reported to another partition. Nil if no store can be read.
func (c *offline) partition(p *topology.Partition) meta.Keys {
	var newest *copyOf
	looked := 0
	states := map[multicast.Position]*copyOf{}
	for i := range p.Replicas {
		now, ok := c.replica(p, &p.Replicas[i])
		if !ok {
			continue
		}
		var found []string
		if other := states[now.position]; other == nil {
			found = meta.Check(now.keys)
		} else if what := differ(other.keys, now.keys); what != "" {
			found = append(meta.Check(now.keys), fmt.Sprintf("it has executed the same commands as %s, but %s", other.where, what))
		}
		if err := now.keys.Err(); err != nil {
			c.report.add(now.where, err.Error()) // the other findings may only follow from this one
			continue
		}
		looked++
		c.report.add(now.where, found...)
		if states[now.position] == nil {
			states[now.position] = now
		}
		if newest == nil || now.position.Compare(newest.position) > 0 {
			newest = now
		}
	}
	if newest == nil {
		return nil
	}
	c.report.Partitions = append(c.report.Partitions, count(p.ID, newest.keys, looked))
	return newest.keys
}

// replica opens the store of a replica.
func (c *offline) replica(p *topology.Partition, r *topology.Replica) (*copyOf, bool) {
	state := &copyOf{where: fmt.Sprintf("%s on %s", partitionName(p.ID), r.Server)}
	dir := filepath.Join(c.dir, r.Server, topology.PartitionDir(p.ID), "state")
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
