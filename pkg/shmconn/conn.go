package shmconn

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/globalfs/globalfs/pkg/fabric/ring"
)

const (
	// ringSize is the length in bytes of the ring of one direction: a power of two.
	ringSize = 256 << 10
	// enough is the room for which a writer waits: a reader wakes the writer once there is so much room. With
	// a smaller value, each wake-up would move few bytes.
	enough = ringSize / 2
)

// The layout of the memory: four words for each direction on cache lines of their own, then the rings. The
// first direction leads to the side that has accepted the memory.
const (
	headWord = iota * 128
	tailWord
	sleeperWord // 1: the reader sleeps
	wantsWord   // 1: the writer waits for room
	directionSize
	ringsAt    = 4096
	memorySize = ringsAt + 2*ringSize
)

// flow is one direction of a connection, at one of its ends.
type flow struct {
	sleeps *atomic.Uint64 // of the reader
	wants  *atomic.Uint64 // of the writer
}

// flowOf returns the words and the ring of a direction.
func flowOf(m ring.Memory, direction int) (f flow, data []byte, head, tail *atomic.Uint64) {
	at := direction * directionSize
	f = flow{sleeps: m.Word(at + sleeperWord), wants: m.Word(at + wantsWord)}
	from := ringsAt + direction*ringSize
	return f, m[from : from+ringSize], m.Word(at + headWord), m.Word(at + tailWord)
}

// Conn is a connection. Its methods may be called concurrently. Concurrent calls of Read are executed one
// after another; the same holds for Write.
type Conn struct {
	local, remote net.Addr

	reading, writing sync.Mutex // held during a whole Read or Write; taken before mu

	bytes bell // for published bytes
	room  bell // for released bytes; its wait also reports the end of the peer

	in     ring.Consumer
	inFlow flow

	out       ring.Producer
	outFlow   flow
	wanting   atomic.Bool   // the writer waits for roomy
	roomy     chan struct{} // wakes the writer: there may be room
	peerEnded atomic.Bool   // the peer has ended the connection
	done      chan struct{} // closed by Close

	mu       sync.Mutex
	closed   bool      // GUARDED_BY mu
	users    int       // GUARDED_BY mu; callers that use the memory
	unmap    func()    // GUARDED_BY mu; called once, when the connection is closed and has no users
	deadline time.Time // GUARDED_BY mu; of writes
}

// newConn starts a connection at one of its ends. The direction is that of the bytes that this end reads.
func newConn(m ring.Memory, direction int, bytes, room bell, unmap func()) *Conn {
	c := &Conn{bytes: bytes, room: room, roomy: make(chan struct{}, 1), done: make(chan struct{}), unmap: unmap}
	f, data, head, tail := flowOf(m, direction)
	c.in, c.inFlow = ring.NewConsumer(data, head, tail), f
	f, data, head, tail = flowOf(m, 1-direction)
	c.out, c.outFlow = ring.NewProducer(data, head, tail), f
	c.users++
	go c.watch()
	return c
}

// enter counts a user of the memory, unless the connection is closed.
func (c *Conn) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.users++
	return true
}

// leave ends a use of the memory. The last user of a closed connection unmaps the memory.
func (c *Conn) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users--; c.users == 0 && c.closed {
		c.unmap()
	}
}

// Read implements net.Conn.
func (c *Conn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if !c.enter() {
		return 0, net.ErrClosed
	}
	defer c.leave()
	c.reading.Lock()
	defer c.reading.Unlock()
	for {
		gone := c.peerEnded.Load() // all bytes that the peer has published are visible after this load
		switch n, err := c.in.Available(); {
		case err != nil:
			return 0, err
		case n > 0:
			return c.take(b[:min(n, len(b))], n), nil
		case gone:
			return 0, io.EOF
		}
		if err := c.sleep(); err != nil {
			return 0, err
		}
	}
}

// take reads bytes from the ring, which has there bytes, and wakes a writer that waits for room.
func (c *Conn) take(b []byte, there int) int {
	c.in.Take(b)
	c.in.Release()
	if there-len(b) <= ringSize-enough && c.inFlow.wants.Load() == 1 && c.inFlow.wants.CompareAndSwap(1, 0) {
		c.room.ring()
	}
	return len(b)
}

// sleep waits until there may be something to read.
func (c *Conn) sleep() error {
	err := c.bytes.wait(func() bool {
		c.inFlow.sleeps.Store(1)
		n, err := c.in.Available()
		return n != 0 || err != nil || c.peerEnded.Load()
	})
	c.inFlow.sleeps.Store(0)
	switch {
	case errors.Is(err, io.EOF):
		c.hangUp()
		return nil
	case c.peerEnded.Load():
		return nil
	}
	return err
}

// TryWrite writes the bytes for which there is room, none during another write, and does not wait.
func (c *Conn) TryWrite(b []byte) (int, error) {
	if !c.writing.TryLock() {
		return 0, nil
	}
	defer c.writing.Unlock()
	return c.put(b)
}

// put writes the bytes for which there is room. c.writing is held.
func (c *Conn) put(b []byte) (int, error) {
	if !c.enter() {
		return 0, net.ErrClosed
	}
	defer c.leave()
	if c.peerEnded.Load() {
		return 0, syscall.EPIPE
	}
	n, err := c.out.Room()
	if n = min(n, len(b)); err != nil || n == 0 {
		return 0, err
	}
	c.out.Put(b[:n])
	c.out.Publish()
	if c.outFlow.sleeps.Load() == 1 && c.outFlow.sleeps.CompareAndSwap(1, 0) {
		c.bytes.ring()
	}
	return n, nil
}

// Write implements net.Conn.
func (c *Conn) Write(b []byte) (n int, err error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	for {
		if d := c.writeDeadline(); !d.IsZero() && time.Now().After(d) {
			return n, os.ErrDeadlineExceeded
		}
		wrote, err := c.put(b[n:])
		n += wrote
		if err != nil || n == len(b) {
			return n, err
		}
		if err := c.await(); err != nil {
			return n, err
		}
	}
}

// await waits for room.
func (c *Conn) await() error {
	if !c.enter() {
		return net.ErrClosed
	}
	defer c.leave()
	defer c.outFlow.wants.Store(0)
	for {
		var late <-chan time.Time
		if deadline := c.writeDeadline(); !deadline.IsZero() {
			timer := time.NewTimer(time.Until(deadline))
			defer timer.Stop() // there are few rounds: a deadline is set once or twice
			late = timer.C
		}
		c.wanting.Store(true)
		c.outFlow.wants.Store(1)
		if c.hasRoom() || c.peerEnded.Load() {
			c.wanting.Store(false)
			return nil
		}
		select {
		case <-c.roomy:
		case <-late:
			return os.ErrDeadlineExceeded
		case <-c.done:
			return net.ErrClosed
		}
	}
}

// writeDeadline returns the deadline of writes.
func (c *Conn) writeDeadline() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.deadline
}

// hasRoom reports whether a writer that has waited can go on. put reports an impossible cursor.
func (c *Conn) hasRoom() bool {
	n, err := c.out.Room()
	return n >= enough || err != nil
}

// wakeWriter wakes a writer that waits for room.
func (c *Conn) wakeWriter() {
	select {
	case c.roomy <- struct{}{}:
	default:
	}
}

// watch wakes the writer when there is room, and records the end of the peer. It returns when the connection
// ends.
func (c *Conn) watch() {
	defer c.leave()
	for {
		if err := c.room.wait(func() bool { return c.wanting.Load() && c.released() }); err != nil {
			c.hangUp()
			return
		}
		c.wanting.Store(false)
		c.wakeWriter()
	}
}

// released reports whether the peer has released the room for which this side waits.
func (c *Conn) released() bool { return c.outFlow.wants.Load() == 0 }

// hangUp records that the peer has ended the connection. Bytes that it has published before can be read.
func (c *Conn) hangUp() {
	c.peerEnded.Store(true)
	c.wakeWriter()
	_ = c.bytes.SetReadDeadline(time.Unix(1, 0)) // wakes the reader; fails only after Close
}

// Close ends the connection. The peer can still read the bytes written before. It may be called several
// times.
func (c *Conn) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	close(c.done)
	c.users++
	c.mu.Unlock() // closing a socket may wait for the goroutine that reads the socket
	err := errors.Join(c.bytes.Close(), c.room.Close())
	c.leave()
	return err
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
func (c *Conn) SetReadDeadline(t time.Time) error { return c.bytes.SetReadDeadline(t) }

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.deadline = t
	c.wakeWriter()
	return nil
}
