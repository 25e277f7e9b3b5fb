package mount

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/globalfs/globalfs/internal/client"
)

// patience is the time for which a request continues after its process got a signal: see "Signals".
const patience = 2 * time.Second

// waits makes the contexts in which requests wait for the cluster.
type waits struct {
	hard    bool
	named   bool            // contexts name their requests
	life    context.Context // ends with the mount
	abandon context.CancelCauseFunc
	pauses  atomic.Pointer[pausing]
}

// pausing is the context of the requests that end when the mount is suspended: the next process can begin
// them anew.
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

// suspend ends the requests that can be begun anew, until goOn.
func (w *waits) suspend() { w.pauses.Load().end() }

func (w *waits) goOn() {
	p := &pausing{}
	p.Context, p.end = context.WithCancel(w.life)
	w.pauses.Store(p)
}

// paused reports whether the mount is suspended or has ended.
func (w *waits) paused() bool { return w.pauses.Load().Err() != nil }

// end abandons all requests: no process waits any more.
func (w *waits) end() { w.abandon(client.ErrAbandoned) }

// reading is the context of a request that only reads: it ends some time after cancel is closed. The
// caller calls end.
func (w *waits) reading(cancel <-chan struct{}) (ctx context.Context, end context.CancelFunc) {
	return after(w.pauses.Load(), cancel, patience)
}

// until is a context that ends when cancel is closed. The caller calls end.
func (w *waits) until(cancel <-chan struct{}) (ctx context.Context, end context.CancelFunc) {
	return after(w.pauses.Load(), cancel, 0)
}

// changing is the context of a request that changes something. On a soft mount it ends only with the mount,
// and the client's timeout bounds the request. On a hard mount it also ends some time after cancel is closed.
// The request has the number unique of the kernel. The caller calls end.
func (w *waits) changing(cancel <-chan struct{}, unique uint64) (ctx context.Context, end context.CancelFunc) {
	ctx = w.life
	if w.named {
		ctx = client.WithRequest(ctx, unique&^resent)
	}
	if !w.hard {
		return ctx, func() {}
	}
	return after(ctx, cancel, patience)
}

// resent is set in the number of a request that the kernel sends again (FUSE_UNIQUE_RESEND).
const resent = 1 << 63

// after is a context that ends a while after cancel is closed.
func after(parent context.Context, cancel <-chan struct{}, while time.Duration) (ctx context.Context, end context.CancelFunc) {
	p := &patient{cancel: cancel, while: while}
	p.Context, p.end = context.WithCancel(parent)
	return p, p.end
}

// patient is the context of a request. Most requests are answered from memory: only a request that waits
// needs the goroutine that waits for cancel.
type patient struct {
	context.Context
	end    context.CancelFunc
	cancel <-chan struct{}
	while  time.Duration
	once   sync.Once
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
	timer := time.NewTimer(p.while)
	defer timer.Stop()
	select {
	case <-p.Context.Done():
	case <-timer.C:
		p.end()
	}
}
