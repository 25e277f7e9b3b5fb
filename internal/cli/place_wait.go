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
)

// askEvery is the time between two questions of `place --wait`; tellEvery is the maximum time between two
// lines of its output.
const (
	askEvery  = 500 * time.Millisecond
	tellEvery = 2 * time.Second
)

// answer is the mount's answer about a move; no task: there is none.
type answer struct {
	task *mount.Task
	err  error
}

// awaitMove shows the progress of the move of a directory until the move has ended. The end of ctx ends only
// the display.
func awaitMove(ctx context.Context, path string, out io.Writer) error {
	if _, err := getControl(ctx, path, mount.XattrRegion); err != nil {
		return err
	}
	tell := time.NewTicker(tellEvery)
	defer tell.Stop()
	answers := make(chan answer, 1)
	ask := func() { answers <- askTask(ctx, path) }
	go ask()
	say := func(text string) { fmt.Fprintf(out, "%s: %s\n", path, text) }
	counting, stop := context.WithCancel(ctx)
	defer stop()
	p := moveProgress{total: countEntries(counting, path)}
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: interrupted: the move goes on: 'globalfs place --wait %s' shows it again", path, path)
		case a := <-answers:
			switch {
			case ctx.Err() != nil:
				continue
			case a.err != nil:
				return a.err
			case a.task == nil:
				say(p.done())
				return nil
			case p.add(a.task, time.Now()):
				say(p.line(time.Now()))
				tell.Reset(tellEvery)
			}
			time.AfterFunc(askEvery, ask)
		case <-tell.C:
			if p.last == nil {
				say("the mount has not answered yet")
				continue
			}
			say(p.line(time.Now()))
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

// moveProgress is the observed progress of a move.
type moveProgress struct {
	total *atomic.Int64 // entries in the directory; 0: not counted yet
	first *mount.Task   // the first answer, and its time
	since time.Time
	last  *mount.Task
}

// add records an answer, and reports whether it differs from the last one.
func (p *moveProgress) add(t *mount.Task, now time.Time) (news bool) {
	if p.first == nil {
		p.first, p.since = t, now
	}
	news = p.last == nil || p.last.Moved != t.Moved || p.last.Paused != t.Paused || p.last.Target != t.Target
	p.last = t
	return news
}

// line returns the count and, if known, the total, the rate and the remaining time. The total is an upper
// bound: a move leaves out entries that are in place already.
func (p *moveProgress) line(now time.Time) string {
	text := fmt.Sprintf("moving to %s: %d inodes moved so far", p.last.Target, p.last.Moved)
	total := p.total.Load()
	seconds, moved := now.Sub(p.since).Seconds(), float64(p.last.Moved-min(p.first.Moved, p.last.Moved))
	if total > 0 {
		text += fmt.Sprintf(" of at most %d", max(total, int64(p.last.Moved)))
	}
	if rate := moved / max(seconds, 0.001); moved > 0 && !p.last.Paused {
		text += fmt.Sprintf(", %.0f/s", rate)
		if left := total - int64(p.last.Moved); left > 0 {
			text += fmt.Sprintf(", at most %v left", time.Duration(float64(left)/rate*float64(time.Second)).Round(time.Second))
		}
	}
	if p.last.Paused {
		text += "; paused"
	}
	return text
}

func (p *moveProgress) done() string {
	if p.last == nil {
		return "nothing is left to move"
	}
	return fmt.Sprintf("nothing is left to move: at least %d inodes were moved to %s", p.last.Moved, p.last.Target)
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
