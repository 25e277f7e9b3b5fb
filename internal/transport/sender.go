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
	// batchBytes is how much leaves in one write, unless a single frame is longer. It fits, with what goes
	// around it, into the 32 KiB buffers of gRPC, whose next larger ones are 1 MiB and cleared for each use.
	batchBytes = 28 << 10
	// tellEvery is how often every link says where it stands. That finds peers that
	// have restarted, or begun to listen, without a word, and acknowledges what
	// no packet has.
	tellEvery = time.Second
	// mostBatches is how many batches another goroutine than the sender's writes at a time.
	mostBatches = 4
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

	writing sync.Mutex   // before the mutex of links
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
	if s.enlist(e) {
		s.awake()
	}
}

// enlist notes that e has a packet to write. It reports whether that is new. The owner's mutex is held.
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

// flush writes what is ready, unless that would have to wait: then run does it.
func (s *sender) flush() {
	if !s.writing.TryLock() {
		s.awake() // perhaps too late for who writes now
		return
	}
	defer s.writing.Unlock()
	for range mostBatches {
		if s.open == nil || !s.open.isFree() {
			break
		}
		batch := s.gather()
		if batch == nil || s.open.sendSoon(batch) != nil { // run hears of an error
			return
		}
	}
	s.awake()
}

// awake has run look.
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
	s.server.pool.rest(ctx, s.address)
}

// here is the way to the links at the server's own address. It is no directStream: the turn of one process would
// be a part of that of another.
type here struct{ *Server }

func (h here) send(batch *wire.Batch) error { return h.deliver(batch) }
func (here) broken() <-chan struct{}        { return nil }
func (here) why() error                     { return nil }
func (here) close()                         {}

// stream opens a stream and writes to it until it breaks.
func (s *sender) stream(ctx context.Context) error {
	if s.server.isHere(s.address) {
		return s.pump(ctx, here{s.server})
	}
	stream, err := s.server.pool.packets(ctx, s.address)
	if err != nil {
		return err
	}
	defer stream.close()
	defer context.AfterFunc(ctx, stream.close)() // a peer that takes nothing is not waited for
	return s.pump(ctx, stream)
}

// pump writes what is ready until the stream has broken.
func (s *sender) pump(ctx context.Context, stream packetStream) error {
	tick := time.NewTicker(tellEvery)
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

// write writes all that is ready. Then others may write, too, if that does not make them wait.
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
