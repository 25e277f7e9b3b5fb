package soft

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/internal/remote"
)

// Config of an endpoint.
type Config struct {
	Self fabric.NodeID
	// Dial opens a connection to a peer; the peer passes its end to Serve. Dial is not called for the node
	// itself.
	Dial func(ctx context.Context, peer fabric.NodeID) (net.Conn, error)
	// Timeout is the longest time without progress of a connection with waiting operations. 0: two seconds.
	Timeout time.Duration
}

const defaultTimeout = 2 * time.Second

// Endpoint is a node. It implements fabric.Endpoint.
type Endpoint struct {
	cfg         Config
	incarnation uint64
	ctx         context.Context
	cancel      context.CancelFunc
	running     sync.WaitGroup
	wake        chan struct{}
	regions     remote.Regions
	here        *remote.Execution // of the node's operations on itself; guarded by the lock of its outgoing to itself

	mu       sync.Mutex
	closed   bool
	outgoing map[fabric.NodeID]*outgoing
	incoming map[fabric.NodeID]*incoming
	events   fabric.Events
}

var _ fabric.Endpoint = (*Endpoint)(nil)

var errClosed = errors.New("soft: the endpoint is closed")

// New creates an endpoint. The caller must close it.
func New(cfg Config) (*Endpoint, error) {
	switch {
	case cfg.Self == 0:
		return nil, errors.New("soft: Config.Self is 0: give the node a number")
	case cfg.Dial == nil:
		return nil, errors.New("soft: Config.Dial is missing: give a function that connects to a peer")
	case cfg.Timeout < 0:
		return nil, fmt.Errorf("soft: Config.Timeout is %v: give a positive duration, or 0 for %v", cfg.Timeout, defaultTimeout)
	case cfg.Timeout == 0:
		cfg.Timeout = defaultTimeout
	}
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, fmt.Errorf("soft: incarnation: %w", err)
	}
	e := &Endpoint{
		cfg: cfg, incarnation: binary.LittleEndian.Uint64(random[:]) | 1, wake: make(chan struct{}, 1),
		outgoing: map[fabric.NodeID]*outgoing{}, incoming: map[fabric.NodeID]*incoming{},
	}
	e.here = remote.NewExecution(cfg.Self, &e.regions)
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e, nil
}

// Register implements fabric.Endpoint.
func (e *Endpoint) Register(id fabric.RegionID, size int) (fabric.Memory, error) {
	if e.ctx.Err() != nil {
		return nil, errClosed
	}
	return e.regions.Register(id, size)
}

// Grant implements fabric.Endpoint.
func (e *Endpoint) Grant(id fabric.RegionID, peer fabric.NodeID, rights fabric.Rights) error {
	return e.regions.Grant(id, peer, rights)
}

// Revoke implements fabric.Endpoint.
func (e *Endpoint) Revoke(id fabric.RegionID, peer fabric.NodeID, rights fabric.Rights) error {
	return e.regions.Revoke(id, peer, rights)
}

// Post implements fabric.Endpoint. The number of operations that wait for a connection has no limit.
func (e *Endpoint) Post(ops ...fabric.Op) error {
	for i := range ops {
		if err := ops[i].Validate(); err != nil {
			return err
		}
		o, err := e.to(ops[i].Peer)
		if err != nil {
			return err
		}
		o.post(&ops[i])
	}
	return nil
}

// to returns the queues to a peer. The first call starts their goroutine.
func (e *Endpoint) to(peer fabric.NodeID) (*outgoing, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, errClosed
	}
	o := e.outgoing[peer]
	if o == nil {
		o = &outgoing{endpoint: e, peer: peer, more: make(chan struct{}, 1), queues: remote.NewPeer(peer, e.complete)}
		e.outgoing[peer] = o
		if peer == e.cfg.Self {
			return o, nil
		}
		e.running.Add(1)
		go func() {
			defer e.running.Done()
			o.run()
		}()
	}
	return o, nil
}

// Poll implements fabric.Endpoint.
func (e *Endpoint) Poll(into *fabric.Events) {
	e.mu.Lock()
	defer e.mu.Unlock()
	into.Completions = append(into.Completions, e.events.Completions...)
	into.Landed = append(into.Landed, e.events.Landed...)
	e.events.Reset()
}

// Wait implements fabric.Endpoint.
func (e *Endpoint) Wait(atMost time.Duration) {
	if e.has() {
		return
	}
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case <-e.wake:
	case <-timer.C:
	case <-e.ctx.Done():
	}
}

func (e *Endpoint) has() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.events.Any()
}

// changed wakes a sleeping Wait.
func (e *Endpoint) changed() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

func (e *Endpoint) complete(c fabric.Completion) {
	e.mu.Lock()
	e.events.Completions = append(e.events.Completions, c)
	e.mu.Unlock()
	e.changed()
}

func (e *Endpoint) landed(l fabric.Landed) {
	e.mu.Lock()
	e.events.Landed = append(e.events.Landed, l)
	e.mu.Unlock()
	e.changed()
}

// Close implements fabric.Endpoint. It waits for all goroutines, and for all calls of Serve.
func (e *Endpoint) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	e.cancel()
	for _, in := range e.incoming {
		_ = in.conn.Close()
	}
	outgoing := make([]*outgoing, 0, len(e.outgoing))
	for _, o := range e.outgoing {
		outgoing = append(outgoing, o)
	}
	e.mu.Unlock()
	for _, o := range outgoing {
		o.hangUp()
	}
	e.running.Wait()
	return nil
}
