package mount

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/globalfs/globalfs/internal/client"
)

// patience is how long a request goes on after its process got a signal: see "Signals".
const patience = 2 * time.Second

// waits makes the contexts in which requests wait for the cluster.
type waits struct {
	hard    bool
	life    context.Context // ends with the mount
	abandon context.CancelCauseFunc
	pauses  atomic.Pointer[pausing]
}

// pausing is what ends when the mount is suspended: requests that can be begun anew by who serves next.
type pausing struct {
	context.Context
	end context.CancelFunc
}

func newWaits(c *client.Client) *waits {
	w := &waits{hard: c != nil && c.Hard()}
	w.life, w.abandon = context.WithCancelCause(context.Background())
	w.goOn()
	return w
}

// suspend ends what can be begun anew, until goOn.
func (w *waits) suspend() { w.pauses.Load().end() }

func (w *waits) goOn() {
	p := &pausing{}
	p.Context, p.end = context.WithCancel(w.life)
	w.pauses.Store(p)
}

// paused reports whether the mount is suspended or has ended.
func (w *waits) paused() bool { return w.pauses.Load().Err() != nil }

// end gives everything up: nobody waits any more.
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

// changing is the context of a request that changes something: only the client's timeout ends it or, if that
// is none, a signal some time ago. The caller calls end.
func (w *waits) changing(cancel <-chan struct{}) (ctx context.Context, end context.CancelFunc) {
	if !w.hard {
		return w.life, func() {}
	}
	return after(w.life, cancel, patience)
}

// after is a context that ends a while after cancel is closed.
func after(parent context.Context, cancel <-chan struct{}, while time.Duration) (ctx context.Context, end context.CancelFunc) {
	ctx, end = context.WithCancel(parent)
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-cancel:
		}
		timer := time.NewTimer(while)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C:
			end()
		}
	}()
	return ctx, end
}
