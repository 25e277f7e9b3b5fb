package transport

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/wire"
	"google.golang.org/grpc"
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
	wake    chan struct{} // capacity 1: ready is not empty

	mu    sync.Mutex
	ends  map[*linkEnd]struct{}
	ready []*linkEnd // have a packet to write; each is there once
}

func newSender(s *Server, address string) *sender {
	return &sender{server: s, address: address, wake: make(chan struct{}, 1), ends: map[*linkEnd]struct{}{}}
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
}

// wakeFor has the packet of e written, if it has one. The owner's mutex is held.
func (s *sender) wakeFor(e *linkEnd) {
	if !e.link.ready() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.queued {
		return
	}
	e.queued = true
	s.ready = append(s.ready, e)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run keeps a stream open until ctx ends.
func (s *sender) run(ctx context.Context) {
	pause := minPause
	for {
		opened := time.Now()
		err := s.stream(ctx)
		if ctx.Err() != nil {
			return
		}
		s.server.pool.log.Info("connection for links broke, will be opened again", "address", s.address, "error", err)
		if time.Since(opened) > maxPause {
			pause = minPause
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-ctx.Done():
			return
		}
		pause = min(2*pause, maxPause)
	}
}

// stream opens a stream and writes to it until it breaks.
func (s *sender) stream(ctx context.Context) error {
	if s.address == s.server.address {
		return s.pump(ctx, s.server.deliver, nil)
	}
	conn, err := s.server.pool.conn(s.address)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	stream, err := wire.NewTransportClient(conn).Frames(ctx, grpc.WaitForReady(true))
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
	s.mu.Lock()
	ends := make([]*linkEnd, 0, len(s.ends))
	for e := range s.ends {
		ends = append(ends, e)
	}
	s.mu.Unlock()
	for _, e := range ends {
		e.owner.mu.Lock()
		f(&e.link)
		s.wakeFor(e)
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
	s.mu.Lock()
	e.queued = false
	s.mu.Unlock()
	if e.owner.inbox.closed || !e.link.ready() {
		return nil
	}
	p := e.next(e.owner.self, limit)
	s.wakeFor(e)
	return p
}
