package client

import (
	"context"
	"sync"
)

// gate is open for updates that are not of a log, and closed while the client asks for a directory: an update
// of this client that is ordered after the grant would recall the directory.
type gate struct {
	mu      sync.Mutex
	running int           // GUARDED_BY mu; updates
	closed  bool          // GUARDED_BY mu
	turns   uint64        // GUARDED_BY mu; how often it was closed or opened
	moved   chan struct{} // GUARDED_BY mu; closed when it opens, and when no update is running; nil: nobody waits
}

// count returns how often the gate was closed or opened.
func (g *gate) count() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.turns
}

// enter waits until the gate is open. entered is false if the gate has moved since count has returned turns:
// the caller looks again whether the update is for a log.
func (g *gate) enter(ctx context.Context, turns uint64) (entered bool, err error) {
	err = g.wait(ctx, func() bool { return !g.closed }, func() {
		if entered = g.turns == turns; entered {
			g.running++
		}
	})
	return entered, err
}

// leave ends an update.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running--; g.running == 0 {
		g.wake()
	}
}

// shut closes the gate, and waits for the updates that are running. After an error the gate is open.
func (g *gate) shut(ctx context.Context) error {
	g.mu.Lock()
	g.closed = true
	g.turns++
	g.mu.Unlock()
	err := g.wait(ctx, func() bool { return g.running == 0 }, func() {})
	if err != nil {
		g.open()
	}
	return err
}

// open opens the gate.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = false
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
