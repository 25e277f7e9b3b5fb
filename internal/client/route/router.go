package route

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/globalfs/globalfs/internal/client/notice"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Caller makes calls to processes, as the endpoint of a transport does. Neither side changes the request or
// the reply afterwards.
type Caller interface {
	Call(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error)
}

// Config of a Router. All fields but the bools and Executed must be set.
type Config struct {
	Cluster      *topology.Cluster // the present cluster; SetCluster replaces it
	Region       topology.Region   // the client's region: the router asks the nearest replicas first
	Caller       Caller
	Linearizable bool          // all queries are fresh (C3)
	Timeout      time.Duration // time limit of one call; with Hard see C6
	Hard         bool          // calls wait until the replicas answer, however long that takes (C6)
	Renew        time.Duration // interval of the renewals of sessions: well below the lease of the replicas
	Notices      *notice.Log
	Executed     Executed // nil: updates are not reported
}

// Router sends the commands of one client. All its methods may be called concurrently. It owns one goroutine,
// which renews sessions.
type Router struct {
	cfg        Config
	cluster    atomic.Pointer[topology.Cluster] // the newest description
	partitions ByPartition[*partition]
	outdated   chan struct{} // capacity 1: see Outdated
	learned    signal        // raised when partitions were added
	net        *exchanger
	hints      hints

	lives   atomic.Pointer[lifetime]
	running sync.WaitGroup
}

// lifetime is the time from New or Resume to Suspend or Close.
type lifetime struct {
	context.Context
	end context.CancelFunc
}

// New returns a router. If from is not nil, the router continues its sessions. It sends nothing before the
// first command, unless it has sessions.
func New(cfg Config, from *State) (*Router, error) {
	r := &Router{cfg: cfg, net: &exchanger{caller: cfg.Caller, notices: cfg.Notices, tickets: newTickets(maxYoung)}, hints: newHints(), outdated: make(chan struct{}, 1)}
	r.net.hangs = func(server string) { avoidServer(r.partitions.All(), server) }
	r.setCluster(cfg.Cluster)
	if err := r.adopt(from); err != nil {
		return nil, err
	}
	r.start(from != nil)
	return r, nil
}

// start begins a lifetime. resumed means that the sessions were not renewed for a while.
func (r *Router) start(resumed bool) {
	life := r.begin(context.Background())
	r.running.Go(func() { r.renewSessions(life, resumed) })
}

func (r *Router) begin(parent context.Context) *lifetime {
	l := &lifetime{}
	l.Context, l.end = context.WithCancel(parent)
	r.lives.Store(l)
	return l
}

// life returns the present lifetime, or the last one.
func (r *Router) life() context.Context { return r.lives.Load() }

// Go runs f in the background. Suspend and Close end its context and wait for it.
func (r *Router) Go(f func(life context.Context)) {
	life := r.life()
	r.running.Go(func() { f(life) })
}

// Suspend stops the router without ending its sessions. From then on it sends nothing, and calls fail with
// EIO, until Resume. No call should be running, because the outcome of an abandoned update is unknown.
func (r *Router) Suspend() {
	r.net.suspended.Store(true)
	r.lives.Load().end()
	r.running.Wait()
}

// Suspended reports whether nothing may be sent.
func (r *Router) Suspended() bool { return r.net.suspended.Load() }

// Resume undoes Suspend. Another router may have continued for a while with the State, but must have stopped.
func (r *Router) Resume() {
	for _, p := range r.partitions.All() {
		if s := p.session(); s != nil {
			s.skip()
		}
	}
	r.net.suspended.Store(false)
	r.start(true)
}

// Close ends the sessions, within ctx, unless the router is suspended. No call may run, or begin later.
func (r *Router) Close(ctx context.Context) {
	if r.life().Err() != nil {
		return
	}
	r.lives.Load().end()
	r.running.Wait()
	ending := r.begin(ctx)
	defer ending.end()
	var all sync.WaitGroup
	for _, p := range r.partitions.All() {
		if s := p.session(); s != nil {
			all.Go(func() { p.close(ending) })
		}
	}
	all.Wait()
}

// Operation returns the context of an operation of several calls, which together are bounded like one call
// (C6).
func (r *Router) Operation(ctx context.Context) (context.Context, context.CancelFunc) {
	if r.cfg.Hard {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, r.cfg.Timeout)
}

// ErrAbandoned, as the cause of the end of a context, means that no caller waits for the outcome any more. It
// also ends the wait for an update that was multicast.
var ErrAbandoned = errors.New("nobody waits for the outcome")

// outcomeTime returns the context in which to wait for the outcome of an update that was begun in ctx. Only
// the deadline of ctx counts. If ctx has none, the wait ends one timeout after the end of ctx (C6).
func (r *Router) outcomeTime(ctx context.Context) (context.Context, context.CancelFunc) {
	var waiting context.Context
	var end context.CancelFunc
	deadline, bounded := ctx.Deadline()
	if bounded {
		waiting, end = context.WithDeadline(r.life(), deadline)
	} else {
		waiting, end = context.WithCancel(r.life())
	}
	unlink := context.AfterFunc(ctx, func() {
		switch {
		case context.Cause(ctx) == ErrAbandoned:
			end()
		case !bounded:
			timer := time.AfterFunc(r.cfg.Timeout, end)
			context.AfterFunc(waiting, func() { timer.Stop() })
		}
	})
	return waiting, func() {
		unlink()
		end()
	}
}

// Outcome converts every error to a posix.Code (C1).
func (r *Router) Outcome(err error) error {
	var code posix.Code
	switch {
	case err == nil:
		return nil
	case errors.As(err, &code):
		return code
	case r.life().Err() != nil || errors.Is(err, errSuspended):
		return posix.EIO
	case errors.Is(err, context.Canceled):
		return posix.EINTR
	case errors.Is(err, context.DeadlineExceeded):
		return posix.ETIMEDOUT
	}
	return posix.EIO
}
