package client

import (
	"context"
	"slices"
	"sync"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// gate excludes, during a request for a directory, updates of this directory that are not executed in a log.
// Such an update, ordered after the grant, would recall the directory. An update enters the gate before it
// waits for the logs, and leaves it when its outcome is known. So an update waits only once: while it is
// inside, the client requests no directory that it touches. Updates of other directories and the request do
// not wait for each other.
type gate struct {
	mu        sync.Mutex
	inside    map[*touch]struct{} // GUARDED_BY mu; the updates that have entered
	requested posix.Ino           // GUARDED_BY mu; the directory that the client requests; 0: none
	turns     uint64              // GUARDED_BY mu; the number of begins and ends of requests
	moved     chan struct{}       // GUARDED_BY mu; closed when an update leaves, and after a request; nil: no waiters
}

// touch has the inodes that an update may touch, as far as the client knows. The directory of a file may be
// any directory of the file's partition.
type touch struct {
	dirs [2]posix.Ino
	file posix.Ino
}

// touchOf returns the inodes that an update may touch.
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

// count returns the number of begins and ends of requests so far.
func (g *gate) count() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.turns
}

// enter waits for the end of a request that concerns an update, and then lets the update enter. entered is
// false if a request was begun or has ended since count has returned turns. Then the caller must check again
// whether it can execute the update in a log.
func (g *gate) enter(ctx context.Context, t *touch, turns uint64) (entered bool, err error) {
	err = g.wait(ctx, func() bool { return g.requested == 0 || !t.concerns(g.requested) }, func() {
		if entered = g.turns == turns; entered {
			g.inside[t] = struct{}{}
		}
	})
	return entered, err
}

// leave removes an update from the gate.
func (g *gate) leave(t *touch) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.inside, t)
	g.wake()
}

// shut begins a request for a directory. It waits for the updates inside that may touch the directory. After
// an error the request has ended. The caller begins one request at a time.
func (g *gate) shut(ctx context.Context, dir posix.Ino) error {
	g.mu.Lock()
	g.requested = dir
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
	g.requested = 0
	g.turns++
	g.wake()
}

// wake wakes the callers of wait. The caller holds mu.
func (g *gate) wake() {
	if g.moved != nil {
		close(g.moved)
		g.moved = nil
	}
}

// wait waits until ready returns true, and then calls then. mu is held during the calls of ready and then.
func (g *gate) wait(ctx context.Context, ready func() bool, then func()) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for !ready() {
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
