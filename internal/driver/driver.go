// Package driver runs a turn.Node, such as a replica, for real: the only stepper of a core. A turn gathers
// what is ready (frames, requests, the time), steps once, makes the records durable (also against a loss of
// power if the core asks for it, Output.Sync), and only then changes rights, begins operations on one-sided
// memory, lets frames leave, applies deliveries and answers. Frames that promise nothing (Output.Early) leave
// before the records are written. Packing and group commit follow: input that arrives during a turn is the
// batch of the next one, up to MostRequests requests.
package driver

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// ErrStopped answers requests to a replica that stopped, or stops before it can answer: whether an
// update has had or will have effect is unknown.
var ErrStopped = errors.New("replica stopped")

// ErrRetired means that the node is no longer a member of its group, for ever (multicast.Output.Retired).
var ErrRetired = errors.New("replica retired: it is a member of its group no more")

// Clock gives the time that the driver reads once a turn. All other code uses package time. Clock exists
// because one machine has one clock and a cluster has many.
type Clock interface{ Now() multicast.Instant }

// Log is the write-ahead log that a driver needs. Append returns once the records are as durable as
// configured; with checkpoint, records[0] replaces all earlier records.
type Log interface {
	Append(records [][]byte, checkpoint bool) error
	// Synchronous reports whether Append waits for the disk.
	Synchronous() bool
	// Sync makes all records appended so far survive a loss of power, unless the log does not keep any.
	Sync() error
}

// Driver runs one node. A turn runs in the goroutine that has brought its input: one that reads from a
// connection, or one with a request. The goroutine of Run takes the other turns, and those that wait for the
// disk.
type Driver struct {
	self  multicast.ProcessID
	node  turn.Node
	links transport.Links
	log   Log
	clock Clock

	ready    chan struct{} // capacity 1: the goroutine of Run has something to do
	over     chan struct{} // closed when it has stopped
	behind   chan struct{} // see Behind
	pending  atomic.Bool   // input waits for a turn
	turns    turns
	observer Observer // nil: none
	memory   memory

	mu        sync.Mutex
	requests  []turn.Call
	between   []func()
	withdrawn []uint64 // for the next turn
	waiting   map[uint64]transport.Caller
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
		waiting: map[uint64]transport.Caller{},
	}
}

// Handle answers one encoded request of a client. A nil client is one of the cluster's own processes.
func (d *Driver) Handle(ctx context.Context, from *ask.Client, request []byte) ([]byte, error) {
	answer := make(waiter, 1)
	token := d.Begin(from, request, answer)
	select {
	case a := <-answer:
		return a.reply, a.err
	case <-ctx.Done():
		d.Withdraw(token)
		return nil, ctx.Err()
	}
}

// answer is the answer to a request.
type answer struct {
	reply []byte
	err   error
}

// waiter is a goroutine that waits for an answer.
type waiter chan answer

// Answer implements transport.Caller.
func (w waiter) Answer(reply []byte, err error) { w <- answer{reply, err} }

// Begin takes a request, and may take its turn. The caller gets the answer, perhaps before Begin returns,
// unless the request is withdrawn.
func (d *Driver) Begin(from *ask.Client, request []byte, caller transport.Caller) (token uint64) {
	d.mu.Lock()
	if d.stopped {
		d.mu.Unlock()
		caller.Answer(nil, ErrStopped)
		return 0
	}
	d.token++
	token = d.token
	d.waiting[token] = caller
	d.requests = append(d.requests, turn.Call{Token: token, Data: request, From: from})
	d.mu.Unlock()
	d.kick(true)
	return token
}

// Withdraw drops the answer to a request: no client waits for it any more. If no turn has taken the request
// yet, the node never gets it.
func (d *Driver) Withdraw(token uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting[token] == nil {
		return
	}
	delete(d.waiting, token)
	if i := slices.IndexFunc(d.requests, func(r turn.Call) bool { return r.Token == token }); i >= 0 {
		d.requests = slices.Delete(d.requests, i, i+1)
		return
	}
	d.withdrawn = append(d.withdrawn, token)
}

// Behind is closed once the others of the group have forgotten messages that this process still needs: it
// must get the state of one of them. It continues to take turns: the others may need messages that only this
// process has.
func (d *Driver) Behind() <-chan struct{} { return d.behind }

// Between calls f between two turns, when all steps are durable and applied, and returns after f. The replica
// stands still while f runs: f is for work that needs that. After an error f may still be called, unless the
// error is ErrStopped. If f ends the context of Run, no turn follows.
func (d *Driver) Between(ctx context.Context, f func()) error {
	done := make(chan struct{})
	d.mu.Lock()
	if d.stopped {
		d.mu.Unlock()
		return ErrStopped
	}
	d.between = append(d.between, func() { f(); close(done) }) // after a panic, Run ends and closes over
	d.mu.Unlock()
	d.kick(false)
	select {
	case <-done:
		return nil
	case <-d.over:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Run takes turns until ctx ends (then it returns nil) or the replica cannot continue: its log or store
// fails, an invariant is broken, or it has retired (ErrRetired). When it returns, no turn runs any more in
// any goroutine, and the links and the memory are closed.
func (d *Driver) Run(ctx context.Context) error {
	d.begin()
	d.memory.watch(d.kick)
	for d.takeAll(ctx) {
		select {
		case <-d.ready:
		case <-d.turns.timer.C:
		case <-ctx.Done():
		}
	}
	err := errors.Join(d.end(), d.memory.close(), d.links.Close())
	d.Stop()
	return err
}

func (d *Driver) answer(replies []turn.Call) {
	for _, r := range replies {
		d.mu.Lock()
		caller := d.waiting[r.Token]
		delete(d.waiting, r.Token)
		d.mu.Unlock()
		if caller != nil {
			caller.Answer(r.Data, nil)
		}
	}
}

// Stop ends all waiting for the driver, also if the driver has never run. It is called after Run, or in its
// place.
func (d *Driver) Stop() {
	d.mu.Lock()
	waiting := d.waiting
	if !d.stopped {
		close(d.over)
	}
	d.stopped, d.waiting = true, nil
	d.mu.Unlock()
	for _, caller := range waiting {
		caller.Answer(nil, ErrStopped)
	}
}
