package mover

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// page is the number of entries of one query of a directory. A walk holds one page in memory for each level
// of its depth.
const page = 128

// walk goes through a subtree once, depth first.
type walk struct {
	*work
	directoriesOnly bool
	levels          []level
}

// level is a directory on the path of a walk.
type level struct {
	dir    posix.Ino
	target uint16
	rule   meta.Rule // of dir: the placement of its children; empty for most
	cookie uint64    // of the last entry taken
	ended  bool
	below  []below // directories among the entries taken that are to be walked
}

type below struct {
	dir    posix.Ino
	target uint16
}

// run moves the inodes of the subtree to their targets. The top directory is the first. Then come the entries
// of each directory, page by page. run walks the directories of a page before it reads the next page.
func (w *walk) run(ctx context.Context) error {
	top := level{dir: w.task.Dir, target: w.task.Target, rule: w.placements[w.task.Dir].Rule}
	if !isRoot(top.dir) {
		if err := w.settle(ctx, top.dir, top.target); err != nil {
			return err
		}
	}
	w.levels = []level{top}
	for len(w.levels) > 0 {
		at := &w.levels[len(w.levels)-1]
		switch last := len(at.below) - 1; {
		case last >= 0:
			next := at.below[last]
			at.below = at.below[:last]
			w.levels = append(w.levels, level{dir: next.dir, target: next.target})
		case at.ended:
			w.levels = w.levels[:len(w.levels)-1]
		default:
			if err := w.step(ctx, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// targetOf returns the partition for an entry of a directory: directories without a rule above them spread
// over the shards of the region.
func (w *walk) targetOf(at *level, e *meta.Entry) uint16 {
	if e.Attr.Mode.IsDir() && at.rule.IsZero() {
		cluster := w.mover.cfg.Client.Cluster()
		if int(at.target) >= len(cluster.Partitions) {
			return at.target // of a hostile command: the move fails
		}
		if shards := cluster.Shards(cluster.Partitions[at.target].Region); len(shards) > 1 {
			return meta.ShardOf(shards, at.dir, e.Name)
		}
	}
	return at.rule.Place(at.target, e.Name)
}

// step takes the next entries of a directory.
func (w *walk) step(ctx context.Context, at *level) error {
	entries, _, err := w.mover.cfg.Client.ReadDir(ctx, at.dir, at.cookie, page)
	if isGone(err) || errors.Is(err, posix.ENOTDIR) {
		at.ended = true // with its contents
		return nil
	}
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		at.ended = true
		return nil
	}
	at.cookie = entries[len(entries)-1].Cookie
	g, moving := errgroup.WithContext(ctx)
	g.SetLimit(w.mover.cfg.Parallel)
	for i := range entries {
		e := &entries[i]
		target := w.targetOf(at, e)
		if e.Attr.Mode.IsDir() {
			enters, err := w.enters(ctx, e.Attr.Ino)
			if err != nil {
				return errors.Join(err, g.Wait())
			}
			if !enters {
				continue
			}
			at.below = append(at.below, below{e.Attr.Ino, target})
		}
		if w.directoriesOnly && !e.Attr.Mode.IsDir() || isAt(e, target) {
			continue
		}
		g.Go(func() error { return w.settle(moving, e.Attr.Ino, target) })
	}
	return g.Wait()
}

// enters reports whether a directory with its contents belongs to this task.
func (w *walk) enters(ctx context.Context, dir posix.Ino) (bool, error) {
	if _, placed := w.placements[dir]; placed || isRoot(dir) {
		return false, nil
	}
	if other, found := w.otherTasks[dir]; found && (taskID{other.Partition, dir}) != w.id {
		// Two tasks with two targets would never end.
		err := w.set(ctx, other, meta.TaskDone)
		if err != nil && !errors.Is(err, errOver) {
			return false, err
		}
		delete(w.otherTasks, dir)
	}
	return true, nil
}

// isAt reports whether an entry shows for sure that its inode is in a partition. An inode with all attributes
// is in the partition of the directory; the place of another one may have changed.
func isAt(e *meta.Entry, partition uint16) bool { return e.Attr.Nlink > 0 && e.At == partition }

func isRoot(dir posix.Ino) bool { return dir.Counter() == posix.Root.Counter() }

// isGone reports whether err means that an inode does not exist any more.
func isGone(err error) bool { return errors.Is(err, posix.ESTALE) || errors.Is(err, posix.ENOENT) }
