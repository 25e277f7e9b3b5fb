package shm

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/internal/remote"
)

// outgoing has all queues of this node to one peer, and the connection that carries them. There is at most
// one connection at a time. The endpoint's lock guards all fields.
type outgoing struct {
	endpoint   *Endpoint
	peer       fabric.NodeID
	queues     *remote.Peer
	connecting bool
	urgent     int   // operations other than writes without a completion
	link       *link // nil: none
	// The state of the connection:
	unwritten []*remote.Pending // operations that are not completely in the ring
	offset    int               // bytes of unwritten[0] that are in the ring
	header    []byte
	progress  time.Time // the last time at which the target made progress, or no operation waited
	armed     bool      // the goroutine of the connection reads the answers after Config.Patience
	answering bool      // the fixed part of the current answer was read
	answer    remote.Answer
	data      []byte
	have      int
}

// push writes the posted operations into the ring, as far as there is room. If there is no connection, push
// starts one.
func (o *outgoing) push() {
	switch e := o.endpoint; {
	case o.peer == e.cfg.Self:
		o.queues.ExecuteHere(e.here, e.incarnation, e.written)
	case o.link != nil:
		if o.move(); o.waits() && !o.armed {
			o.armed = o.link.conn.SetReadDeadline(time.Now().Add(e.cfg.Patience)) == nil
		}
	case !o.connecting:
		o.connecting = true
		e.running.Add(1)
		go func() {
			defer e.running.Done()
			o.run()
		}()
	}
}

// run connects, and then waits for bells until the connection ends.
func (o *outgoing) run() {
	e := o.endpoint
	l := o.connect()
	e.mu.Lock()
	defer e.mu.Unlock()
	o.connecting = false
	if l == nil || e.closed {
		o.queues.Lose()
		if l != nil {
			l.close()
			hangUp(l.conn, &e.mu)
		}
		e.tell()
		return
	}
	o.link, l.work = l, o.work
	o.unwritten, o.offset, o.answering, o.progress, o.armed = nil, 0, false, time.Now(), false
	for o.link == l {
		err := l.settle(e.asleep)
		if err == nil && o.late() {
			err = context.DeadlineExceeded
		}
		if e.tell(); o.link != l {
			break
		}
		limit := e.cfg.Timeout / 2
		if o.armed = o.waits(); o.armed {
			limit = min(limit, e.cfg.Patience)
		}
		if err == nil {
			err = l.pause(&e.mu, time.Now().Add(limit))
		}
		if err != nil {
			o.lose(l)
		}
	}
	e.tell()
	hangUp(l.conn, &e.mu)
}

// waits reports whether answers may be in the ring without a bell.
func (o *outgoing) waits() bool { return o.link != nil && o.link.patient && !o.queues.Idle() }

// hangUp closes a connection without the lock: the end of a stream can wait for the peer.
func hangUp(conn net.Conn, mu *sync.Mutex) {
	mu.Unlock()
	defer mu.Lock()
	_ = conn.Close() // the operations are reported as lost
}

// move moves the bytes of the connection. The caller holds the lock.
func (o *outgoing) move() {
	if l := o.link; l != nil && l.settle(o.endpoint.asleep) != nil {
		o.lose(l)
	}
}

// connect opens a connection. It returns nil after an error; the application sees the error as the loss of
// all operations.
func (o *outgoing) connect() *link {
	e := o.endpoint
	ctx, cancel := context.WithTimeout(e.ctx, e.cfg.Timeout)
	defer cancel()
	conn, err := e.cfg.Dial(ctx, o.peer)
	if err != nil {
		return nil
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	l, err := o.begin(conn)
	if err == nil && !stop() {
		l.close()
		err = ctx.Err()
	}
	if err != nil {
		_ = conn.Close() // the operations are reported as lost
		return nil
	}
	return l
}

// begin makes the link of a new connection, and waits until the target admits it.
func (o *outgoing) begin(conn net.Conn) (*link, error) {
	e := o.endpoint
	deadline := time.Now().Add(e.cfg.Timeout)
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		if err := awaitAdmission(conn, deadline); err != nil {
			return nil, err
		}
		return e.streamLink(conn, o.move)
	}
	if err := e.cfg.checkUser(unix); err != nil {
		return nil, err
	}
	s, err := offer(unix, e.cfg.Ring, deadline)
	if err != nil {
		return nil, err
	}
	return initiatorLink(unix, s), nil
}

// late reports whether the target made no progress for Config.Timeout although operations wait.
func (o *outgoing) late() bool {
	if o.queues.Idle() {
		return false
	}
	return time.Since(o.progress) > o.endpoint.cfg.Timeout
}

// work implements link.work for the initiator.
func (o *outgoing) work() (bool, error) {
	wrote, err := o.write()
	if err != nil {
		return false, err
	}
	_, shared := o.link.carrier.(*socket)
	o.link.patient = shared && o.endpoint.cfg.Patience > 0 && o.urgent == 0
	took, err := o.take()
	if took {
		o.progress = time.Now()
	}
	return wrote || took, err
}

// write copies operations into the ring. It reports whether it has written bytes.
func (o *outgoing) write() (bool, error) {
	idle := o.queues.Idle()
	if batch := o.queues.Take(); len(batch) > 0 {
		if o.unwritten = append(o.unwritten, batch...); idle {
			o.progress = time.Now()
		}
	}
	if len(o.unwritten) == 0 {
		o.link.wantsRoom = false
		return false, nil
	}
	out := &o.link.out
	before := out.Released()
	room, err := out.Room()
	if err != nil {
		return false, err
	}
	if out.Released() != before {
		o.progress = time.Now()
	}
	start := out.At()
	for len(o.unwritten) > 0 && room > 0 {
		n := o.writeFirst(room)
		if n == 0 {
			break
		}
		room -= n
	}
	o.link.wantsRoom = len(o.unwritten) > 0
	if out.At() == start {
		return false, nil
	}
	out.Publish()
	return true, o.link.ring(wakeForBytes)
}

// writeFirst copies the first operation into the ring, as far as there is room, and returns the number of
// bytes. A header is never divided.
func (o *outgoing) writeFirst(room int) (n int) {
	p := o.unwritten[0]
	if o.offset == 0 {
		if room < remote.HeaderSize {
			return 0
		}
		o.header = remote.Encode(o.header[:0], &p.Op)
		o.link.out.Put(o.header)
		n, o.offset = remote.HeaderSize, remote.HeaderSize
	}
	data := []byte(nil)
	if p.Kind == fabric.Write {
		data = p.Data[o.offset-remote.HeaderSize:]
	}
	piece := data[:min(len(data), room-n)]
	o.link.out.Put(piece)
	o.offset += len(piece)
	if len(piece) == len(data) {
		o.unwritten[0], o.unwritten, o.offset = nil, o.unwritten[1:], 0
	}
	return n + len(piece)
}

// take reads answers from the ring. It reports whether it has read bytes.
func (o *outgoing) take() (bool, error) {
	in := &o.link.in
	start := in.At()
	for {
		there, err := in.Available()
		if err != nil {
			return false, err
		}
		if !o.answering {
			if there < remote.AnswerSize {
				break
			}
			var b [remote.AnswerSize]byte
			in.Take(b[:])
			there -= remote.AnswerSize
			o.answer = remote.DecodeAnswer(&b)
			if err := o.queues.Expects(o.answer); err != nil {
				return false, err
			}
			o.answering, o.have, o.data = true, 0, nil
			if o.answer.Length > 0 {
				o.data = make([]byte, o.answer.Length)
			}
		}
		n := min(there, o.answer.Length-o.have)
		in.Take(o.data[o.have : o.have+n])
		if o.have += n; o.have < o.answer.Length {
			break
		}
		o.answering = false
		o.queues.Answered(o.answer, o.data)
	}
	if in.At() == start {
		return false, nil
	}
	in.Release()
	return true, o.link.ring(wakeForRoom)
}

// lose closes a connection. All operations without an answer are reported as lost, and all queues are broken.
func (o *outgoing) lose(l *link) {
	if o.link != l {
		return
	}
	l.close()
	o.link, o.unwritten = nil, nil
	o.queues.Lose()
}
