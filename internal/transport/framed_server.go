package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/buffers"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// handlers is the number of goroutines that a Server keeps for calls. A new goroutine for each call would
// begin with a small stack, and copy the stack several times while it grows. When all kept goroutines are
// busy, a call gets a new one.
const handlers = 32

// framed is the part of a Server that serves connections of the framed protocol.
type framed struct {
	server *Server
	jobs   chan func() // to an idle kept goroutine
	done   chan struct{}

	mu       sync.Mutex
	closed   bool                  // GUARDED_BY mu
	sessions map[*session]struct{} // GUARDED_BY mu
	sockets  map[*guest]struct{}   // GUARDED_BY mu
	running  sync.WaitGroup        // the sessions, the users of sockets and the kept goroutines
}

func newFramed(s *Server) *framed {
	f := &framed{server: s, jobs: make(chan func()), done: make(chan struct{}), sessions: map[*session]struct{}{}, sockets: map[*guest]struct{}{}}
	for range handlers {
		f.running.Go(f.work)
	}
	return f
}

// work runs jobs until the end.
func (f *framed) work() {
	for {
		select {
		case job := <-f.jobs:
			job()
		case <-f.done:
			return
		}
	}
}

// do runs a job in another goroutine.
func (f *framed) do(job func()) {
	select {
	case f.jobs <- job:
	default:
		go job()
	}
}

// give takes over a connection, and serves it in a goroutine.
func (f *framed) give(g *guest) {
	most := maxCalls
	if g.info != nil && g.info.account != nil {
		most = maxClientCalls
	}
	s := &session{
		framedConn: newFramedConn(g, g.meter), framed: f, info: g.info, slots: make(chan struct{}, most), cancels: map[uint64]context.CancelFunc{},
		begun: map[uint64]*framedCall{},
	}
	s.shared = g.shared
	s.calls, s.endCalls = context.WithCancel(context.Background())
	if g.info != nil {
		s.calls = context.WithValue(s.calls, peerKey{}, &g.info.identity)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		_ = g.Close()
		return
	}
	f.sessions[s] = struct{}{}
	f.running.Go(s.serve)
}

// close ends all connections. No handler runs any more, but answers may still be on their way to their
// callers.
func (f *framed) close() {
	f.mu.Lock()
	again := f.closed
	f.closed = true
	all := make([]*session, 0, len(f.sessions))
	for s := range f.sessions {
		all = append(all, s)
	}
	for c := range f.sockets {
		_ = c.cut() // its user gets an error
	}
	f.mu.Unlock()
	var leaving sync.WaitGroup
	for _, s := range all {
		leaving.Go(s.leave)
	}
	leaving.Wait()
	if !again {
		close(f.done)
	}
	f.running.Wait()
}

// session is a connection that a peer has opened.
type session struct {
	*framedConn
	framed   *framed
	info     *peerInfo       // nil without certificates
	calls    context.Context // of handlers; ends with the connection
	endCalls context.CancelFunc
	answers  sync.WaitGroup
	slots    chan struct{} // calls that are not answered yet

	pending sync.Mutex
	cancels map[uint64]context.CancelFunc // GUARDED_BY pending; of calls that the caller waits for
	begun   map[uint64]*framedCall        // GUARDED_BY pending; calls that the caller waits for and no goroutine does
	expirer *time.Timer                   // GUARDED_BY pending; ends calls at their deadlines; nil: unused
	expiry  time.Time                     // GUARDED_BY pending; when expirer fires; zero: it does not
}

// leave ends the connection after the answers that are under way have left, if the peer takes them.
func (s *session) leave() {
	limit := time.NewTimer(byeTime)
	defer limit.Stop()
	for range cap(s.slots) {
		select {
		case s.slots <- struct{}{}: // the reader takes in no call any more
		case <-s.ended.Done():
			return
		case <-limit.C:
			s.fail(errors.New("the peer takes no answers"))
			return
		}
	}
	s.bye(errors.New("the server at " + s.framed.server.address + " stops"))
}

// serve reads messages until the connection ends.
func (s *session) serve() {
	s.keep(nil)
	hello := varint.AppendUint(nil, uint64(cap(s.slots)))
	if shared := s.framed.server.gate.shared; shared != nil && !s.shared {
		hello = append(hello, shared.name...)
	}
	s.post(append(appendHead(nil, kindHello, 0, len(hello)), hello...))
	err := s.read()
	s.endCalls()
	s.abandonAll()
	if errors.Is(err, errFormat) || errors.As(err, new(refusal)) {
		s.framed.server.gate.refusals.Do(func() {
			s.framed.server.pool.log.Warn("connection refused", "address", s.framed.server.address, "peer", s.peer(), "error", err)
		})
		s.bye(err)
	}
	s.fail(err)
	s.answers.Wait()
	s.framed.mu.Lock()
	delete(s.framed.sessions, s)
	s.framed.mu.Unlock()
}

// peer names the peer in the log.
func (s *session) peer() string {
	if s.info == nil {
		return s.RemoteAddr().String()
	}
	return s.info.identity.String()
}

// refusal is an error that is sent to the peer.
type refusal string

func (r refusal) Error() string { return string(r) }

func (s *session) read() error {
	for {
		h, err := s.next()
		if err != nil {
			return err
		}
		switch h.kind {
		case kindCall:
			err = s.call(h)
		case kindCancel:
			s.withdraw(h.call)
		case kindPackets:
			err = s.packets(h)
		case kindStream:
			err = s.stream(h)
		default:
			err = fmt.Errorf("%w: a caller sends a message of kind %d", errFormat, h.kind)
		}
		if err != nil {
			return err
		}
	}
}

// packets takes in packets of links. Only a server can act for processes.
func (s *session) packets(h head) error {
	if s.info != nil && s.info.identity.Role != identity.Server {
		return refusal("only servers have links")
	}
	body, err := s.body(h)
	if err != nil {
		return err
	}
	batch, err := parsePackets(body)
	if err != nil {
		return err
	}
	s.held.Store(true) // a turn may run
	err = s.framed.server.deliver(batch)
	s.held.Store(false)
	if err != nil {
		return refusal("packet refused, the sender may send again: " + err.Error())
	}
	return nil
}

// withdraw ends a call after its caller has withdrawn it.
func (s *session) withdraw(call uint64) {
	s.pending.Lock()
	cancel := s.cancels[call]
	delete(s.cancels, call)
	s.pending.Unlock()
	if cancel != nil {
		cancel()
	} else {
		s.abandon(call)
	}
}

// account returns the account of the peer, nil if the peer is a server.
func (s *session) account() *account {
	if s.info == nil {
		return nil
	}
	return s.info.account
}

// call takes in a call, when it is its caller's turn, and dispatches it. Until then nothing else is read from
// the connection: the data stays with the peer.
func (s *session) call(h head) error {
	if h.length < 2 {
		return fmt.Errorf("%w: a call cannot be read", errFormat)
	}
	a := s.account()
	if a != nil && a.open.Add(1) > a.limits.calls {
		a.open.Add(-1)
		if err := a.wait(s.ended, &s.held); err != nil { // a refusal costs about as much as a call
			return err
		}
		s.post(textMessage(kindRefused, h.call, fmt.Sprintf("%s has %d calls under way here, more are refused", s.info.identity.Name, a.limits.calls)))
		return s.skip(h)
	}
	s.held.Store(true)
	select {
	case s.slots <- struct{}{}:
	case <-s.ended.Done():
		a.leave(0)
		return s.why()
	}
	held, err := a.admit(s.ended, h.length)
	s.held.Store(false)
	if err != nil {
		a.leave(0)
		<-s.slots
		return err
	}
	body, err := s.bodyIn(buffers.Take(h.length))
	if err != nil {
		a.leave(held)
		<-s.slots
		return err
	}
	if err = s.dispatch(h.call, body, held); err != nil {
		a.leave(held)
		<-s.slots
	}
	return err
}

// dispatch gives a call to its process (Asynchronous), or to a goroutine that runs the handler.
func (s *session) dispatch(call uint64, body []byte, held int64) error {
	to, limit, request, err := parseCall(body)
	if err != nil {
		return err
	}
	e := s.framed.server.endpoint(to)
	if e != nil {
		if later := e.asynchronous(); later != nil {
			c := &framedCall{session: s, service: e.service, process: later, id: call, held: held}
			if limit > 0 {
				c.deadline = time.Now().Add(limit)
			}
			if begun, err := s.begin(c, request); begun || err != nil {
				return err
			}
		}
	}
	ctx, err := s.expect(call, limit)
	if err != nil {
		return err
	}
	s.answers.Add(1)
	s.framed.do(func() {
		reply := s.answer(ctx, call, to, request, func() { s.account().leave(held) })
		if e != nil {
			e.giveBack(body, reply)
		}
	})
	return nil
}

// duplicateCall returns the error for a second call with the same number.
func duplicateCall(call uint64) error {
	return fmt.Errorf("%w: two calls under way have the number %d", errFormat, call)
}

// expect makes the context of a call.
func (s *session) expect(call uint64, limit time.Duration) (ctx context.Context, err error) {
	s.pending.Lock()
	defer s.pending.Unlock()
	if s.cancels[call] != nil || s.begun[call] != nil {
		return nil, duplicateCall(call)
	}
	if limit > 0 {
		ctx, s.cancels[call] = context.WithTimeout(s.calls, limit)
	} else {
		ctx, s.cancels[call] = context.WithCancel(s.calls)
	}
	return ctx, nil
}

// answer runs the handler of a call, and sends the outcome to the caller. Each call is answered exactly once,
// also a call that the caller has withdrawn. It returns the reply if it was sent.
func (s *session) answer(ctx context.Context, call uint64, to multicast.ProcessID, request []byte, leave func()) (reply []byte) {
	defer s.answers.Done()
	reply, err := s.framed.server.answer(ctx, to, request)
	late := errors.Is(ctx.Err(), context.DeadlineExceeded)
	s.pending.Lock()
	cancel := s.cancels[call]
	delete(s.cancels, call)
	s.pending.Unlock()
	if cancel != nil {
		cancel()
	}
	var remote *RemoteError
	switch {
	case cancel == nil || err != nil && late:
		reply = nil // the message may wait for long
		err = s.send(s.ended, appendHead(nil, kindLate, call, 0), nil)
	case err == nil && !s.account().reserve(len(reply)):
		reply = nil
		err = s.send(s.ended, textMessage(kindRefused, call, tooManyReplies), nil)
	case err == nil:
		err = s.send(s.ended, appendHead(make([]byte, 0, headSize+min(len(reply), smallMessage)), kindReply, call, len(reply)), reply)
		s.account().release(len(reply))
	case errors.As(err, &remote):
		err = s.send(s.ended, textMessage(kindFailed, call, remote.Text), nil)
	default:
		err = s.send(s.ended, textMessage(kindRefused, call, err.Error()), nil)
	}
	if err != nil {
		s.fail(err)
	}
	leave() // not earlier: the call counts until the caller has taken its reply
	<-s.slots
	return reply
}

// greeted distinguishes a connection of the framed protocol, without TLS, from a connection of gRPC, and
// answers the greeting of the framed protocol. It reads nothing beyond the greeting.
func greeted(c net.Conn, limit time.Duration) (framed bool, same net.Conn, err error) {
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		return false, nil, err
	}
	b := make([]byte, len(greeting))
	if _, err := io.ReadFull(c, b); err != nil {
		return false, nil, err
	}
	switch {
	case string(b) == greeting:
		_, err = io.WriteString(c, greeting)
		framed = err == nil
	case b[0] == 22 && b[1] == 3:
		err = errors.New("the peer uses TLS, and this server has no certificates: make some with 'globalfs certs', or connect without")
	case !bytes.HasPrefix([]byte(http2), b):
		err = fmt.Errorf("the peer speaks neither %s nor HTTP/2", framedProtocol)
	default:
		c = &replayed{Conn: c, before: b}
	}
	return framed, c, errors.Join(err, c.SetDeadline(time.Time{}))
}

// http2 begins a connection of gRPC.
const http2 = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// replayed is a connection with first bytes that were already read.
type replayed struct {
	net.Conn
	before []byte
}

// Read implements net.Conn. It returns the bytes read before first.
func (r *replayed) Read(b []byte) (int, error) {
	if len(r.before) > 0 {
		n := copy(b, r.before)
		r.before = r.before[n:]
		return n, nil
	}
	return r.Conn.Read(b)
}
