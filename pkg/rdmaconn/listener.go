package rdmaconn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Listener accepts connections. It implements net.Listener.
type Listener struct {
	cfg     Config
	inner   net.Listener
	ready   chan *Conn
	closed  chan struct{}
	running sync.WaitGroup
	failure error // the error of inner; set before closed is closed

	mu      sync.Mutex
	once    sync.Once
	waiting map[token]chan net.Conn
	backlog chan struct{} // has an element for each connection that Accept has not returned
}

// The maximum numbers of connections that wait for their second set-up connection, and for Accept.
const (
	maxWaiting = 1024
	maxBacklog = 128
)

// Listen returns a Listener that accepts set-up connections from inner. Close of the Listener closes inner.
func Listen(cfg Config, inner net.Listener) (*Listener, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	l := &Listener{cfg: cfg, inner: inner, ready: make(chan *Conn), closed: make(chan struct{}), waiting: map[token]chan net.Conn{}, backlog: make(chan struct{}, maxBacklog)}
	l.running.Go(l.run)
	return l, nil
}

// run accepts set-up connections until inner fails.
func (l *Listener) run() {
	for {
		conn, err := l.inner.Accept()
		if err != nil {
			l.end(err)
			return
		}
		l.running.Go(func() {
			if l.take(conn) != nil {
				_ = conn.Close() // the dialling side gets an error
			}
		})
	}
}

func (l *Listener) end(err error) {
	l.once.Do(func() {
		l.failure = err
		close(l.closed)
	})
}

// take reads the hello of a set-up connection, and handles the connection. After an error the caller closes
// the connection.
func (l *Listener) take(conn net.Conn) error {
	if err := conn.SetDeadline(time.Now().Add(l.cfg.Timeout)); err != nil {
		return err
	}
	b := make([]byte, helloSize)
	if _, err := io.ReadFull(conn, b); err != nil {
		return err
	}
	if string(b[:len(magic)]) != magic {
		return errors.New("rdmaconn: a connection does not begin as one of this version")
	}
	t := token(b[len(magic):])
	ring := binary.LittleEndian.Uint64(b[len(magic)+tokenSize:])
	if ring == 0 {
		return l.second(t, conn)
	}
	if !validRing(ring) {
		return fmt.Errorf("rdmaconn: the peer wants rings of %d bytes: it is broken or of another version", ring)
	}
	return l.first(t, conn, min(int(ring), l.cfg.Ring))
}

// second passes a second set-up connection to the goroutine of the first one.
func (l *Listener) second(t token, conn net.Conn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.waiting[t]
	if first == nil {
		return errors.New("rdmaconn: a second connection without a first one")
	}
	delete(l.waiting, t)
	first <- conn // does not block: the channel has room for one connection
	return nil
}

// first waits for the second set-up connection, and joins both to one connection.
func (l *Listener) first(t token, out net.Conn, ring int) error {
	other := make(chan net.Conn, 1)
	l.mu.Lock()
	full := len(l.waiting) >= maxWaiting || l.waiting[t] != nil
	if !full {
		l.waiting[t] = other
	}
	l.mu.Unlock()
	if full {
		return fmt.Errorf("rdmaconn: %d connections wait for their second half", maxWaiting)
	}
	if _, err := out.Write(binary.LittleEndian.AppendUint64(nil, uint64(ring))); err != nil {
		return errors.Join(err, l.forget(t, other))
	}
	timer := time.NewTimer(l.cfg.Timeout)
	defer timer.Stop()
	select {
	case in := <-other:
		return l.both(in, out, ring)
	case <-timer.C:
		return l.forget(t, other)
	case <-l.closed:
		return l.forget(t, other)
	}
}

// forget ends the wait for a second set-up connection.
func (l *Listener) forget(t token, other chan net.Conn) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, t)
	select {
	case in := <-other:
		_ = in.Close() // too late
	default:
	}
	return errors.New("rdmaconn: the second connection is missing")
}

// both creates a connection from its two set-up connections, and passes it to Accept. The first set-up
// connection is for the operations of the dialling side, the second for the operations of this side.
func (l *Listener) both(second, first net.Conn, ring int) error {
	select {
	case l.backlog <- struct{}{}:
		defer func() { <-l.backlog }()
	default:
		return errors.Join(fmt.Errorf("rdmaconn: %d connections wait for Accept", maxBacklog), second.Close())
	}
	if err := errors.Join(first.SetDeadline(time.Time{}), second.SetDeadline(time.Time{})); err != nil {
		return errors.Join(err, second.Close())
	}
	c, err := newConn(l.cfg, ring, sides{self: listening, peer: dialler, out: second, in: first})
	if err != nil {
		return err
	}
	select {
	case l.ready <- c:
		return nil
	case <-l.closed:
		return c.Close()
	}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.ready:
		return c, nil
	case <-l.closed:
		return nil, l.failure
	}
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return l.inner.Addr() }

// Close implements net.Listener. It does not close accepted connections.
func (l *Listener) Close() error {
	l.end(net.ErrClosed)
	err := l.inner.Close()
	l.running.Wait()
	return err
}
