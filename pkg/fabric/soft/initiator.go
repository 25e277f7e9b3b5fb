package soft

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/internal/remote"
)

// outgoing has all queues of this node to one peer, and the connection that carries them. One goroutine
// connects and sends; another one receives the answers of a connection.
type outgoing struct {
	endpoint *Endpoint
	peer     fabric.NodeID
	more     chan struct{} // there is something to send

	mu     sync.Mutex
	conn   net.Conn // nil: none
	queues *remote.Peer
}

// post begins an operation.
func (o *outgoing) post(op *fabric.Op) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.queues.Post(op) {
		return
	}
	if o.peer == o.endpoint.cfg.Self {
		o.queues.ExecuteHere(o.endpoint.here, o.endpoint.incarnation, o.endpoint.written)
		return
	}
	select {
	case o.more <- struct{}{}:
	default:
	}
}

// run sends the posted operations until the endpoint is closed.
func (o *outgoing) run() {
	w := bufio.NewWriterSize(nil, bufferSize)
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
		w.Reset(&patient{conn, o.endpoint.cfg.Timeout})
		if err := send(w, batch); err != nil {
			o.lose(conn)
		}
	}
}

func (o *outgoing) current() net.Conn {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.conn
}

// take returns the operations that must be sent, and the connection for them; nil: there is no connection.
func (o *outgoing) take() (conn net.Conn, batch []*remote.Pending) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.conn, o.queues.Take()
}

// connect opens a connection, and starts the goroutine that receives answers.
func (o *outgoing) connect() (net.Conn, error) {
	e := o.endpoint
	ctx, cancel := context.WithTimeout(e.ctx, e.cfg.Timeout)
	defer cancel()
	conn, err := e.cfg.Dial(ctx, o.peer)
	if err != nil {
		return nil, err
	}
	if err := admitted(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close())
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

// admitted waits until the target has ended the earlier connections. Otherwise the target could accept this
// connection after its successor, and execute operations after a reset (fabric Q5).
func admitted(ctx context.Context, conn net.Conn) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var b [1]byte
	if _, err := io.ReadFull(conn, b[:]); err != nil {
		return err
	}
	if b[0] != admission {
		return fmt.Errorf("soft: the peer begins with %d: it is broken or of another version", b[0])
	}
	return nil
}

// send writes operations.
func send(w *bufio.Writer, batch []*remote.Pending) error {
	header := make([]byte, 0, remote.HeaderSize)
	for _, p := range batch {
		header = remote.Encode(header[:0], &p.Op)
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

// patient is a connection with a time limit for each read and write.
type patient struct {
	net.Conn
	timeout time.Duration
}

// Write implements io.Writer. A long write is divided, and each part has the time limit.
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

// receive reads answers until the connection fails. A connection with waiting operations must make progress.
func (o *outgoing) receive(conn net.Conn) {
	r := bufio.NewReaderSize(&waiter{patient{conn, o.endpoint.cfg.Timeout}, o}, bufferSize)
	var b [remote.AnswerSize]byte
	for {
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return
		}
		answer := remote.DecodeAnswer(&b)
		if !o.expects(conn, answer) {
			return
		}
		data := make([]byte, answer.Length)
		if _, err := io.ReadFull(r, data); err != nil {
			return
		}
		o.answered(conn, answer, data)
	}
}

// waiter reads from a connection. A read has no time limit while no operation waits for an answer.
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
	return o.conn == conn && o.queues.Idle()
}

// expects validates the fixed part of an answer.
func (o *outgoing) expects(conn net.Conn, answer remote.Answer) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.conn == conn && o.queues.Expects(answer) == nil // the end of the connection is reported
}

// answered reports the end of the oldest operation that was sent.
func (o *outgoing) answered(conn net.Conn, answer remote.Answer, data []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.conn == conn {
		o.queues.Answered(answer, data)
	}
}

// lose ends a connection. Operations that wait for an answer are lost, and all queues are broken.
func (o *outgoing) lose(conn net.Conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.conn != conn {
		return // another connection has replaced this one, or lose was called before
	}
	if conn != nil {
		_ = conn.Close() // lost operations are reported
	}
	o.conn = nil
	o.queues.Lose()
}

// hangUp closes the connection.
func (o *outgoing) hangUp() {
	if conn := o.current(); conn != nil {
		_ = conn.Close() // lost operations are reported
	}
}
