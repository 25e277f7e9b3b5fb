package transport

import (
	"context"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// Cut replaces the cuts of the network: nothing passes between two processes for which cut returns true. cut
// must be symmetric and quick; nil heals everything. Frames that are under way over a cut link are lost, and
// the link starts again after the cut. A lost call gets no error: its caller waits until its context ends.
func (l *Local) Cut(cut func(a, b multicast.ProcessID) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	for _, p := range l.pairs {
		switch {
		case l.isCut(p.low, p.high):
			p.started = false
		case !p.started:
			l.start(p)
		}
	}
}

// isCut reports whether two processes are cut from each other. l.mu is held.
func (l *Local) isCut(a, b multicast.ProcessID) bool {
	return a != b && l.cut != nil && l.cut(a, b)
}

// pass waits until ctx ends if two processes are cut from each other.
func (l *Local) pass(ctx context.Context, from, to multicast.ProcessID) error {
	l.mu.Lock()
	cut := l.isCut(from, to)
	l.mu.Unlock()
	if !cut {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}
