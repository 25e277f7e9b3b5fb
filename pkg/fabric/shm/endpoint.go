package shm

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/internal/remote"
)

// Config of an endpoint.
type Config struct {
	Self fabric.NodeID
	// Dial opens a connection to a peer; the peer passes its end to Serve. Both sides have authenticated each
	// other, for example by Client and Server. A *net.UnixConn leads to a peer on this host, with which the
	// node shares memory; any other connection is a stream. Dial is not called for the node itself.
	Dial func(ctx context.Context, peer fabric.NodeID) (net.Conn, error)
	// Introduced: the authentication of sockets excludes a process between both ends that relays it.
	// Otherwise both processes must run as the same user.
	Introduced bool
	// Timeout is the longest time without progress of a peer that has operations to execute. After it the
	// connection fails. 0: two seconds.
	Timeout time.Duration
	// Ring is the size in bytes of the ring of operations, and of the ring of answers, of each connection: a
	// power of two from 4 KiB to 64 MiB. A page of a ring uses memory from its first use on. The rings of
	// streams have at most 256 KiB. 0: 1 MiB.
	Ring int
	// Spin is the longest time for which Wait polls the rings before it sleeps. After polls without a result
	// the time is shorter. 0: Wait sleeps at once.
	Spin time.Duration
	// Patience is the longest time for which the success of a write stays unreported if no other event
	// arrives. The target sends no bell for such an answer. 0: each answer ends Wait.
	Patience time.Duration
}

const (
	defaultTimeout = 2 * time.Second
	defaultRing    = 1 << 20
)

// Endpoint is a node. It implements fabric.Endpoint.
type Endpoint struct {
	cfg         Config
	incarnation uint64
	ctx         context.Context
	cancel      context.CancelFunc
	running     sync.WaitGroup
	wake        chan struct{}
	awake       chan struct{} // the guard must begin its checks
	regions     remote.Regions

	mu       sync.Mutex
	closed   bool
	outgoing map[fabric.NodeID]*outgoing
	incoming map[fabric.NodeID]*incoming
	here     *remote.Execution // of the node's operations on its own regions
	events   fabric.Events
	changed  bool // a peer has written a region since the last poll of Wait
	asleep   bool // no caller polls the rings: peers must send bells
	guarded  bool // the guard checks looks every guardEvery
	looks    uint64
	spin     time.Duration
	notify   func() // nil: the application calls Wait
}

var _ fabric.Endpoint = (*Endpoint)(nil)

var errClosed = errors.New("shm: the endpoint is closed")

// New creates an endpoint. The caller must close it.
func New(cfg Config) (*Endpoint, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, fmt.Errorf("shm: incarnation: %w", err)
	}
	e := &Endpoint{
		cfg: cfg, incarnation: binary.LittleEndian.Uint64(random[:]) | 1, wake: make(chan struct{}, 1), awake: make(chan struct{}, 1),
		outgoing: map[fabric.NodeID]*outgoing{}, incoming: map[fabric.NodeID]*incoming{}, asleep: true, spin: cfg.Spin,
	}
	e.here = remote.NewExecution(cfg.Self, &e.regions)
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.running.Add(1)
	go func() {
		defer e.running.Done()
		e.guard()
	}()
	return e, nil
}

// complete validates c, and replaces zero fields by their defaults.
func (c Config) complete() (Config, error) {
	switch {
	case c.Self == 0:
		return c, errors.New("shm: Config.Self is 0: give the node a number")
	case c.Dial == nil:
		return c, errors.New("shm: Config.Dial is missing: give a function that connects to a peer")
	case c.Timeout < 0:
		return c, fmt.Errorf("shm: Config.Timeout is %v: give a positive duration, or 0 for %v", c.Timeout, defaultTimeout)
	case c.Spin < 0:
		return c, fmt.Errorf("shm: Config.Spin is %v: give a positive duration, or 0", c.Spin)
	case c.Patience < 0:
		return c, fmt.Errorf("shm: Config.Patience is %v: give a positive duration, or 0", c.Patience)
	case c.Ring != 0 && (c.Ring < 0 || !validRing(uint64(c.Ring))):
		return c, fmt.Errorf("shm: Config.Ring is %d: give a power of two from %d to %d, or 0 for %d", c.Ring, minRing, maxRing, defaultRing)
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.Ring == 0 {
		c.Ring = defaultRing
	}
	if runtime.GOMAXPROCS(0) == 1 {
		c.Spin = 0 // the goroutine that reads bells needs the only thread
	}
	return c, nil
}

// start registers a goroutine for which Close waits. It returns false if the endpoint is closed.
func (e *Endpoint) start() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.running.Add(1)
	}
	return !e.closed
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

// Post implements fabric.Endpoint. The number of operations that wait for room in a ring has no limit.
func (e *Endpoint) Post(ops ...fabric.Op) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return errClosed
	}
	var last *outgoing // successive operations for one peer are pushed together
	var err error
	for i := range ops {
		if err = ops[i].Validate(); err != nil {
			break
		}
		o := e.to(ops[i].Peer)
		if last != nil && o != last {
			last.push()
			last = nil
		}
		if ops[i].Kind != fabric.Write {
			o.urgent++
		}
		if o.queues.Post(&ops[i]) {
			last = o
		}
	}
	if last != nil {
		last.push()
	}
	return err
}

// to returns the queues to a peer. The caller holds the lock.
func (e *Endpoint) to(peer fabric.NodeID) *outgoing {
	o := e.outgoing[peer]
	if o == nil {
		o = &outgoing{endpoint: e, peer: peer, queues: remote.NewPeer(peer, e.complete)}
		e.outgoing[peer] = o
	}
	return o
}

// complete adds a completion to the events of Poll. The caller holds the lock.
func (e *Endpoint) complete(c fabric.Completion) {
	if c.Kind != fabric.Write {
		e.outgoing[c.Peer].urgent--
	}
	e.events.Completions = append(e.events.Completions, c)
	e.signal()
}

// written records the end of a write in a region of this node. The caller holds the lock.
func (e *Endpoint) written(notify bool, landed fabric.Landed) {
	if notify {
		e.events.Landed = append(e.events.Landed, landed)
	}
	e.changed = true
	e.signal()
}

// Notify replaces Wait: from now on the goroutine that has found events, or a change of a region, calls f
// without a lock. The application then calls Poll. It also does so after Post, which calls nothing.
func (e *Endpoint) Notify(f func()) {
	e.mu.Lock()
	e.notify, e.changed = f, true
	e.mu.Unlock()
	f()
}

// tell calls the function of Notify if there is news. The caller holds the lock, which tell releases for the
// call.
func (e *Endpoint) tell() {
	if e.notify == nil || !e.changed && !e.events.Any() {
		return
	}
	e.changed = false
	f := e.notify
	e.mu.Unlock()
	defer e.mu.Lock()
	f()
}

// signal wakes a sleeping Wait.
func (e *Endpoint) signal() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Close implements fabric.Endpoint. It waits for all goroutines, and for all calls of Serve.
func (e *Endpoint) Close() error {
	e.mu.Lock()
	if !e.closed {
		e.closed = true
		e.cancel()
		for _, in := range e.incoming {
			in.close()
		}
		for _, o := range e.outgoing {
			if o.link != nil {
				o.lose(o.link)
			}
		}
	}
	e.mu.Unlock()
	e.running.Wait()
	return nil
}
