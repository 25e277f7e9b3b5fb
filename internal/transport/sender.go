package transport

import (
	"context"
	random "math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/connectivity"

	"github.com/globalfs/globalfs/internal/wire"
)

const (
	// batchBytes is how much leaves in one write, unless a single frame is longer. It fits, with what goes
	// around it, into the 32 KiB buffers of gRPC, whose next larger ones are 1 MiB and cleared for each use.
	batchBytes = 28 << 10
	// tellEvery is how often every link says where it stands. That finds peers that
	// have restarted, or begun to listen, without a word, and acknowledges what
	// no packet has.
	tellEvery = time.Second
	// Pauses between streams that break at once.
	minPause, maxPause = 20 * time.Millisecond, time.Second
)

// sender writes the packets of all links between this address and another one to one stream.
// While a write is under way more becomes ready, and leaves together.
type sender struct {
	server  *Server
	address string
	ctx     context.Context // ends with the sender
	cancel  context.CancelFunc
	wake    chan struct{} // capacity 1: ready is not empty

	mu    sync.Mutex
	ends  map[*linkEnd]struct{}
	ready []*linkEnd // have a packet to write; each is there once
}

func newSender(s *Server, address string) *sender {
	w := &sender{server: s, address: address, wake: make(chan struct{}, 1), ends: map[*linkEnd]struct{}{}}
	w.ctx, w.cancel = context.WithCancel(s.ctx)
	return w
}

func (s *sender) join(e *linkEnd) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends[e] = struct{}{}
}

func (s *sender) leave(e *linkEnd) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ends, e)
	s.ready = slices.DeleteFunc(s.ready, func(other *linkEnd) bool { return other == e })
}

func (s *sender) empty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ends) == 0
}

// all gives the links of now.
func (s *sender) all() []*linkEnd {
	s.mu.Lock()
	defer s.mu.Unlock()
	ends := make([]*linkEnd, 0, len(s.ends))
	for e := range s.ends {
		ends = append(ends, e)
	}
	return ends
}

// wakeFor has the packet of e written, if it has one. The owner's mutex is held.
func (s *sender) wakeFor(e *linkEnd) {
	if e.queued || !e.link.ready() {
		return
	}
	e.queued = true
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = append(s.ready, e)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run keeps a stream open until the sender ends.
func (s *sender) run() {
	defer s.cancel()
	pause := minPause
	tell := newOutage()
	for {
		opened := time.Now()
		err := s.stream(s.ctx)
		if s.ctx.Err() != nil {
			return
		}
		if time.Since(opened) > maxPause {
			pause = minPause
			tell = newOutage()
		}
		tell.Do(func() {
			s.server.pool.log.Info("connection for links broke, will be opened again", "address", s.address, "error", err)
		})
		s.rest(pause)
		pause = min(2*pause, maxPause)
	}
}

// newOutage lets the log tell that a connection broke, why it cannot be opened, and that once a minute.
func newOutage() *rate.Sometimes { return &rate.Sometimes{First: 2, Interval: time.Minute} }

// rest waits for a while, or until an address that cannot be reached can.
func (s *sender) rest(pause time.Duration) {
	ctx, cancel := context.WithTimeout(s.ctx, pause/2+random.N(pause))
	defer cancel()
	if conn, err := s.server.pool.conn(s.address); err == nil && conn.GetState() == connectivity.TransientFailure {
		conn.WaitForStateChange(ctx, connectivity.TransientFailure)
		return
	}
	<-ctx.Done()
}

// stream opens a stream and writes to it until it breaks.
func (s *sender) stream(ctx context.Context) error {
	if s.server.isHere(s.address) {
		return s.pump(ctx, s.server.deliver, nil)
	}
	conn, err := s.server.pool.conn(s.address)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	stream, err := wire.NewTransportClient(conn).Frames(ctx)
	if err != nil {
		cancel()
		return err
	}
	broken := make(chan error)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := stream.RecvMsg(new(wire.FramesEnd))
		select {
		case broken <- err:
		case <-ctx.Done():
		}
	}()
	err = s.pump(ctx, stream.Send, broken)
	cancel()
	<-ended
	return err
}

// pump writes what is ready until the stream has broken.
func (s *sender) pump(ctx context.Context, write func(*wire.Batch) error, broken <-chan error) error {
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	s.forAll((*link).resume)
	for {
		for batch := s.gather(); batch != nil; batch = s.gather() {
			if err := write(batch); err != nil {
				return err
			}
		}
		select {
		case <-s.wake:
		case <-tick.C:
			s.forAll(func(k *link) { k.due = true })
		case err := <-broken:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// forAll does f to every link and has it written.
func (s *sender) forAll(f func(*link)) {
	for _, e := range s.all() {
		e.owner.mu.Lock()
		if e.sender == s {
			f(&e.link)
			s.wakeFor(e)
		}
		e.owner.mu.Unlock()
	}
}

// gather gives one batch of what is ready, nil if nothing is.
func (s *sender) gather() *wire.Batch {
	s.mu.Lock()
	ready := s.ready
	s.ready = nil
	s.mu.Unlock()
	batch := &wire.Batch{}
	size := 0
	for i, e := range ready {
		if size >= batchBytes {
			s.mu.Lock()
			s.ready = append(ready[i:], s.ready...)
			s.mu.Unlock()
			break
		}
		if p := s.packet(e, batchBytes-size); p != nil {
			batch.Packets = append(batch.Packets, p)
			for _, f := range p.Frames {
				size += sizeOf(f)
			}
		}
	}
	if len(batch.Packets) == 0 {
		return nil
	}
	return batch
}

// packet takes the next packet of e, which is not in ready any more.
func (s *sender) packet(e *linkEnd, limit int) *wire.Packet {
	e.owner.mu.Lock()
	defer e.owner.mu.Unlock()
	if e.sender != s {
		return nil // it has moved
	}
	e.queued = false
	if e.owner.inbox.closed || !e.link.ready() {
		return nil
	}
	p := e.next(e.owner.self, limit)
	s.wakeFor(e)
	return p
}
