package driver

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

const (
	// mostFrames is the maximal number of frames of a turn.
	mostFrames = 256
	// MostRequests is the maximal number of requests of a turn. A longer turn would leave the links idle
	// while the node computes, and the processor idle while the log is written. The value is the optimal
	// batch of the model in package batching for the costs that were measured on a server
	// (docs/papers/batching.md).
	MostRequests = 128
	// mostTurns is the maximal number of successive turns of a goroutine that has brought input, because
	// that goroutine has other work, such as reading its connection. The goroutine of Run takes the
	// remaining turns. A proposal at the leader takes up to three turns, since the leader's own messages
	// come back to it.
	mostTurns = 8
)

// turns is the state of the turns. The lock taking guards all fields.
//
// No pending input is left without a goroutine: a goroutine that sets pending tries to lock taking, and a
// goroutine that unlocks taking checks pending again.
type turns struct {
	taking sync.Mutex

	live       bool  // turns are permitted
	failed     error // the error after which the node cannot go on
	behind     bool  // the channel Driver.behind is closed
	unreleased bool  // the output of the last step is not released yet; the goroutine of Run must do that

	in  turn.Input
	out turn.Output
	own []multicast.Frame // frames of the process to itself

	observed bool // the observer records the present turn
	moments  Moments

	timer *time.Timer
	due   time.Duration // the time of the next turn if no event comes before, on Instant.Mono; 0: none
	alarm time.Duration // the time at which timer fires, on Instant.Mono; 0: it is not set
}

// begin permits turns, at the start of Run.
func (d *Driver) begin() {
	t := &d.turns
	t.taking.Lock()
	t.live = true
	t.own = []multicast.Frame{{Peer: d.self}} // the start of the link to this process itself
	t.timer = time.NewTimer(time.Hour)
	t.taking.Unlock()
	d.links.Notify(d.kick)
	d.pending.Store(true)
}

// end forbids turns, and returns the error that ended them; nil if Run was asked to end.
func (d *Driver) end() error {
	t := &d.turns
	t.taking.Lock()
	defer t.taking.Unlock()
	t.live = false
	t.timer.Stop()
	return t.failed
}

// kick causes a turn for ready input. A goroutine that may run turns takes the turn itself, unless another
// goroutine takes turns now.
func (d *Driver) kick(mayRun bool) {
	d.pending.Store(true)
	if !mayRun {
		d.wake()
		return
	}
	for d.pending.Load() && d.turns.taking.TryLock() {
		done := d.takeSome()
		d.turns.taking.Unlock()
		if !done {
			d.wake()
			return
		}
	}
}

// wake wakes the goroutine of Run.
func (d *Driver) wake() {
	select {
	case d.ready <- struct{}{}:
	default:
	}
}

// takeSome takes at most mostTurns turns. It returns false if the goroutine of Run must continue. The caller
// holds taking.
func (d *Driver) takeSome() (done bool) {
	t := &d.turns
	for range mostTurns {
		if !t.live || t.failed != nil || t.unreleased {
			return false
		}
		if !d.pending.Swap(false) && len(t.own) == 0 {
			return true
		}
		if !d.try(d.turn) {
			return false
		}
	}
	return !d.pending.Load() && len(t.own) == 0
}

// takeAll takes turns in the goroutine of Run until no input is ready. It returns false if Run must end.
func (d *Driver) takeAll(ctx context.Context) bool {
	t := &d.turns
	for {
		t.taking.Lock()
		for t.live && ctx.Err() == nil && t.failed == nil && d.isReady() {
			d.try(func() bool { d.finish(ctx); return true })
		}
		t.live = t.live && ctx.Err() == nil && t.failed == nil
		live := t.live
		t.taking.Unlock()
		if !live || !d.pending.Load() {
			return live
		}
	}
}

// isReady reports whether a turn has something to do, and sets the timer if not.
func (d *Driver) isReady() bool {
	t := &d.turns
	if t.unreleased || d.pending.Swap(false) || len(t.own) > 0 { // pending input waits for the release
		return true
	}
	if t.due == 0 {
		return false
	}
	in := t.due - d.clock.Now().Mono
	if in > 0 {
		t.alarm = t.due
		t.timer.Reset(in)
	}
	return in <= 0
}

// try calls f, and turns a panic of f into the error after which this replica stops: a broken invariant with
// its evidence, or another bug with its stack. The rest of the process continues.
func (d *Driver) try(f func() bool) (done bool) {
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		var b invariant.Violation
		if e, ok := r.(error); ok && errors.As(e, &b) {
			d.turns.failed = fmt.Errorf("%w\n%s", b, debug.Stack())
		} else {
			d.turns.failed = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return f()
}

// turn takes a turn in a goroutine that should not wait for the disk. It returns false if the goroutine of
// Run must finish the turn.
func (d *Driver) turn() bool {
	t := &d.turns
	d.mu.Lock()
	busy := len(d.between) > 0
	d.mu.Unlock()
	if busy {
		d.pending.Store(true)
		return false
	}
	d.gather()
	if t.failed = d.step(); t.failed != nil {
		return false
	}
	if t.out.Sync || t.out.Checkpoint || d.node.Syncs(&t.out) || len(t.out.Records) > 0 && d.log.Synchronous() {
		t.unreleased = true
		return false
	}
	t.failed = d.release()
	return t.failed == nil
}

// finish takes a turn, or ends one, in the goroutine of Run.
func (d *Driver) finish(ctx context.Context) {
	t := &d.turns
	if t.unreleased {
		t.unreleased = false
		t.failed = d.release()
		return
	}
	d.mu.Lock()
	between := d.between
	d.between = nil
	d.mu.Unlock()
	for _, f := range between {
		f()
	}
	if ctx.Err() != nil {
		return
	}
	d.gather()
	if t.failed = d.step(); t.failed == nil {
		t.failed = d.release()
	}
}

// gather takes the ready input, within the bounds of a turn.
func (d *Driver) gather() {
	in, t := &d.turns.in, &d.turns
	in.Reset()
	if t.observed = d.observer != nil && d.observer.Observes(); t.observed {
		t.moments = Moments{Begun: time.Now()}
	}
	in.Frames = append(in.Frames, t.own...)
	clear(t.own)
	t.own = t.own[:0]
	before := len(in.Frames)
	in.Frames = d.links.Take(in.Frames, mostFrames)
	if len(in.Frames)-before == mostFrames {
		d.pending.Store(true)
	}
	for _, f := range in.Frames {
		if f.Data == nil && f.Peer != d.self {
			d.links.Accept(f.Peer) // the frames that this turn sends belong to the new session
		}
	}
	d.mu.Lock()
	n := min(len(d.requests), MostRequests)
	in.Requests = append(in.Requests, d.requests[:n]...)
	if d.requests = slices.Delete(d.requests, 0, n); len(d.requests) > 0 {
		d.pending.Store(true)
	}
	in.Withdrawn = append(in.Withdrawn, d.withdrawn...)
	d.withdrawn = d.withdrawn[:0]
	d.mu.Unlock()
	d.memory.take(in)
	in.Now = d.clock.Now()
}

// step steps the node. Its immediate answers leave, and then the frames that do not wait for the records.
func (d *Driver) step() error {
	defer d.work(time.Now())
	t := &d.turns
	t.out.Reset()
	d.node.Step(&t.in, &t.out)
	d.answer(t.out.Replies)
	t.mark(&t.moments.Stepped)
	if len(t.out.Early) == 0 {
		return nil
	}
	return d.send(t.out.Early)
}

// send sends frames to others, and keeps those of the process to itself.
func (d *Driver) send(frames []multicast.Frame) error {
	t := &d.turns
	for _, f := range frames {
		if f.Peer == d.self {
			t.own = append(t.own, f)
		} else if err := d.links.Send(f.Peer, f.Data); err != nil && !errors.Is(err, transport.ErrBacklog) && !errors.Is(err, transport.ErrTooLong) {
			return fmt.Errorf("link to process %d: %w", f.Peer, err)
		} // a lost frame restarts its link, and the core sends the needed content again
	}
	d.links.Flush()
	return nil
}

// release is the gate: records first, then the output that depends on them.
func (d *Driver) release() error {
	t := &d.turns
	out := &t.out
	if len(out.Records) > 0 {
		if err := d.log.Append(out.Records, out.Checkpoint); err != nil {
			return fmt.Errorf("write-ahead log: %w", err)
		}
	}
	if out.Sync {
		if err := d.log.Sync(); err != nil {
			return fmt.Errorf("write-ahead log: %w", err)
		}
	}
	t.mark(&t.moments.Logged)
	d.answer(out.Persisted)
	more, err := d.memory.apply(out)
	if err != nil {
		return err
	}
	if more {
		d.pending.Store(true)
	}
	if err := d.send(out.Frames); err != nil {
		return err
	}
	t.mark(&t.moments.Sent)
	began := time.Now()
	replies, err := d.node.Apply(out)
	d.work(began)
	if err != nil {
		return err
	}
	t.mark(&t.moments.Executed)
	d.answer(replies)
	if t.observed {
		d.observer.Turn(&t.moments, &t.in, out, replies)
	}
	if out.Retired {
		return ErrRetired
	}
	if len(out.Behind) > 0 && !t.behind {
		t.behind = true
		close(d.behind)
	}
	d.schedule()
	return nil
}

// schedule sets the timer for the earlier one of the next turns of node and core, unless the timer fires
// early enough.
func (d *Driver) schedule() {
	t := &d.turns
	t.due = d.node.Wake()
	if core := t.out.Wake; t.due == 0 || core != 0 && core < t.due {
		t.due = core
	}
	now := d.clock.Now().Mono
	switch {
	case t.due == 0 || t.alarm > now && t.alarm <= t.due:
	case t.due <= now:
		d.pending.Store(true)
	default:
		t.alarm = t.due
		t.timer.Reset(t.due - now)
	}
}
