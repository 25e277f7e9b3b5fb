package rdmaconn

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/globalfs/globalfs/pkg/fabric"
)

// Conn is a connection. It implements net.Conn, and CloseWrite as net.TCPConn does.
type Conn struct {
	endpoint      Endpoint
	local, remote net.Addr
	reading       sync.Mutex // one Read at a time
	writing       sync.Mutex // one Write at a time
	readDeadline  deadline
	writeDeadline deadline
	running       sync.WaitGroup // the goroutine that serves the set-up connection of the peer

	mu      sync.Mutex
	stream  stream
	changed chan struct{} // closed and replaced at every change
	posted  uint64        // the number of posted operations
	ended   uint64        // the number of completed operations
	closed  bool          // Close was called
	failure error         // the failure of the connection; bytes that arrived before it can be read
}

var errReset = errors.New("connection reset by peer")

// await waits until holds returns true or an error, or until the deadline is over. holds is called with the
// lock held, and is not called after the deadline.
func (c *Conn) await(d *deadline, holds func() (bool, error)) error {
	for {
		c.mu.Lock()
		over := d.over()
		if isDone(over) {
			c.mu.Unlock()
			return os.ErrDeadlineExceeded
		}
		done, err := holds()
		changed := c.changed
		c.mu.Unlock()
		if done || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-over:
		}
	}
}

func isDone(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (n int, err error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	err = c.await(&c.readDeadline, func() (bool, error) {
		if c.closed {
			return false, net.ErrClosed
		}
		if len(p) == 0 {
			return true, nil
		}
		if n = c.stream.read(p); n > 0 {
			c.send()
			return true, nil
		}
		if c.stream.finished {
			return false, io.EOF
		}
		return false, c.failure
	})
	return n, c.wrap("read", err)
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (n int, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	err = c.await(&c.writeDeadline, func() (bool, error) {
		switch {
		case c.closed || c.stream.ended:
			return false, net.ErrClosed
		case c.failure != nil:
			return false, c.failure
		}
		n += c.stream.write(p[n:])
		c.send()
		return n == len(p), nil
	})
	return n, c.wrap("write", err)
}

// wrap returns an error in the form of package net.
func (c *Conn) wrap(op string, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return &net.OpError{Op: op, Net: "rdma", Source: c.local, Addr: c.remote, Err: err}
}

// send posts the operations of the stream. The caller holds the lock.
func (c *Conn) send() {
	ops := c.stream.ops
	c.stream.ops = nil
	if len(ops) == 0 || c.failure != nil {
		return
	}
	for i := range ops {
		c.posted++
		ops[i].Token = c.posted
	}
	if err := c.endpoint.Post(ops...); err != nil {
		c.fail(err)
	}
}

// fail ends the connection. The caller holds the lock.
func (c *Conn) fail(err error) {
	if c.failure == nil {
		c.failure = err
	}
	c.signal()
}

func (c *Conn) signal() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// run handles the events of the endpoint until the connection is closed, and all operations have ended or the
// connection has failed. Then run closes the endpoint.
func (c *Conn) run() {
	var events fabric.Events
	for {
		c.endpoint.Wait(time.Minute)
		events.Reset()
		c.endpoint.Poll(&events)
		c.mu.Lock()
		for i := range events.Completions {
			c.ended = events.Completions[i].Token
			if s := events.Completions[i].Status; s != fabric.OK {
				c.fail(fmt.Errorf("%w (%v)", errReset, s))
			}
		}
		if err := c.stream.look(); err != nil {
			c.fail(err)
		}
		c.signal()
		over := c.closed && (c.ended == c.posted || c.failure != nil)
		c.mu.Unlock()
		if over {
			_ = c.endpoint.Close() // all operations have ended
			c.running.Wait()
			return
		}
	}
}

// dead fails the connection after the end of the peer's set-up connection. Bytes and the end of the stream
// that arrived before can still be read.
func (c *Conn) dead() {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.stream.look()
	if err == nil {
		err = errReset
	}
	c.fail(err)
}

// CloseWrite ends the stream to the peer: the peer reads io.EOF after all bytes.
func (c *Conn) CloseWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.wrap("close", net.ErrClosed)
	}
	c.stream.end()
	c.send()
	c.signal()
	return nil
}

// Close implements net.Conn. The peer still receives the bytes that were written before.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.wrap("close", net.ErrClosed)
	}
	c.closed = true
	c.stream.end()
	c.stream.word(creditAt, c.stream.taken) // run needs the completion of an operation to notice closed
	c.send()
	c.signal()
	return nil
}

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadline(&c.readDeadline, t) }

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(&c.writeDeadline, t) }

func (c *Conn) setDeadline(d *deadline, t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.wrap("set", net.ErrClosed)
	}
	d.set(t)
	return nil
}
