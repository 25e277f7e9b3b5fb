// Package driver runs one turn.Node, such as a replica, in real time. Only this package and the test
// harnesses (package turn) step a node.
//
// A turn takes these steps:
//
//  1. Gather the ready input: frames from links, requests of clients, completions of one-sided operations,
//     the time.
//  2. Step the node once. Its immediate replies leave, and then the frames that promise nothing
//     (Output.Early).
//  3. Append the records to the write-ahead log. If the node demands it (Output.Sync), sync the log.
//  4. Change rights to one-sided memory, begin operations on it, and send the remaining frames.
//  5. Apply the deliveries and send their replies.
//
// Step 3 is the gate: no output that depends on a record leaves before the record is in the log. Input that
// arrives during a turn is the batch of the next one, up to MostRequests requests. So frames are packed, and
// the log is synced once for many requests, without a timer.
package driver

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// ErrStopped answers the requests that wait for a replica that has stopped. The outcome of an update is
// unknown: it may have been executed, or may still be executed by the other replicas.
var ErrStopped = errors.New("replica stopped")

// ErrRetired means that the node has left its group for good (multicast.Output.Retired).
var ErrRetired = errors.New("replica retired: it is a member of its group no more")

// Clock gives the time of a turn. The driver reads it once per turn. Other code uses package time; Clock
// exists because each machine of a simulated cluster has its own clock.
type Clock interface{ Now() multicast.Instant }

// Log is the write-ahead log that a driver needs. Append returns once the records are as durable as the log
// is configured. If checkpoint is set, records[0] replaces all earlier records.
type Log interface {
	Append(records [][]byte, checkpoint bool) error
	// Synchronous reports whether Append waits for the disk.
	Synchronous() bool
	// Sync makes all appended records survive a loss of power. A log in memory does nothing.
	Sync() error
}

// Driver runs one node. At most one goroutine takes a turn at a time. It is usually the goroutine that
// brought the input, such as the reader of a connection or the goroutine of a request: this saves a switch of
// goroutines. The goroutine of Run takes the turns that wait for the disk, and those that no input causes.
type Driver struct {
	self  multicast.ProcessID
	node  turn.Node
	links transport.Links
	log   Log
	clock Clock

	ready    chan struct{} // capacity 1: wakes the goroutine of Run
	over     chan struct{} // closed when no turn runs any more
	behind   chan struct{} // closed when the node needs the state of another member, see Behind
	pending  atomic.Bool   // input waits for a turn
	turns    turns
	worked   atomic.Int64 // see Worked, in nanoseconds
	observer Observer     // nil: none
	memory   memory

	mu        sync.Mutex
	requests  []turn.Call
	between   []func()                    // to be called between two turns
	withdrawn []uint64                    // tokens, for the next turn
	waiting   map[uint64]transport.Caller // the callers of requests without an answer, by token
	token     uint64                      // of the newest request
	stopped   bool                        // Stop was called
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

// Handle answers one encoded request of a client. If from is nil, the caller is one of the cluster's own
// processes. If ctx ends first, the request is withdrawn, and its outcome is unknown.
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

// waiter passes the answer to the goroutine that waits for it.
type waiter chan answer

// Answer implements transport.Caller.
func (w waiter) Answer(reply []byte, err error) { w <- answer{reply, err} }

// Begin queues a request, and may take a turn in the calling goroutine. The caller gets exactly one answer,
// perhaps before Begin returns, unless Withdraw drops it.
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

// Withdraw drops the answer to a request that its client has given up. If no turn has taken the request yet,
// the node never sees it.
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

// Worked returns the time for which turns have computed, without the waits for the log. Turns are taken one
// after another: a node that works all the time keeps its clients waiting, however many processors are free.
func (d *Driver) Worked() time.Duration { return time.Duration(d.worked.Load()) }

// work adds the time since the begin of a computation to Worked.
func (d *Driver) work(began time.Time) { d.worked.Add(int64(time.Since(began))) }

// Behind returns a channel that is closed once the other members have forgotten messages that this process
// still needs. Then this process must take over the state of another member. It continues to take turns,
// because the other members may need messages that only this process has.
func (d *Driver) Behind() <-chan struct{} { return d.behind }

// Between calls f between two turns, when all steps are durable and applied. It returns after f. The replica
// takes no turn while f runs, so f sees a consistent state. If Between returns the error of ctx, f may still
// be called later; after ErrStopped it is not. If f ends the context of Run, no further turn runs.
func (d *Driver) Between(ctx context.Context, f func()) error {
	done := make(chan struct{})
	d.mu.Lock()
	if d.stopped {
		d.mu.Unlock()
		return ErrStopped
	}
	d.between = append(d.between, func() { f(); close(done) }) // after a panic of f, Run ends and closes over
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

// Run takes turns until ctx ends; then it returns nil. It returns an error if the replica cannot continue:
// its log or store failed, an invariant is broken, or it has retired (ErrRetired). When Run returns, no
// goroutine takes a turn any more, and the links and the memory are closed.
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

// Stop answers all waiting requests with ErrStopped. Call it after Run, or instead of Run if the driver never
// ran.
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
