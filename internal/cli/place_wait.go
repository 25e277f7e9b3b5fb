package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/globalfs/globalfs/internal/mount"
	"github.com/globalfs/globalfs/internal/progress"
	"github.com/globalfs/globalfs/internal/topology"
)

// askEvery is the time between two questions of `place --wait`.
const askEvery = 500 * time.Millisecond

// answer is the mount's answer to the question for a move.
type answer struct {
	task *mount.Task // nil: nothing is being moved
	err  error
}

// awaitMove shows the progress of the move of a directory until the move has ended. The end of ctx ends only
// the display.
func awaitMove(ctx context.Context, path string, out io.Writer) (*movedTree, error) {
	if _, err := getControl(ctx, path, mount.XattrRegion); err != nil {
		return nil, err
	}
	counting, stop := context.WithCancel(ctx)
	defer stop()
	m := &moving{path: path, total: countEntries(counting, path)}
	defer showProgress(ctx, out, m.state)()
	answers := make(chan answer, 1)
	ask := func() { answers <- askTask(ctx, path) }
	go ask()
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s: interrupted: the move continues: 'globalfs place --wait %s' shows it again", path, path)
		case a := <-answers:
			switch {
			case ctx.Err() != nil:
				continue
			case a.err != nil:
				return nil, a.err
			case a.task == nil:
				return m.done(), nil
			}
			m.last.Store(a.task)
			time.AfterFunc(askEvery, ask)
		}
	}
}

func askTask(ctx context.Context, path string) (a answer) {
	value, err := readControl(ctx, path, mount.XattrTask)
	switch {
	case errors.Is(err, syscall.ENODATA):
		return answer{}
	case err != nil:
		return answer{err: explain(path, err)}
	}
	a.err = json.Unmarshal(value, &a.task)
	return a
}

// moving is the observed move of a directory.
type moving struct {
	path  string
	total *atomic.Int64              // entries in the directory; 0: not counted yet
	last  atomic.Pointer[mount.Task] // the last answer of the mount; nil: none yet
}

// state returns the progress. The total is an upper bound: a move leaves out entries that are in place
// already.
func (m *moving) state(context.Context) progress.State {
	t := m.last.Load()
	if t == nil {
		return progress.State{Doing: m.path + ": the mount has not answered yet"}
	}
	s := progress.State{Doing: fmt.Sprintf("%s: moving to %s", m.path, t.Target), Unit: "inodes", Done: t.Moved}
	if total := m.total.Load(); total > 0 {
		s.Total = max(uint64(total), t.Moved)
	}
	if t.Paused {
		s.Doing += " (paused)"
	}
	return s
}

// movedTree is the result of a move.
type movedTree struct {
	Path   string          `json:"path"`
	Target topology.Region `json:"target,omitempty"` // empty: nothing was being moved
	Moved  uint64          `json:"moved"`            // inodes, at least: those after the last answer are not counted
	Total  uint64          `json:"total,omitempty"`  // inodes of the directory; 0: they were not counted
}

func (m *moving) done() *movedTree {
	r := &movedTree{Path: m.path}
	if t := m.last.Load(); t != nil {
		r.Target, r.Moved = t.Target, t.Moved
		if total := m.total.Load(); total > 0 {
			r.Total = max(uint64(total), t.Moved)
		}
	}
	return r
}

func (r *movedTree) String() string {
	if r.Target == "" {
		return r.Path + ": nothing is left to move"
	}
	if r.Total > 0 {
		return fmt.Sprintf("%s: nothing is left to move to %s (inodes in the directory: %d)", r.Path, r.Target, r.Total)
	}
	return fmt.Sprintf("%s: nothing is left to move to %s (inodes moved: at least %d)", r.Path, r.Target, r.Moved)
}

// countEntries counts a directory and all entries below it, in the background. The result is 0 until it is
// complete, and if a part cannot be read.
func countEntries(ctx context.Context, path string) *atomic.Int64 {
	var total atomic.Int64
	go func() {
		count := int64(0)
		err := filepath.WalkDir(path, func(_ string, _ fs.DirEntry, err error) error {
			count++
			return errors.Join(err, ctx.Err())
		})
		if err == nil {
			total.Store(count)
		}
	}()
	return &total
}
