package mover

import (
	"context"
	"slices"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// learn reads the placements and tasks that decide the targets of a walk. It ends a task that is not valid
// any more.
func (w *work) learn(ctx context.Context) error {
	c := w.mover.cfg.Client
	placements, err := c.Placements(ctx)
	if err != nil {
		return err
	}
	w.placements, w.otherTasks = map[posix.Ino]meta.Placement{}, map[posix.Ino]client.PartitionTask{}
	for _, p := range placements {
		w.placements[p.Dir] = p
	}
	for _, p := range c.Cluster().Partitions {
		tasks, err := c.PartitionTasks(ctx, p.ID)
		if err != nil {
			w.mover.cfg.Logger.Debug("mover: the tasks of a partition cannot be read: going on without", "partition", p.ID, "error", err)
		}
		for _, t := range tasks {
			w.otherTasks[t.Dir] = client.PartitionTask{Partition: p.ID, Task: t}
		}
	}
	valid, err := w.valid(ctx)
	if err != nil || valid {
		return err
	}
	w.mover.cfg.Logger.Info("mover: a subtree stays: since it was to be moved, its directory was placed or renamed elsewhere",
		"dir", w.task.Dir, "target", w.task.Target, "moved", w.moved.Load())
	if err := w.set(ctx, w.self(w.moved.Load()), meta.TaskDone); err != nil {
		return err
	}
	return errOver
}

// valid reports whether the directory of the task still belongs to the target of the task. A placed directory
// belongs to the partition of its placement. Another one belongs to the partition of its parent, or to the
// one that a rule of the parent names. If several renames left two tasks in several partitions, one is valid.
func (w *work) valid(ctx context.Context) (bool, error) {
	if p, ok := w.placements[w.task.Dir]; ok {
		return p.Target == w.task.Target, nil
	}
	at, rule, err := w.above(ctx)
	if isGone(err) {
		return false, nil
	}
	return at == w.task.Target || slices.Contains(rule.Spread, w.task.Target), err
}

// above returns the partition and the rule of the parent of the task's directory.
func (w *work) above(ctx context.Context) (uint16, meta.Rule, error) {
	parent, err := w.mover.cfg.Client.Lookup(ctx, w.task.Dir, "..")
	if err != nil {
		return 0, meta.Rule{}, err
	}
	_, at, err := w.mover.cfg.Client.Where(ctx, parent.Ino)
	return at, w.placements[parent.Ino].Rule, err
}
