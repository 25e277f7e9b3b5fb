//go:build verbs

package verbs

import (
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/internal/remote"
)

// endpoint is a node.
type endpoint struct {
	cfg         Config
	incarnation uint64
	device      *device
	channel     *os.File // the completion channel, as a file for the poller of the Go runtime
	failures    *os.File // the events of the device, as such a file
	ctx         context.Context
	cancel      context.CancelFunc
	running     sync.WaitGroup
	wake        chan struct{}

	mu       sync.Mutex
	closed   bool
	failure  error // the failure of the device; nil: the device works
	regions  map[fabric.RegionID]*region
	outgoing map[fabric.NodeID]*outgoing
	incoming map[fabric.NodeID]*incoming
	queues   map[uint32]*queue
	targets  map[uint32]*served
	lastID   uint32 // the last id of a queue or served; below 1 << 31
	events   fabric.Events
	ends     [32]done
}

// ofTarget is the bit of the ids of work requests of the target's ends of queue pairs.
const ofTarget = 1 << 63

var errClosed = errors.New("verbs: the endpoint is closed")

// New creates an endpoint. The caller must close it.
func New(cfg Config) (Endpoint, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	var random [8]byte
	if _, err := crand.Read(random[:]); err != nil {
		return nil, fmt.Errorf("verbs: incarnation: %w", err)
	}
	e := &endpoint{
		cfg: cfg, incarnation: binary.LittleEndian.Uint64(random[:]) | 1, wake: make(chan struct{}, 1),
		regions: map[fabric.RegionID]*region{}, outgoing: map[fabric.NodeID]*outgoing{}, incoming: map[fabric.NodeID]*incoming{},
		queues: map[uint32]*queue{}, targets: map[uint32]*served{},
	}
	if e.device, err = openDevice(&e.cfg); err != nil {
		return nil, err
	}
	e.channel, err = duplicate(int(e.device.channel.fd), "completion channel")
	if err == nil {
		e.failures, err = duplicate(int(e.device.context.async_fd), "events of the device")
	}
	if err == nil {
		err = e.device.notify()
	}
	if err != nil {
		_, _ = e.channel.Close(), e.failures.Close() // err is reported; Close of a nil file only returns an error
		e.device.close()
		return nil, fmt.Errorf("verbs: completion channel: %w", err)
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.running.Go(e.listen)
	e.running.Go(e.watch)
	return e, nil
}

// Check returns the reason why New cannot use a device, or nil. The empty name means the first device.
func Check(name string) error {
	d, err := openDevice(&Config{Device: name})
	if err == nil {
		d.close()
	}
	return err
}

// duplicate returns a file for a copy of a descriptor. The caller keeps the descriptor.
func duplicate(descriptor int, name string) (*os.File, error) {
	fd, err := syscall.Dup(descriptor)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// start registers a goroutine for which Close waits. It returns false if the endpoint is closed.
func (e *endpoint) start() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.running.Add(1)
	}
	return !e.closed
}

// Register implements fabric.Endpoint.
func (e *endpoint) Register(id fabric.RegionID, size int) (fabric.Memory, error) {
	if err := remote.CheckRegion(id, size); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		return nil, errClosed
	case e.regions[id] != nil:
		return nil, fmt.Errorf("fabric: there is a region %d already: choose another number", id)
	}
	m, err := e.device.register(size, true, nil)
	if err != nil {
		return nil, err
	}
	r := &region{id: id, size: size, memory: m, rights: map[fabric.NodeID]fabric.Rights{}, served: map[fabric.NodeID]*served{}}
	// The memory stays readable for the owner after Close.
	runtime.AddCleanup(r, func(m *memory) { m.unmap() }, m)
	e.regions[id] = r
	return r, nil
}

// registered returns a region of this node. The caller holds mu.
func (e *endpoint) registered(id fabric.RegionID) (*region, error) {
	if e.closed {
		return nil, errClosed
	}
	r := e.regions[id]
	if r == nil {
		return nil, fmt.Errorf("fabric: there is no region %d: register it", id)
	}
	return r, nil
}

// Grant implements fabric.Endpoint.
func (e *endpoint) Grant(id fabric.RegionID, peer fabric.NodeID, rights fabric.Rights) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	r, err := e.registered(id)
	if err != nil {
		return err
	}
	r.rights[peer] |= rights
	if s := r.served[peer]; s != nil && s.connected {
		// It fails if the queue pair is in the error state. The peer must reset it then; this sets the flags.
		if s.pair.setAccess(flagsOf(r.rights[peer])) == nil {
			s.rights = r.rights[peer]
		}
	}
	return nil
}

// Post implements fabric.Endpoint. The number of operations that wait for room has no limit.
func (e *endpoint) Post(ops ...fabric.Op) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return errClosed
	}
	if e.failure != nil {
		return e.failure
	}
	for i := range ops {
		if err := ops[i].Validate(); err != nil {
			return err
		}
		if q := e.to(ops[i].Peer, ops[i].Region); q.ops.Post(&ops[i]) {
			q.push()
		}
	}
	return nil
}

// to returns the queue to a region of a peer. The caller holds the lock.
func (e *endpoint) to(peer fabric.NodeID, id fabric.RegionID) *queue {
	o := e.outgoing[peer]
	if o == nil {
		o = &outgoing{endpoint: e, peer: peer, queues: map[fabric.RegionID]*queue{}}
		e.outgoing[peer] = o
	}
	q := o.queues[id]
	if q == nil {
		e.lastID++
		q = &queue{id: e.lastID, region: id, to: o, ops: remote.NewPeer(peer, e.complete)}
		o.queues[id], e.queues[q.id] = q, q
	}
	return q
}

// complete adds a completion to the events of Poll. The caller holds the lock.
func (e *endpoint) complete(c fabric.Completion) {
	e.events.Completions = append(e.events.Completions, c)
	e.signal()
}

// signal wakes a sleeping Wait.
func (e *endpoint) signal() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// drain reads the results of work requests, and handles them. The caller holds the lock.
func (e *endpoint) drain() {
	for {
		n := e.device.poll(e.ends[:])
		for i := range e.ends[:n] {
			d := &e.ends[i]
			id := uint32(d.id >> 32 &^ (ofTarget >> 32))
			if d.id&ofTarget != 0 {
				e.targets[id].noted(d, e)
				continue
			}
			q := e.queues[id]
			q.finished(d)
			q.push()
		}
		if n < len(e.ends) {
			return
		}
	}
}

// listen waits for events of the completion queue until the endpoint is closed.
func (e *endpoint) listen() {
	raw, err := e.channel.SyscallConn()
	if err != nil {
		return
	}
	for e.ctx.Err() == nil {
		var failure error
		err := raw.Read(func(uintptr) bool {
			var there bool
			there, failure = e.device.nextEvent()
			return there || failure != nil
		})
		if err != nil {
			return // closed
		}
		if failure != nil {
			e.fail(failure)
			return
		}
		e.mu.Lock()
		// drain follows notify, so it finds results that arrived before notify was called.
		if e.device.notify() == nil {
			e.drain()
		}
		e.mu.Unlock()
	}
}

// Poll implements fabric.Endpoint.
func (e *endpoint) Poll(into *fabric.Events) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.drain()
	}
	into.Completions = append(into.Completions, e.events.Completions...)
	into.Landed = append(into.Landed, e.events.Landed...)
	e.events.Reset()
}

// has reports whether Poll would return events.
func (e *endpoint) has() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.drain()
	}
	return e.events.Any()
}

// Wait implements fabric.Endpoint. It sleeps for Config.Look at most.
func (e *endpoint) Wait(atMost time.Duration) {
	for start := time.Now(); ; {
		if e.has() {
			return
		}
		if time.Since(start) >= min(e.cfg.Spin, atMost) {
			break
		}
	}
	timer := time.NewTimer(min(atMost, e.cfg.Look))
	defer timer.Stop()
	select {
	case <-e.wake:
	case <-timer.C:
	case <-e.ctx.Done():
	}
}

// Close implements fabric.Endpoint. It waits for all goroutines, and for all calls of Serve.
func (e *endpoint) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	e.cancel()
	e.mu.Unlock()
	err := errors.Join(e.channel.Close(), e.failures.Close())
	e.running.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, q := range e.queues {
		q.lose()
		q.close()
	}
	for _, s := range e.targets {
		s.close()
	}
	for _, r := range e.regions {
		r.memory.close()
	}
	e.device.close()
	return err
}
