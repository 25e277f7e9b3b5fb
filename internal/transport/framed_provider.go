package transport

import (
	"context"
	"errors"
	"fmt"
	random "math/rand/v2"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/wire"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Bounds of the pauses after consecutive failed attempts to connect.
const (
	firstRetry = 50 * time.Millisecond
	mostRetry  = time.Second
)

// bulkMessage is the minimum length in bytes of a request or a reply that counts as a block of data.
const bulkMessage = 64 << 10

// framedProvider reaches servers over connections of the framed protocol. Each address has a connection for
// calls, a second one for long calls, so that short calls do not wait behind them, and one for the packets of
// links.
type framedProvider struct {
	cfg     Config
	ctx     context.Context // ends with the provider
	cancel  context.CancelFunc
	running sync.WaitGroup // the goroutines of connections; grows only while not closed

	mu     sync.Mutex
	closed bool                           // GUARDED_BY mu
	lanes  map[laneKey]*lane              // GUARDED_BY mu
	bulky  map[multicast.ProcessID]string // GUARDED_BY mu; addresses of processes whose last reply was long
	// unshared has, by name, the servers with which shared memory has failed, and the time of the next
	// attempt.
	unshared map[string]time.Time // GUARDED_BY mu
}

type laneKey struct {
	address string
	bulk    bool
}

// lane holds the connection for calls of one kind to one address.
type lane struct {
	provider *framedProvider
	address  string

	mu      sync.Mutex
	conn    *caller       // GUARDED_BY mu; nil until usable; may have ended
	opening chan struct{} // GUARDED_BY mu; closed at the end of the current attempt
	failed  error         // GUARDED_BY mu; the error of the last attempt
	pause   time.Duration // GUARDED_BY mu; the pause after the last failed attempt
	retry   time.Time     // GUARDED_BY mu; the time of the next attempt at the earliest
}

func newFramedProvider(cfg Config) *framedProvider {
	p := &framedProvider{cfg: cfg, lanes: map[laneKey]*lane{}, bulky: map[multicast.ProcessID]string{}, unshared: map[string]time.Time{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// start runs f in a goroutine, unless the provider is closed.
func (p *framedProvider) start(f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.running.Go(f)
	}
	return !p.closed
}

// lane returns the lane for a call.
func (p *framedProvider) lane(to multicast.ProcessID, address string, request []byte) (l *lane, bulk bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, false, ErrClosed
	}
	bulk = p.bulky[to] == address
	key := laneKey{address, bulk || len(request) >= bulkMessage}
	if l = p.lanes[key]; l == nil {
		l = &lane{provider: p, address: address}
		p.lanes[key] = l
	}
	return l, bulk, nil
}

// note records whether the replies of a process are long.
func (p *framedProvider) note(to multicast.ProcessID, address string, bulk bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if bulk {
		p.bulky[to] = address
	} else {
		delete(p.bulky, to)
	}
}

func (p *framedProvider) call(ctx context.Context, to multicast.ProcessID, address string, request []byte) ([]byte, error) {
	l, bulk, err := p.lane(to, address, request)
	if err != nil {
		return nil, err
	}
	c, err := l.get(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, errOldPeer):
		return nil, err
	case err != nil:
		return nil, unreachable(to, err.Error())
	}
	reply, err := c.call(ctx, to, request)
	if long := len(reply) >= bulkMessage; err == nil && long != bulk && len(request) < bulkMessage {
		p.note(to, address, long)
	}
	return reply, err
}

// get returns a connection, and waits until there is one. After a failed attempt a call gets the error at
// once, during the next attempt, so that its caller can try another server.
func (l *lane) get(ctx context.Context) (*caller, error) {
	for {
		l.mu.Lock()
		if l.conn != nil && l.conn.ended.Err() == nil {
			defer l.mu.Unlock()
			return l.conn, nil
		}
		l.conn = nil
		opening, err := l.open()
		l.mu.Unlock()
		if err != nil {
			return nil, err
		}
		select {
		case <-opening:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// open begins an attempt to connect, unless one is under way or the last one has just failed. It returns a
// recent error instead of the attempt. l.mu is held.
func (l *lane) open() (chan struct{}, error) {
	now := time.Now()
	if l.opening == nil && (l.failed == nil || now.After(l.retry)) {
		opening := make(chan struct{})
		if !l.provider.start(func() { l.run(opening) }) {
			return nil, ErrClosed
		}
		l.opening = opening
	}
	if l.failed != nil && (l.opening == nil || now.Before(l.retry.Add(probeTime))) {
		return nil, fmt.Errorf("%s: %w", l.address, l.failed)
	}
	return l.opening, nil
}

// run connects, and reads from the connection until it ends. A connection that ends at once counts as a
// failed attempt if no call was answered or the peer violated the protocol; otherwise the waiting calls would
// connect again and again to a peer that refuses all calls.
func (l *lane) run(opening chan struct{}) {
	c, err := l.provider.connect(l.provider.ctx, l.address)
	began := time.Now()
	l.mu.Lock()
	l.opening, l.conn, l.failed = nil, c, nil
	if err != nil {
		l.fail(err)
	}
	l.mu.Unlock()
	close(opening)
	if err != nil {
		return
	}
	c.keep(c.unused)
	l.provider.attend(c)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch why := c.why(); {
	case c.answered.Load() && !errors.Is(why, errFormat) || time.Since(began) >= mostRetry:
		l.pause = 0
	case l.conn == nil || l.conn == c: // no later connection
		l.fail(why)
	}
}

// fail records a failed attempt. l.mu is held.
func (l *lane) fail(err error) {
	l.conn, l.failed = nil, err
	l.pause = min(max(firstRetry, l.pause*8/5), mostRetry)
	l.retry = time.Now().Add(l.pause - l.pause/5 + random.N(l.pause*2/5))
}

// attend reads from a connection until it or the provider ends.
func (p *framedProvider) attend(c *caller) {
	defer context.AfterFunc(p.ctx, func() { c.bye(errors.New("the peer closes")) })()
	c.run()
}

// framedPackets is a connection for the packets of links.
type framedPackets struct {
	*caller
	buffer []byte // of the goroutine that sends; there is one at a time
}

func (p *framedProvider) packets(ctx context.Context, address string) (packetStream, error) {
	c, err := p.connect(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	c.keep(nil)
	if !p.start(func() { p.attend(c) }) {
		c.fail(ErrClosed)
		return nil, ErrClosed
	}
	return &framedPackets{caller: c}, nil
}

func (s *framedPackets) send(batch *wire.Batch) error {
	return s.framedConn.send(s.ended, s.encode(batch), nil)
}

func (s *framedPackets) sendSoon(batch *wire.Batch) error {
	return s.framedConn.sendSoon(s.encode(batch))
}

func (s *framedPackets) isFree() bool { return !s.isBusy() && !s.meter.isFull() }

// encode encodes a batch as a message, in memory that the next batch reuses.
func (s *framedPackets) encode(batch *wire.Batch) []byte {
	if cap(s.buffer) > 4*batchBytes {
		s.buffer = nil
	}
	s.buffer = appendPackets(s.buffer[:0], batch)
	return s.buffer
}

func (s *framedPackets) broken() <-chan struct{} { return s.ended.Done() }

func (s *framedPackets) close() { s.fail(errors.New("the links are closed")) }

// rest implements provider. It waits until ctx ends, since it does not learn when an address is reachable.
func (p *framedProvider) rest(ctx context.Context, _ string) { <-ctx.Done() }

func (p *framedProvider) close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	p.running.Wait()
	return nil
}
