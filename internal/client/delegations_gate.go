package client

import (
	"context"
	"slices"
	"sync"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// gate keeps updates that are not of a log away from the directory for which the client asks: such an update
// that is ordered after the grant would recall the directory. An update enters before it waits for the logs,
// and stays until its outcome is known. So it waits once: nobody asks meanwhile for a directory that it
// touches. Updates elsewhere do not wait for a request, nor the request for them.
type gate struct {
	mu     sync.Mutex
	inside map[*touch]struct{} // GUARDED_BY mu; updates
	asked  posix.Ino           // GUARDED_BY mu; the directory for which the client asks; 0: none
	turns  uint64              // GUARDED_BY mu; requests that were begun or have ended
	moved  chan struct{}       // GUARDED_BY mu; closed when an update leaves, and after a request; nil: nobody waits
}

// touch is what an update may touch, as far as the client knows. A file lives in some directory of its
// partition.
type touch struct {
	dirs [2]posix.Ino
	file posix.Ino
}

// touchOf returns what an update touches.
func touchOf(cmd *meta.Command) *touch {
	t := &touch{}
	switch cmd.Op {
	case meta.OpMknod, meta.OpUnlink, meta.OpRmdir, meta.OpRename:
		t.dirs = [2]posix.Ino{cmd.Ino, cmd.NewParent}
	case meta.OpLink:
		t.dirs[0], t.file = cmd.NewParent, cmd.Ino
	default:
		t.dirs[0], t.file = cmd.Ino, cmd.Ino
	}
	return t
}

// concerns reports whether an update may touch a directory, or a file in it.
func (t *touch) concerns(dir posix.Ino) bool {
	return slices.Contains(t.dirs[:], dir) || t.file != 0 && t.file.Partition() == dir.Partition()
}

func newGate() gate { return gate{inside: map[*touch]struct{}{}} }

// count returns how many requests were begun or have ended.
func (g *gate) count() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.turns
}

// enter waits for the end of a request that concerns an update. entered is false if a request was begun or
// has ended since count has returned turns: the caller looks again whether the update is for a log.
func (g *gate) enter(ctx context.Context, t *touch, turns uint64) (entered bool, err error) {
	err = g.wait(ctx, func() bool { return g.asked == 0 || !t.concerns(g.asked) }, func() {
		if entered = g.turns == turns; entered {
			g.inside[t] = struct{}{}
		}
	})
	return entered, err
}

// leave ends an update.
func (g *gate) leave(t *touch) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.inside, t)
	g.wake()
}

// shut begins a request for a directory: it waits for the updates inside that may touch it. After an error
// the request has ended. The caller makes one request at a time.
func (g *gate) shut(ctx context.Context, dir posix.Ino) error {
	g.mu.Lock()
	g.asked = dir
	g.turns++
	g.mu.Unlock()
	err := g.wait(ctx, func() bool {
		for t := range g.inside {
			if t.concerns(dir) {
				return false
			}
		}
		return true
	}, func() {})
	if err != nil {
		g.open()
	}
	return err
}

// open ends the request.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = 0
	g.turns++
	g.wake()
}

// wake lets waiting callers look again. The caller holds mu.
func (g *gate) wake() {
	if g.moved != nil {
		close(g.moved)
		g.moved = nil
	}
}

// wait calls then, with mu, when is is true.
func (g *gate) wait(ctx context.Context, is func() bool, then func()) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for !is() {
		if g.moved == nil {
			g.moved = make(chan struct{})
		}
		moved := g.moved
		g.mu.Unlock()
		var err error
		select {
		case <-moved:
		case <-ctx.Done():
			err = ctx.Err()
		}
		g.mu.Lock()
		if err != nil {
			return err
		}
	}
	then()
	return nil
}
