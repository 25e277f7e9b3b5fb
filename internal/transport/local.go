package transport

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Local is a network within one OS process. It appends frames to the queue of their receiver, and calls the
// handlers of requests. Bytes are shared, not copied.
type Local struct {
	delay func(from, to multicast.ProcessID) time.Duration // nil: none

	mu           sync.Mutex
	endpoints    map[multicast.ProcessID]*localEndpoint
	links        map[multicast.ProcessID]*localLinks // the open ones
	incarnations map[multicast.ProcessID]uint64      // the last incarnation of each process
	pairs        map[pairKey]*localPair
	flight       *flight                             // frames that are under way
	cut          func(a, b multicast.ProcessID) bool // see Cut; nil: nothing is cut
}

// NewLocal returns a network in which each frame, request and reply takes delay(from, to). delay must return
// at once and be safe for concurrent use; nil means no delay.
func NewLocal(delay func(from, to multicast.ProcessID) time.Duration) *Local {
	l := &Local{
		delay:        delay,
		endpoints:    map[multicast.ProcessID]*localEndpoint{},
		links:        map[multicast.ProcessID]*localLinks{},
		incarnations: map[multicast.ProcessID]uint64{},
		pairs:        map[pairKey]*localPair{},
	}
	l.flight = newFlight(l.land)
	return l
}

// Endpoint returns the network access of a process. A process has one open endpoint at a time.
func (l *Local) Endpoint(self multicast.ProcessID) Endpoint {
	l.mu.Lock()
	defer l.mu.Unlock()
	invariant.Check(l.endpoints[self] == nil, "process %d has two endpoints", self)
	e := &localEndpoint{local: l, service: newService(self)}
	l.endpoints[self] = e
	return e
}

// Close closes all endpoints.
func (l *Local) Close() error {
	l.mu.Lock()
	var open []*localEndpoint
	for _, e := range l.endpoints {
		open = append(open, e)
	}
	l.flight.stop()
	l.mu.Unlock()
	var errs []error
	for _, e := range open {
		errs = append(errs, e.Close())
	}
	return errors.Join(errs...)
}

type localEndpoint struct {
	local *Local
	*service
	links *localLinks // guarded by local.mu; nil until opened
}

func (e *localEndpoint) Links(incarnation uint64) (Links, error) {
	l := e.local
	l.mu.Lock()
	defer l.mu.Unlock()
	invariant.Check(e.links == nil, "process %d opens its links twice", e.self)
	if e.ctx.Err() != nil {
		return nil, fmt.Errorf("process %d: %w", e.self, ErrClosed)
	}
	if last := l.incarnations[e.self]; incarnation <= last {
		return nil, fmt.Errorf("process %d: incarnation %d is not higher than the last one, %d", e.self, incarnation, last)
	}
	l.incarnations[e.self] = incarnation
	e.links = &localLinks{local: l, self: e.self}
	l.links[e.self] = e.links
	l.startKnown(e.self)
	return e.links, nil
}

func (e *localEndpoint) Call(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error) {
	return e.call(ctx, request, func(ctx context.Context) ([]byte, error) {
		return abandon(ctx, func() ([]byte, error) { return e.ask(ctx, to, request) })
	})
}

// ask waits for the delay to the other process, runs its handler, and waits for the delay back.
func (e *localEndpoint) ask(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error) {
	if err := e.local.travel(ctx, e.self, to); err != nil {
		return nil, err
	}
	e.local.mu.Lock()
	other := e.local.endpoints[to]
	e.local.mu.Unlock()
	if other == nil {
		return nil, unreachable(to, "it is not running")
	}
	reply, err := other.answer(withoutPeer(ctx), request)
	if late := e.local.travel(ctx, to, e.self); late != nil {
		return nil, late
	}
	return reply, err
}

// travel waits for the delay between two processes.
func (l *Local) travel(ctx context.Context, from, to multicast.ProcessID) error {
	if d := l.between(from, to); d > 0 {
		if err := pause.For(ctx, d); err != nil {
			return err
		}
	}
	return l.pass(ctx, from, to)
}

func (l *Local) between(from, to multicast.ProcessID) time.Duration {
	if l.delay == nil || from == to {
		return 0
	}
	return l.delay(from, to)
}

func (e *localEndpoint) Close() error {
	l := e.local
	l.mu.Lock()
	links := e.links
	l.mu.Unlock()
	if links != nil {
		_ = links.Close()
	}
	e.close()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.endpoints[e.self] == e {
		delete(l.endpoints, e.self)
	}
	return nil
}
