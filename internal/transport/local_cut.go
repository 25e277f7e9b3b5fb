package transport

import (
	"context"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// Cut replaces what is cut in the network: nothing gets from a process to another one if apart says so, which
// must be symmetric and quick; nil heals everything. What is under way over a cut link is lost, and its link
// starts again after the cut. A lost call is silent: its caller waits as long as its context lasts.
func (l *Local) Cut(apart func(a, b multicast.ProcessID) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.apart = apart
	for _, p := range l.pairs {
		switch {
		case l.isCut(p.low, p.high):
			p.on = false
		case !p.on:
			l.start(p)
		}
	}
}

// isCut reports whether two processes cannot hear each other. l.mu is held.
func (l *Local) isCut(a, b multicast.ProcessID) bool {
	return a != b && l.apart != nil && l.apart(a, b)
}

// pass waits for ever, which is until ctx ends, if two processes cannot hear each other.
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
