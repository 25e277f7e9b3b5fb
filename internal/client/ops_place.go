package client

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

// Global is the region, so to speak, of partition 0: it has replicas in all regions.
const Global topology.Region = "global"

// Placement is where what is made in a directory is to go.
type Placement struct {
	// Region is a region of the cluster or Global. Empty, and no Spread: where the directory is, as
	// without a placement.
	Region topology.Region
	// Spread, if not empty, are the regions over which children are spread by their names.
	Spread []topology.Region
	// Move also moves what is there already, in the background: to Region, or to the first of Spread.
	Move bool
}

// Place sets where what is made in dir goes. EINVAL if the cluster has no such region.
func (c *Client) Place(ctx context.Context, cred posix.Cred, dir posix.Ino, p Placement) error {
	rule, target, err := c.rule(&p)
	if err != nil {
		return err
	}
	cmd := &meta.Command{Op: meta.OpPlace, Cred: cred, Ino: dir, Data: rule.Append(nil), Target: target}
	if p.Move {
		cmd.Flags = meta.PlaceMove
	}
	_, err = c.settle(ctx, cmd, func(ctx context.Context, look bool) (parties, error) {
		if look {
			if err := c.find(ctx, dir); err != nil {
				return parties{}, err
			}
		}
		at, err := c.at(dir)
		if err != nil {
			return parties{}, err
		}
		return among(at, at.id, table), nil
	})
	return err
}

// table is the partition that knows all placements.
const table = 0

// rule says p in numbers of partitions, and to which of them p moves what is there.
func (c *Client) rule(p *Placement) (rule meta.Rule, target uint16, err error) {
	regions := p.Spread
	if len(regions) == 0 && p.Region != "" {
		regions = []topology.Region{p.Region}
	}
	if len(regions) == 0 {
		if p.Move {
			return rule, 0, posix.EINVAL
		}
		return rule, 0, nil
	}
	names := make([]string, len(regions))
	for i, r := range regions {
		id, err := c.partitionOf(r)
		if err != nil {
			return rule, 0, err
		}
		names[i], rule.Spread = string(r), append(rule.Spread, id)
	}
	rule.Region, target = strings.Join(names, ","), rule.Spread[0]
	if p.Region != "" {
		rule.Region = string(p.Region)
		target, err = c.partitionOf(p.Region)
	}
	return rule, target, err
}

// partitionOf gives the partition of a region.
func (c *Client) partitionOf(r topology.Region) (uint16, error) {
	if r == Global {
		return 0, nil
	}
	for i := range c.cfg.Cluster.Partitions {
		if p := &c.cfg.Cluster.Partitions[i]; p.Region == r && r != "" {
			return p.ID, nil
		}
	}
	return 0, posix.EINVAL
}

// Placements gives the table of all placements.
func (c *Client) Placements(ctx context.Context) ([]meta.Placement, error) {
	ctx, cancel := c.operation(ctx)
	defer cancel()
	var all []meta.Placement
	for after := posix.Ino(0); ; {
		a, err := c.askIn(ctx, c.partitions[table], &meta.Command{Op: meta.OpRules, Ino: after})
		if err != nil {
			return nil, c.outcome(err)
		}
		page, err := meta.DecodePlacements(a.Data)
		if err != nil {
			return nil, c.outcome(fmt.Errorf("partition %d: %w", table, err))
		}
		if len(page) == 0 {
			return all, nil
		}
		all, after = append(all, page...), page[len(page)-1].Dir
	}
}

// PartitionTask is a task with the partition that has it.
type PartitionTask struct {
	Partition uint16
	meta.Task
}

// farPatience bounds what is only told beside the rest: a partition that is out of reach must not keep an operator from it.
const farPatience = 3 * time.Second

// Tasks gives what is to be moved in the background, of all partitions that answer soon. An error: none does.
func (c *Client) Tasks(ctx context.Context) ([]PartitionTask, error) {
	ctx, cancel := context.WithTimeout(ctx, min(farPatience, c.cfg.Timeout))
	defer cancel()
	tasks, errs := make([][]meta.Task, len(c.partitions)), make([]error, len(c.partitions))
	var asking sync.WaitGroup
	for i, p := range c.partitions {
		asking.Go(func() { tasks[i], errs[i] = c.tasks(ctx, p) })
	}
	asking.Wait()
	var all []PartitionTask
	answered := false
	for i, p := range c.partitions {
		answered = answered || errs[i] == nil
		for _, t := range tasks[i] {
			all = append(all, PartitionTask{p.id, t})
		}
	}
	if !answered {
		return nil, c.outcome(errs[0])
	}
	return all, nil
}

// tasks gives those of one partition.
func (c *Client) tasks(ctx context.Context, p *partition) ([]meta.Task, error) {
	var all []meta.Task
	for after := posix.Ino(0); ; {
		a, err := c.askIn(ctx, p, &meta.Command{Op: meta.OpTasks, Ino: after})
		if err != nil {
			return nil, err
		}
		page, err := meta.DecodeTasks(a.Data)
		if err != nil {
			return nil, fmt.Errorf("partition %d: %w", p.id, err)
		}
		if len(page) == 0 {
			return all, nil
		}
		all, after = append(all, page...), page[len(page)-1].Dir
	}
}

// SetTask tells the partition that has a task that t.Moved inodes were moved so far; flags are
// meta.TaskPause, meta.TaskResume and meta.TaskDone. ENOENT if it has no task of this directory with this target.
func (c *Client) SetTask(ctx context.Context, t PartitionTask, flags uint32) error {
	p, err := c.partition(t.Partition)
	if err != nil {
		return posix.EINVAL
	}
	ctx, cancel := c.operation(ctx)
	defer cancel()
	_, err = c.applyIn(ctx, parties{ask: p}, &meta.Command{Op: meta.OpTask, Ino: t.Dir, Target: t.Target, Flags: flags, Length: t.Moved})
	return c.outcome(err)
}

// Move moves one inode with all it holds to another partition. Its number and its names stay. EFBIG if that
// is too much for one command.
func (c *Client) Move(ctx context.Context, ino posix.Ino, target uint16) (posix.Attr, error) {
	if _, err := c.partition(target); err != nil {
		return posix.Attr{}, posix.EINVAL
	}
	cmd := &meta.Command{Op: meta.OpMove, Child: ino, Target: target}
	r, err := c.settle(ctx, cmd, func(ctx context.Context, _ bool) (parties, error) {
		a, err := c.askAt(ctx, &meta.Command{Op: meta.OpGetAttr, Ino: ino})
		if err != nil || a.partition.id == target {
			return parties{known: &a.Result}, err
		}
		return among(a.partition, a.partition.id, target, ino.Partition()), nil
	})
	return r.Attr, err
}
