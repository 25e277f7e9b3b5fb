package mover

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/posix"
)

// Intervals of reports to the partition of a task: of the progress, with a check whether the task is still
// valid. The first interval is reportSoon; it doubles up to reportEvery.
const (
	reportSoon  = 250 * time.Millisecond
	reportEvery = 2 * time.Second
)

// Pauses after a failure, the first and the longest.
const (
	firstPause = time.Second
	maxPause   = time.Minute
)

// work is the work on one task.
type work struct {
	mover *Mover
	id    taskID
	task  meta.Task

	moved      atomic.Uint64                      // inodes, by all movers of the task
	reported   uint64                             // the part of moved that was reported
	placements map[posix.Ino]meta.Placement       // all, when the walk began
	otherTasks map[posix.Ino]client.PartitionTask // tasks, of all partitions that answered when the walk began

	mu        sync.Mutex
	stuck     map[posix.Ino]bool // GUARDED_BY mu; inodes that stay in their partition
	moves     map[posix.Ino]int  // GUARDED_BY mu; of files with several names
	postponed []error            // GUARDED_BY mu; reasons why this walk postpones inodes to the next
}

func newWork(m *Mover, id taskID, t meta.Task) *work {
	w := &work{mover: m, id: id, task: t, stuck: map[posix.Ino]bool{}, moves: map[posix.Ino]int{}, reported: t.Moved}
	w.moved.Store(t.Moved)
	return w
}

// errOver ends the work on a task that is done, paused, changed or another mover's.
var errOver = errors.New("the task is over")

// run works on the task until it is over or ctx ends.
func (w *work) run(ctx context.Context) {
	wait := firstPause
	for directoriesOnly := true; ; {
		before := w.moved.Load()
		err := w.walk(ctx, directoriesOnly)
		if err == nil && !directoriesOnly && w.moved.Load() == before {
			err = w.finish(ctx)
		}
		switch {
		case errors.Is(err, errOver) || ctx.Err() != nil:
			return
		case err == nil:
			directoriesOnly, wait = false, firstPause
			continue
		case w.moved.Load() > before:
			wait = firstPause
		}
		w.mover.cfg.Logger.Warn("mover: a subtree cannot be moved on: trying again; check that replicas and storage servers of both partitions run, and their free space",
			"dir", w.task.Dir, "target", w.task.Target, "moved", w.moved.Load(), "error", err, "pause", wait)
		if pause.Between(ctx, 3*wait/4, wait) != nil {
			return
		}
		wait = min(2*wait, maxPause)
	}
}

// walk walks the whole subtree once, when there is a slot for it. It fails if it had to leave inodes to the
// next walk.
func (w *work) walk(ctx context.Context, directoriesOnly bool) error {
	select {
	case w.mover.slots <- struct{}{}:
		defer func() { <-w.mover.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	w.postponed = nil
	if err := w.look(ctx); err != nil {
		return err
	}
	if err := w.learn(ctx); err != nil {
		return err
	}
	walking, stop := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		stop(w.watch(walking))
	}()
	err := (&walk{work: w, directoriesOnly: directoriesOnly}).run(walking)
	if err != nil && walking.Err() != nil {
		err = context.Cause(walking)
	}
	stop(nil)
	<-watched
	return errors.Join(append(w.postponed, err, w.report(ctx))...)
}

// watch reports the progress from time to time, until ctx ends or the task is over.
func (w *work) watch(ctx context.Context) error {
	for wait := reportSoon; ; wait = min(2*wait, reportEvery) {
		if err := pause.Between(ctx, 3*wait/4, wait); err != nil {
			return err
		}
		if err := w.report(ctx); err != nil {
			return err
		}
		if err := w.look(ctx); err != nil {
			return err
		}
	}
}

// look checks whether the task is unchanged: errOver if not.
func (w *work) look(ctx context.Context) error {
	if !w.mover.cfg.Mine(w.id.partition) {
		return errOver
	}
	tasks, err := w.mover.cfg.Client.PartitionTasks(ctx, w.id.partition)
	if err != nil {
		return err
	}
	now := slices.IndexFunc(tasks, func(t meta.Task) bool { return t.Dir == w.task.Dir })
	if now < 0 || tasks[now].Paused || tasks[now].Target != w.task.Target {
		return errOver
	}
	return nil
}

// report reports the progress, if it has changed.
func (w *work) report(ctx context.Context) error {
	moved := w.moved.Load()
	if moved == w.reported {
		return nil
	}
	if err := w.set(ctx, w.self(moved), 0); err != nil {
		return err
	}
	w.reported = moved
	return nil
}

// finish ends the task, which has no inodes left to move.
func (w *work) finish(ctx context.Context) error {
	if err := w.look(ctx); err != nil {
		return err
	}
	moved := w.moved.Load()
	if err := w.set(ctx, w.self(moved), meta.TaskDone); err != nil {
		return err
	}
	w.mover.cfg.Logger.Info("mover: a subtree is where it should be", "dir", w.task.Dir, "partition", w.task.Target, "moved", moved, "stuck", len(w.stuck))
	return errOver
}

// self returns the task of this work.
func (w *work) self(moved uint64) client.PartitionTask {
	return client.PartitionTask{Partition: w.id.partition, Task: meta.Task{Dir: w.task.Dir, Target: w.task.Target, Moved: moved}}
}

// set changes a task: errOver if there is none any more.
func (w *work) set(ctx context.Context, t client.PartitionTask, flags uint32) error {
	err := w.mover.cfg.Client.SetTask(ctx, t, flags)
	if errors.Is(err, posix.ENOENT) {
		return errOver
	}
	return err
}
