package transport

import (
	"context"
	random "math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/wire"
	"golang.org/x/time/rate"
)

const (
	// batchBytes is the size of one write, unless a single frame is longer. With its overhead it fits into
	// the 32 KiB buffers of gRPC; the next larger buffers have 1 MiB and are cleared for each use.
	batchBytes = 28 << 10
	// positionInterval is the interval at which every link sends its position. From the position the peer
	// learns of a restart and of a new listener. It also acknowledges frames that no packet has acknowledged.
	positionInterval = time.Second
	// mostBatches is the maximum number of batches that a goroutine other than the sender's writes at a time.
	mostBatches = 4
	// Pauses between streams that break at once.
	minPause, maxPause = 20 * time.Millisecond, time.Second
)

// sender writes the packets of all links between this address and another one, on one stream. Packets that
// become ready during a write leave together.
type sender struct {
	server  *Server
	address string
	ctx     context.Context // ends with the sender
	cancel  context.CancelFunc
	wake    chan struct{} // capacity 1: ready is not empty

	mu    sync.Mutex
	ends  map[*linkEnd]struct{}
	ready []*linkEnd // links with a packet to write, each once

	writing sync.Mutex   // locked before the mutex of links
	open    directStream // GUARDED_BY writing; nil: only run writes
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

// all returns the present links.
func (s *sender) all() []*linkEnd {
	s.mu.Lock()
	defer s.mu.Unlock()
	ends := make([]*linkEnd, 0, len(s.ends))
	for e := range s.ends {
		ends = append(ends, e)
	}
	return ends
}

// wakeFor wakes the sender if e has a packet. The owner's mutex is held.
func (s *sender) wakeFor(e *linkEnd) {
	if s.enlist(e) {
		s.awake()
	}
}

// enlist records that e has a packet to write, and reports whether that is new. The owner's mutex is held.
func (s *sender) enlist(e *linkEnd) bool {
	if e.queued || !e.link.ready() {
		return false
	}
	e.queued = true
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = append(s.ready, e)
	return true
}

// flush writes the ready packets, unless it would have to wait: then run writes them.
func (s *sender) flush() {
	if !s.writing.TryLock() {
		s.awake() // the present writer may have missed it
		return
	}
	defer s.writing.Unlock()
	for range mostBatches {
		if s.open == nil || !s.open.isFree() {
			break
		}
		batch := s.gather()
		if batch == nil || s.open.sendSoon(batch) != nil { // run gets an error
			return
		}
	}
	s.awake()
}

// awake wakes the goroutine of run.
func (s *sender) awake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run keeps a stream open until the sender ends.
func (s *sender) run() {
	defer s.cancel()
	pause := minPause
	outage := newOutage()
	for {
		opened := time.Now()
		err := s.stream(s.ctx)
		if s.ctx.Err() != nil {
			return
		}
		if time.Since(opened) > maxPause {
			pause = minPause
			outage = newOutage()
		}
		outage.Do(func() {
			s.server.pool.log.Info("connection for links broke, will be opened again", "address", s.address, "error", err)
		})
		s.rest(pause)
		pause = min(2*pause, maxPause)
	}
}

// newOutage limits the log of an outage: first the break, then the reason of the failed attempt, then once a
// minute.
func newOutage() *rate.Sometimes { return &rate.Sometimes{First: 2, Interval: time.Minute} }

// rest pauses between two attempts to connect: for a while, or until an unreachable address may be reachable
// again.
func (s *sender) rest(pause time.Duration) {
	ctx, cancel := context.WithTimeout(s.ctx, pause/2+random.N(pause))
	defer cancel()
	s.server.pool.rest(ctx, s.address)
}

// ownStream is the stream to links of this server's own address. It is not a directStream, because then the
// turn of one process would run inside the turn of another.
type ownStream struct{ *Server }

func (s ownStream) send(batch *wire.Batch) error { return s.deliver(batch) }
func (ownStream) broken() <-chan struct{}        { return nil }
func (ownStream) why() error                     { return nil }
func (ownStream) close()                         {}

// stream opens a stream and writes to it until it breaks.
func (s *sender) stream(ctx context.Context) error {
	if s.server.isHere(s.address) {
		return s.pump(ctx, ownStream{s.server})
	}
	stream, err := s.server.pool.packets(ctx, s.address)
	if err != nil {
		return err
	}
	defer stream.close()
	defer context.AfterFunc(ctx, stream.close)() // does not wait for a peer that takes nothing
	return s.pump(ctx, stream)
}

// pump writes the ready packets until the stream has broken.
func (s *sender) pump(ctx context.Context, stream packetStream) error {
	tick := time.NewTicker(positionInterval)
	defer tick.Stop()
	s.forAll((*link).resume)
	defer func() {
		s.writing.Lock()
		defer s.writing.Unlock()
		s.open = nil
	}()
	for {
		if err := s.write(stream); err != nil {
			return err
		}
		select {
		case <-s.wake:
		case <-tick.C:
			s.forAll(func(k *link) { k.due = true })
		case <-stream.broken():
			return stream.why()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// write writes all ready packets. Afterwards other goroutines may write, too, if they need not wait.
func (s *sender) write(stream packetStream) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.open = nil
	for batch := s.gather(); batch != nil; batch = s.gather() {
		if err := stream.send(batch); err != nil {
			return err
		}
	}
	s.open, _ = stream.(directStream)
	return nil
}

// forAll applies f to every link and schedules its packet.
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

// gather returns one batch of ready packets, nil if there is none.
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

// packet takes the next packet of e, which is no longer in ready.
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
