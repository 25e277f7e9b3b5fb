package client

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/client/route"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// PartitionTask is a task and the partition that has it.
type PartitionTask struct {
	Partition uint16
	meta.Task
}

// farPatience bounds queries for additional information: a partition that is out of reach must not withhold
// the rest from an operator.
const farPatience = 3 * time.Second

// Tasks returns the background moves of all partitions that answer soon. It fails only if no partition
// answers.
func (p *Placing) Tasks(ctx context.Context) ([]PartitionTask, error) {
	ctx, cancel := context.WithTimeout(ctx, min(farPatience, p.cfg.Timeout))
	defer cancel()
	tasks, errs := make([][]meta.Task, p.router.Partitions()), make([]error, p.router.Partitions())
	var asking sync.WaitGroup
	for i := range tasks {
		asking.Go(func() { tasks[i], errs[i] = p.tasks(ctx, uint16(i)) })
	}
	asking.Wait()
	var all []PartitionTask
	answered := false
	for i := range tasks {
		answered = answered || errs[i] == nil
		for _, t := range tasks[i] {
			all = append(all, PartitionTask{uint16(i), t})
		}
	}
	if !answered {
		return nil, errs[0]
	}
	return all, nil
}

// PartitionTasks returns the tasks of background moves of a partition.
func (p *Placing) PartitionTasks(ctx context.Context, partition uint16) ([]meta.Task, error) {
	if err := p.has(partition); err != nil {
		return nil, err
	}
	ctx, cancel := p.router.Operation(ctx)
	defer cancel()
	return p.tasks(ctx, partition)
}

// tasks returns the tasks of one partition.
func (p *Placing) tasks(ctx context.Context, partition uint16) ([]meta.Task, error) {
	var all []meta.Task
	for after := posix.Ino(0); ; {
		a, err := p.router.Query(ctx, &meta.Command{Op: meta.OpTasks, Ino: after}, route.Partition(partition))
		if err != nil {
			return nil, err
		}
		page, err := meta.DecodeTasks(a.Data)
		if err != nil {
			return nil, p.outcome(fmt.Errorf("partition %d: %w", partition, err))
		}
		if len(page) == 0 {
			return all, nil
		}
		all, after = append(all, page...), page[len(page)-1].Dir
	}
}

// SetTask reports to the partition of a task that t.Moved inodes were moved so far. flags are meta.TaskPause,
// meta.TaskResume and meta.TaskDone. ENOENT if the partition has no task of this directory with this target.
func (p *Placing) SetTask(ctx context.Context, t PartitionTask, flags uint32) error {
	if err := p.has(t.Partition); err != nil {
		return err
	}
	cmd := &meta.Command{Op: meta.OpTask, Ino: t.Dir, Target: t.Target, Flags: flags, Length: t.Moved}
	_, err := p.router.Update(ctx, cmd, route.Partition(t.Partition))
	return err
}
