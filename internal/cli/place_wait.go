package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/globalfs/globalfs/internal/mount"
)

// How often `place --wait` asks, and how often it says something at least.
const (
	askEvery  = 500 * time.Millisecond
	tellEvery = 2 * time.Second
)

// answer is what the mount has said of a move; no task: there is none.
type answer struct {
	task *mount.Task
	err  error
}

// awaitMove shows how the move of a directory goes on, until there is none. The end of ctx ends only the
// showing.
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
	var last *mount.Task
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
				say("nothing is left to move")
				return nil
			case last == nil:
				say("moving " + progress(a.task))
			}
			last = a.task
			time.AfterFunc(askEvery, ask)
		case <-tell.C:
			if last == nil {
				say("the mount has not answered yet")
				continue
			}
			say("moving " + progress(last))
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
