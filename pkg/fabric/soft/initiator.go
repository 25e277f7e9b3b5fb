package soft

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/globalfs/globalfs/pkg/fabric"
)

// outgoing is the way to a peer: one connection at a time, with all queues. Its goroutine connects and sends;
// another one receives the answers of a connection.
type outgoing struct {
	endpoint *Endpoint
	peer     fabric.NodeID
	more     chan struct{} // there is something to send

	mu     sync.Mutex
	conn   net.Conn // nil: none
	queues map[fabric.RegionID]*queue
	unsent []*pending
	sent   []*pending // answers come in this order
}

// queue is the initiator's end of a queue.
type queue struct {
	broken    bool
	lost      bool // the connection failed, and no operation has been told
	resetting bool
	waiting   int // operations without a completion
}

// pending is an operation without a completion. A local one is not sent: its status is known.
type pending struct {
	fabric.Op
	queue  *queue
	local  bool
	status fabric.Status
}

// post begins an operation.
func (o *outgoing) post(op *fabric.Op) {
	o.mu.Lock()
	defer o.mu.Unlock()
	q := o.queues[op.Region]
	if q == nil {
		q = &queue{}
		o.queues[op.Region] = q
	}
	p := &pending{Op: *op, queue: q}
	switch {
	case op.Kind == fabric.Reset:
		q.resetting, q.lost = true, false
	case q.lost:
		p.local, p.status = true, fabric.Lost
		q.lost, q.broken = false, true
	case q.broken || q.resetting:
		p.local, p.status = true, fabric.Flushed
	}
	q.waiting++
	if p.local && q.waiting == 1 {
		o.end(p, p.status, nil, 0)
		return
	}
	o.unsent = append(o.unsent, p)
	select {
	case o.more <- struct{}{}:
	default:
	}
}

// end reports an operation. The caller holds the lock.
func (o *outgoing) end(p *pending, status fabric.Status, data []byte, incarnation uint64) {
	q := p.queue
	q.waiting--
	if p.Kind == fabric.Reset {
		q.resetting, q.broken = false, status != fabric.OK
	} else if status != fabric.OK {
		q.broken = true
	}
	c := fabric.Completion{Token: p.Token, Kind: p.Kind, Peer: o.peer, Region: p.Region, Status: status, Data: data}
	if p.Kind == fabric.Reset && status == fabric.OK {
		c.Incarnation = incarnation
	}
	o.endpoint.complete(c)
}

// run sends the posted operations until the endpoint is closed.
func (o *outgoing) run() {
	for {
		select {
		case <-o.more:
		case <-o.endpoint.ctx.Done():
			o.lose(o.current())
			return
		}
		conn, batch := o.take()
		if len(batch) == 0 {
			continue
		}
		if conn == nil {
			var err error
			if conn, err = o.connect(); err != nil {
				o.lose(nil)
				continue
			}
		}
		if err := o.send(conn, batch); err != nil {
			o.lose(conn)
		}
	}
}

func (o *outgoing) current() net.Conn {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.conn
}

// take gives the operations that are to be sent, and the connection for them; nil: there is none. They count
// as sent from now on: the end of the connection loses them.
func (o *outgoing) take() (conn net.Conn, batch []*pending) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, p := range o.unsent {
		if !p.local {
			batch = append(batch, p)
		}
	}
	o.sent = append(o.sent, o.unsent...)
	o.unsent = nil
	o.endLocal()
	return o.conn, batch
}

// endLocal reports the local operations that are next.
func (o *outgoing) endLocal() {
	for len(o.sent) > 0 && o.sent[0].local {
		p := o.sent[0]
		o.sent = o.sent[1:]
		o.end(p, p.status, nil, 0)
	}
}

// connect makes a connection, and starts the goroutine that receives answers.
func (o *outgoing) connect() (net.Conn, error) {
	e := o.endpoint
	ctx, cancel := context.WithTimeout(e.ctx, e.cfg.Timeout)
	defer cancel()
	conn, err := o.dial(ctx)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if e.ctx.Err() != nil {
		_ = conn.Close() // lost operations are reported
		return nil, e.ctx.Err()
	}
	o.conn = conn
	e.running.Add(1)
	go func() {
		defer e.running.Done()
		o.receive(conn)
		o.lose(conn)
	}()
	return conn, nil
}

// dial connects. The node itself is reached by a pipe.
func (o *outgoing) dial(ctx context.Context) (net.Conn, error) {
	e := o.endpoint
	if o.peer != e.cfg.Self {
		return e.cfg.Dial(ctx, o.peer)
	}
	here, there := net.Pipe()
	e.running.Add(1)
	go func() {
		defer e.running.Done()
		_ = e.Serve(o.peer, there) // it ends with the pipe
	}()
	return here, nil
}

// send writes operations to a connection.
func (o *outgoing) send(conn net.Conn, batch []*pending) error {
	timeout := o.endpoint.cfg.Timeout
	w := bufio.NewWriterSize(&patient{conn, timeout}, bufferSize)
	header := make([]byte, 0, headerSize)
	for _, p := range batch {
		header = encode(header[:0], &p.Op)
		if _, err := w.Write(header); err != nil {
			return err
		}
		if p.Kind == fabric.Write {
			if _, err := w.Write(p.Data); err != nil {
				return err
			}
		}
	}
	return w.Flush()
}

// patient is a connection: each of its reads and writes must make progress in time.
type patient struct {
	net.Conn
	timeout time.Duration
}

// Write implements io.Writer. A long write counts as several.
func (p *patient) Write(b []byte) (n int, err error) {
	for n < len(b) {
		if err := p.SetWriteDeadline(time.Now().Add(p.timeout)); err != nil {
			return n, err
		}
		m, err := p.Conn.Write(b[n:min(len(b), n+bufferSize)])
		n += m
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// Read implements io.Reader.
func (p *patient) Read(b []byte) (int, error) {
	if err := p.SetReadDeadline(time.Now().Add(p.timeout)); err != nil {
		return 0, err
	}
	return p.Conn.Read(b)
}

// receive takes answers until the connection fails. A connection on which operations wait must make progress.
func (o *outgoing) receive(conn net.Conn) {
	r := bufio.NewReaderSize(&waiter{patient{conn, o.endpoint.cfg.Timeout}, o}, bufferSize)
	var b [answerSize]byte
	for {
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return
		}
		data, err := o.data(conn, r, &b)
		if err != nil {
			return
		}
		if !o.answered(conn, fabric.Status(b[0]), data, binary.LittleEndian.Uint64(b[1:])) {
			return
		}
	}
}

// waiter reads from a connection. A read may last while no operation waits for an answer.
type waiter struct {
	patient
	out *outgoing
}

// Read implements io.Reader.
func (w *waiter) Read(b []byte) (int, error) {
	for {
		n, err := w.patient.Read(b)
		if errors.Is(err, os.ErrDeadlineExceeded) && n == 0 && w.out.idle(w.Conn) {
			continue
		}
		return n, err
	}
}

func (o *outgoing) idle(conn net.Conn) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.conn == conn && len(o.sent) == 0
}

// data reads the data of an answer. Its length must be the one that was asked for.
func (o *outgoing) data(conn net.Conn, r io.Reader, b *[answerSize]byte) ([]byte, error) {
	length := int(binary.LittleEndian.Uint32(b[9:]))
	o.mu.Lock()
	want := 0
	if o.conn == conn && len(o.sent) > 0 && fabric.Status(b[0]) == fabric.OK && o.sent[0].Kind == fabric.Read {
		want = o.sent[0].Length
	}
	o.mu.Unlock()
	if length != want {
		return nil, fmt.Errorf("soft: node %d answers with %d bytes, not %d", o.peer, length, want)
	}
	data := make([]byte, length)
	_, err := io.ReadFull(r, data)
	return data, err
}

// answered reports the end of the oldest operation that was sent.
func (o *outgoing) answered(conn net.Conn, status fabric.Status, data []byte, incarnation uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.conn != conn || len(o.sent) == 0 || status == fabric.Lost || status > fabric.Flushed {
		return false
	}
	p := o.sent[0]
	o.sent = o.sent[1:]
	o.end(p, status, data, incarnation)
	o.endLocal()
	return true
}

// lose ends a connection. Operations that wait for an answer are lost, and all queues are broken.
func (o *outgoing) lose(conn net.Conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.conn != conn {
		return // another one has taken its place, or it was noticed before
	}
	if conn != nil {
		_ = conn.Close() // lost operations are reported
	}
	o.conn = nil
	for _, q := range o.queues {
		q.lost = !q.broken && !q.resetting && q.waiting == 0
	}
	for _, p := range append(o.sent, o.unsent...) {
		status := fabric.Lost
		if p.local {
			status = p.status
		}
		o.end(p, status, nil, 0)
	}
	o.sent, o.unsent = nil, nil
}

// hangUp closes the connection.
func (o *outgoing) hangUp() {
	if conn := o.current(); conn != nil {
		_ = conn.Close() // lost operations are reported
	}
}
