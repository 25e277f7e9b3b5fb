package mount

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/pause"
)

// patience is the time for which a request continues after its process got a signal that ends the process:
// see "Signals".
const patience = 2 * time.Second

// fateEvery is the time between two checks of a process that may get another signal.
const fateEvery = 100 * time.Millisecond

// waits makes the contexts in which requests wait for the cluster.
type waits struct {
	hard    bool
	named   bool            // contexts name their requests
	life    context.Context // ends with the mount
	abandon context.CancelCauseFunc
	pauses  atomic.Pointer[pausing]
}

// pausing is the context of requests that end when the mount is suspended, because the next process can begin
// them again.
type pausing struct {
	context.Context
	end context.CancelFunc
}

func newWaits(c *client.Client) *waits {
	w := &waits{hard: c != nil && c.Hard(), named: c != nil && c.Outlived()}
	w.life, w.abandon = context.WithCancelCause(context.Background())
	w.goOn()
	return w
}

// suspend ends the requests that can be begun again, until goOn.
func (w *waits) suspend() { w.pauses.Load().end() }

func (w *waits) goOn() {
	p := &pausing{}
	p.Context, p.end = context.WithCancel(w.life)
	w.pauses.Store(p)
}

// paused reports whether the mount is suspended or has ended.
func (w *waits) paused() bool { return w.pauses.Load().Err() != nil }

// end abandons all requests, because no process waits for them.
func (w *waits) end() { w.abandon(client.ErrAbandoned) }

// reading returns the context of a request that only reads. It ends some time after cancel is closed, if a
// signal ends the process of thread tid. The caller must call end.
func (w *waits) reading(cancel <-chan struct{}, tid uint32) (ctx context.Context, end context.CancelFunc) {
	return w.after(w.pauses.Load(), cancel, tid)
}

// until returns a context that ends when cancel is closed. The caller must call end.
func (w *waits) until(cancel <-chan struct{}) (ctx context.Context, end context.CancelFunc) {
	p := &patient{cancel: cancel}
	p.Context, p.end = context.WithCancel(w.pauses.Load())
	return p, p.end
}

// changing returns the context of a request that changes something. On a soft mount it ends only with the
// mount; the client's timeout bounds the request. On a hard mount it also ends some time after cancel is
// closed, like reading. The caller must call end.
func (w *waits) changing(cancel <-chan struct{}, h *fuse.InHeader) (ctx context.Context, end context.CancelFunc) {
	ctx = w.life
	if w.named {
		ctx = client.WithRequest(ctx, h.Unique&^resent)
	}
	if !w.hard {
		return ctx, func() {}
	}
	return w.after(ctx, cancel, h.Pid)
}

// resent is set in the number of a request that the kernel sends again (FUSE_UNIQUE_RESEND).
const resent = 1 << 63

// after returns a context that ends some time after cancel is closed, if a signal ends the process of the
// thread. On a hard mount, whose requests may wait for ever, it also ends if the mount cannot see the
// process.
func (w *waits) after(parent context.Context, cancel <-chan struct{}, tid uint32) (ctx context.Context, end context.CancelFunc) {
	p := &patient{cancel: cancel, while: patience, survives: func() bool {
		f := fateOf(tid)
		return f == living || f == unknown && !w.hard
	}}
	p.Context, p.end = context.WithCancel(parent)
	return p, p.end
}

// patient is the context of a request. Most requests are answered from memory: only a request that waits
// needs the goroutine that waits for cancel.
type patient struct {
	context.Context
	end      context.CancelFunc
	cancel   <-chan struct{}
	while    time.Duration
	survives func() bool // whether the process survives its signals; nil: each signal ends the request
	once     sync.Once
}

// Done implements context.Context.
func (p *patient) Done() <-chan struct{} {
	p.once.Do(func() { go p.watch() })
	return p.Context.Done()
}

// Err implements context.Context.
func (p *patient) Err() error {
	p.once.Do(func() { go p.watch() })
	return p.Context.Err()
}

func (p *patient) watch() {
	select {
	case <-p.Context.Done():
		return
	case <-p.cancel:
	}
	for p.survives != nil && p.survives() {
		if pause.For(p.Context, fateEvery) != nil {
			return
		}
	}
	timer := time.NewTimer(p.while)
	defer timer.Stop()
	select {
	case <-p.Context.Done():
	case <-timer.C:
		p.end()
	}
}
