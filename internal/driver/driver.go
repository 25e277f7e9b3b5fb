// Package driver runs a turn.Node, such as a replica, for real: the only loop around a core. A turn
// gathers everything that is ready (frames, requests, the time), steps once, makes the records
// durable (also against a loss of power if the core asks for it, Output.Sync), and only then lets frames
// leave, applies deliveries and answers (DESIGN section 3, STYLE
// section 5). Packing and group commit follow from that: what arrives during a turn is the
// next one's batch.
package driver

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// ErrStopped answers requests to a replica that stopped, or stops before it can answer: whether an
// update has had or will have effect is unknown.
var ErrStopped = errors.New("replica stopped")

// ErrRetired says that the node is a member of its group no more, for ever (multicast.Output.Retired).
var ErrRetired = errors.New("replica retired: it is a member of its group no more")

// Clock is what the driver reads once a turn. Everything else uses package time; this
// exists because one machine has one clock and a cluster has many.
type Clock interface{ Now() multicast.Instant }

// SystemClock is the machine's clock, with Mono counted from when it was made.
type SystemClock struct{ start time.Time }

// NewSystemClock starts counting.
func NewSystemClock() SystemClock { return SystemClock{time.Now()} }

// Now reads the clock.
func (c SystemClock) Now() multicast.Instant {
	now := time.Now()
	return multicast.Instant{Mono: now.Sub(c.start), Wall: now.UnixNano()}
}

// Log is the write-ahead log that a driver needs: Append returns once the records are as
// durable as was asked for; with checkpoint, records[0] stands for all before.
type Log interface {
	Append(records [][]byte, checkpoint bool) error
	// Sync makes all records appended so far survive a loss of power, unless the log does not keep any.
	Sync() error
}

// Driver runs one node.
type Driver struct {
	self  multicast.ProcessID
	node  turn.Node
	links transport.Links
	log   Log
	clock Clock

	ready  chan struct{} // capacity 1: requests are there
	over   chan struct{} // closed when it has stopped
	behind chan struct{} // see Behind

	mu       sync.Mutex
	requests []turn.Call
	between  []func()

	withdrawn []uint64 // taken along with the next turn
	waiting   map[uint64]chan []byte
	token     uint64
	stopped   bool
}

// New makes a driver; Run starts it. It owns links from now on.
func New(self multicast.ProcessID, node turn.Node, links transport.Links, log Log, clock Clock) *Driver {
	return &Driver{
		self: self, node: node, links: links, log: log, clock: clock,
		ready:   make(chan struct{}, 1),
		over:    make(chan struct{}),
		behind:  make(chan struct{}),
		waiting: map[uint64]chan []byte{},
	}
}

// Handle answers one encoded request of a client; nil: of one of the cluster's own processes.
func (d *Driver) Handle(ctx context.Context, from *ask.Client, request []byte) ([]byte, error) {
	answer := make(chan []byte, 1)
	d.mu.Lock()
	if d.stopped {
		d.mu.Unlock()
		return nil, ErrStopped
	}
	d.token++
	token := d.token
	d.waiting[token] = answer
	d.requests = append(d.requests, turn.Call{Token: token, Data: request, From: from})
	d.mu.Unlock()
	select {
	case d.ready <- struct{}{}:
	default:
	}
	select {
	case reply, ok := <-answer:
		if !ok {
			return nil, ErrStopped
		}
		return reply, nil
	case <-ctx.Done():
		d.mu.Lock()
		delete(d.waiting, token)
		d.withdrawn = append(d.withdrawn, token)
		d.mu.Unlock()
		return nil, ctx.Err()
	}
}

// Behind is closed once the others of the group have forgotten what this process still needs: it must be
// given the state of one of them. It goes on taking its turns: the others may need what only it has.
func (d *Driver) Behind() <-chan struct{} { return d.behind }

// Between has f called between two turns, when all that was stepped is durable and applied, and returns after
// it. f holds up the replica as long as it runs: it is for what has to happen while nothing else does. After
// an error f may still be called, unless it is ErrStopped. If f ends the context of Run, no turn follows.
func (d *Driver) Between(ctx context.Context, f func()) error {
	done := make(chan struct{})
	d.mu.Lock()
	if d.stopped {
		d.mu.Unlock()
		return ErrStopped
	}
	d.between = append(d.between, func() { defer close(done); f() })
	d.mu.Unlock()
	select {
	case d.ready <- struct{}{}:
	default:
	}
	select {
	case <-done:
		return nil
	case <-d.over:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Run takes turns until ctx ends (then it returns nil) or the replica cannot go
// on: its log or store fails, an invariant is broken, or it has retired (ErrRetired). It returns after all
// its goroutines have ended, and closes the links.
func (d *Driver) Run(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	frames := make(chan []multicast.Frame)
	received := make(chan struct{})
	go func() {
		defer close(received)
		d.receive(ctx, frames)
	}()
	defer func() {
		if r := recover(); r != nil {
			err = broken(r)
		}
		cancel()
		err = errors.Join(err, d.links.Close())
		<-received
		d.stop()
	}()
	return d.loop(ctx, frames)
}

// broken makes an error of a panic: a broken invariant's evidence, or where a bug
// is. Either stops this replica and nothing else.
func broken(r any) error {
	var b invariant.Violation
	if e, ok := r.(error); ok && errors.As(e, &b) {
		return fmt.Errorf("%w\n%s", b, debug.Stack())
	}
	return fmt.Errorf("panic: %v\n%s", r, debug.Stack())
}

// receive hands over what the links have, a batch at a time. It waits until the loop
// takes a batch: what is not taken stays in the links, whose windows hold senders back.
func (d *Driver) receive(ctx context.Context, frames chan<- []multicast.Frame) {
	var buffers [2][256]multicast.Frame // one is with the loop while the other fills
	for i := 0; ; i ^= 1 {
		n, err := d.links.Receive(ctx, buffers[i][:])
		if err != nil {
			return
		}
		select {
		case frames <- buffers[i][:n]:
		case <-ctx.Done():
			return
		}
	}
}

// loop is the turn, over and over.
func (d *Driver) loop(ctx context.Context, frames <-chan []multicast.Frame) error {
	var in turn.Input
	var out turn.Output
	timer := time.NewTimer(0)
	defer timer.Stop()
	own := []multicast.Frame{{Peer: d.self}} // the link to itself starts, too
	due, behind := true, false
	for {
		in.Reset()
		in.Frames = append(in.Frames, own...)
		own = own[:0]
		if !d.gather(ctx, &in, frames, timer, due) {
			return nil
		}
		out.Reset()
		d.node.Step(&in, &out)
		var err error
		if own, err = d.release(&out, own); err != nil {
			return err
		}
		if out.Retired {
			return ErrRetired
		}
		if len(out.Behind) > 0 && !behind {
			behind = true
			close(d.behind)
		}
		due = d.schedule(timer, out.Wake)
	}
}

// gather takes all that is ready; if nothing is, and no turn is due, it waits. False: ctx ended.
func (d *Driver) gather(ctx context.Context, in *turn.Input, frames <-chan []multicast.Frame, timer *time.Timer, due bool) bool {
	if len(in.Frames) == 0 && !due {
		select {
		case batch := <-frames:
			in.Frames = append(in.Frames, batch...)
		case <-d.ready:
		case <-timer.C:
		case <-ctx.Done():
			return false
		}
	}
	select {
	case batch := <-frames:
		in.Frames = append(in.Frames, batch...)
	default:
	}
	for _, f := range in.Frames {
		if f.Data == nil && f.Peer != d.self {
			d.links.Accept(f.Peer) // what this turn sends is for the link that has started
		}
	}
	d.mu.Lock()
	in.Requests = append(in.Requests, d.requests...)
	clear(d.requests)
	d.requests = d.requests[:0]
	in.Withdrawn = append(in.Withdrawn, d.withdrawn...)
	d.withdrawn = d.withdrawn[:0]
	between := d.between
	d.between = nil
	d.mu.Unlock()
	for _, f := range between {
		f()
	}
	in.Now = d.clock.Now()
	return ctx.Err() == nil
}

// release is the gate: records first, then all that speaks of them. It gives
// what the process sends to itself.
func (d *Driver) release(out *turn.Output, own []multicast.Frame) ([]multicast.Frame, error) {
	d.answer(out.Replies)
	if len(out.Records) > 0 {
		if err := d.log.Append(out.Records, out.Checkpoint); err != nil {
			return own, fmt.Errorf("write-ahead log: %w", err)
		}
	}
	if out.Sync {
		if err := d.log.Sync(); err != nil {
			return own, fmt.Errorf("write-ahead log: %w", err)
		}
	}
	for _, f := range out.Frames {
		if f.Peer == d.self {
			own = append(own, f)
		} else if err := d.links.Send(f.Peer, f.Data); err != nil && !errors.Is(err, transport.ErrBacklog) && !errors.Is(err, transport.ErrTooLong) {
			return own, fmt.Errorf("link to process %d: %w", f.Peer, err)
		} // a frame that is lost restarts its link, and the core says again what is needed
	}
	replies, err := d.node.Apply(out)
	if err != nil {
		return own, err
	}
	d.answer(replies)
	return own, nil
}

// schedule sets the timer for whichever wants the next turn first. True: it is due already.
func (d *Driver) schedule(timer *time.Timer, core time.Duration) (due bool) {
	wake := d.node.Wake()
	if wake == 0 || core != 0 && core < wake {
		wake = core
	}
	if wake == 0 {
		timer.Stop()
		return false
	}
	in := wake - d.clock.Now().Mono
	if in > 0 {
		timer.Reset(in)
	}
	return in <= 0
}

func (d *Driver) answer(replies []turn.Call) {
	if len(replies) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range replies {
		if answer := d.waiting[r.Token]; answer != nil {
			answer <- r.Data
			delete(d.waiting, r.Token)
		}
	}
}

// stop lets everyone go who waits.
func (d *Driver) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped = true
	close(d.over)
	for token, answer := range d.waiting {
		close(answer)
		delete(d.waiting, token)
	}
}
