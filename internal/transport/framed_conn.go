package transport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// smallMessage is the maximum length of a message that leaves together with others in one write.
	smallMessage = 16 << 10
	// maxQueued bounds the small messages that wait while another one is written.
	maxQueued = 1 << 20
	// writeRounds is the number of times that the goroutine that has written its own message also writes the
	// queue, before another goroutine takes over.
	writeRounds = 4
	// If the rest of a message takes longer than slowTicks times probeTime to arrive, the connection breaks.
	slowTicks = 24
	// A caller closes a connection that has had no calls for idleTicks times probeTime.
	idleTicks = 360
)

// framedConn is a connection that carries messages of the framed protocol. One goroutine reads. Any goroutine
// that has a message writes it itself; messages that become ready during a write leave together in the next
// write.
//
// INVARIANT: if busy is false, queue and waiting are empty.
type framedConn struct {
	net.Conn
	meter *meter
	in    *bufio.Reader
	ended context.Context // its cause is the reason for the end of the connection
	end   context.CancelCauseFunc
	idle  func() bool  // no call is under way, so the connection may end when unused for long; nil: never
	valid func() error // fails once the certificate of the peer is revoked; nil: the peer has no certificate

	shared bool // through shared memory

	partial atomic.Bool   // the body of a message is being read
	bodies  atomic.Uint32 // bodies that have begun to arrive
	held    atomic.Bool   // this side does not read now, so that the silence is not the peer's

	mu      sync.Mutex
	busy    bool            // a goroutine writes
	queue   []byte          // small messages that wait
	waiting []chan struct{} // writers of other messages, the oldest first
	raw     bool            // the connection is a stream: no messages are written any more

	keeper keeper
}

// keeper is the state of the timer of a connection, which ticks each probeTime.
type keeper struct {
	timer                 *time.Timer
	reads, writes, bodies uint32 // the counts at the last tick
	// Each field is a number of successive ticks: the peer has sent nothing (quiet), it has not taken data
	// that waits (stuck), it has not completed a message (slow), or there was no call (unused).
	quiet, stuck, slow, unused int
}

func newFramedConn(c net.Conn, m *meter) *framedConn {
	f := &framedConn{Conn: c, meter: m, in: bufio.NewReaderSize(c, smallMessage)}
	f.ended, f.end = context.WithCancelCause(context.Background())
	return f
}

// keep starts the timer of the connection. idle may be nil.
func (c *framedConn) keep(idle func() bool) {
	c.idle = idle
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended.Err() == nil {
		c.keeper.timer = time.AfterFunc(probeTime, c.tick)
	}
}

// tick breaks the connection if its peer is gone or does not take its data, and pings a quiet peer.
func (c *framedConn) tick() {
	k := &c.keeper
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended.Err() != nil {
		return
	}
	if c.raw {
		if err := c.revoked(); err != nil {
			go c.fail(err)
			return
		}
		k.timer.Reset(probeTime)
		return
	}
	reads, writes := c.meter.reads.Load(), c.meter.writes.Load()
	k.quiet = ticks(k.quiet, reads == k.reads && !c.held.Load())
	k.stuck = ticks(k.stuck, (c.busy || c.meter.isFull()) && writes == k.writes)
	bodies := c.bodies.Load()
	k.slow = ticks(k.slow, c.partial.Load() && bodies == k.bodies) // the same body
	k.unused = ticks(k.unused, c.idle != nil && c.idle())
	k.reads, k.writes, k.bodies = reads, writes, bodies
	const most = int((quietTime + probeTime) / probeTime)
	switch err := c.revoked(); {
	case err != nil:
		go c.fail(err)
	case k.quiet >= most:
		go c.fail(fmt.Errorf("nothing was heard from the peer for %s", quietTime+probeTime))
	case k.stuck >= most:
		go c.fail(fmt.Errorf("the peer has taken nothing for %s", quietTime+probeTime))
	case k.slow > slowTicks:
		go c.fail(fmt.Errorf("a message of the peer is not complete after %s", slowTicks*probeTime))
	case k.unused > idleTicks:
		go c.fail(errors.New("the connection was not used"))
	default:
		if k.quiet == most-1 {
			c.enqueue(appendHead(nil, kindPing, 0, 0))
		}
		if c.held.Load() { // its pings are not read
			c.enqueue(appendHead(nil, kindPong, 0, 0))
		}
		k.timer.Reset(probeTime)
	}
}

// revoked fails once the certificate of the peer is revoked.
func (c *framedConn) revoked() error {
	if c.valid == nil {
		return nil
	}
	return c.valid()
}

// ticks counts the consecutive ticks for which a condition has held.
func ticks(before int, still bool) int {
	if still {
		return before + 1
	}
	return 0
}

// fail ends the connection; the first reason is kept.
func (c *framedConn) fail(why error) {
	c.end(why)
	if c.meter.isFull() {
		_ = c.meter.Close() // closing TLS would wait for the peer
	}
	_ = c.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keeper.timer != nil {
		c.keeper.timer.Stop()
	}
}

// why returns the error with which the connection has ended.
func (c *framedConn) why() error { return context.Cause(c.ended) }

// send writes a message. start is its head, with the bytes before body. send returns when the message is
// written, or is queued to leave together with others. An error means that the message is not and will not be
// written. ctx does not bound the time of a small message; if the peer takes no data, the connection breaks.
func (c *framedConn) send(ctx context.Context, start, body []byte) error {
	small := len(start)+len(body) <= smallMessage
	c.mu.Lock()
	switch {
	case c.ended.Err() != nil:
		c.mu.Unlock()
		return c.why()
	case !c.busy:
		c.busy = true
		c.mu.Unlock()
	case small && len(c.queue) < maxQueued:
		c.queue = append(append(c.queue, start...), body...)
		c.mu.Unlock()
		return nil
	default:
		turn := make(chan struct{})
		c.waiting = append(c.waiting, turn)
		c.mu.Unlock()
		if err := c.await(ctx, turn); err != nil {
			return err
		}
		c.writeQueue() // the queue is older, perhaps from this sender
	}
	err := c.write(start, body)
	c.release(writeRounds)
	return err
}

// sendSoon sends a message and does not wait for the peer. Bytes that the socket does not take at once are
// written later. The caller does not call it while earlier bytes wait (meter.isFull).
func (c *framedConn) sendSoon(message []byte) error {
	c.mu.Lock()
	if c.ended.Err() != nil {
		c.mu.Unlock()
		return c.why()
	}
	if c.busy {
		c.queue = append(c.queue, message...)
		c.mu.Unlock()
		return nil
	}
	c.busy = true
	c.mu.Unlock()
	c.meter.soon.Store(true)
	_, err := c.Write(message)
	c.meter.soon.Store(false)
	if err != nil {
		c.fail(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended.Err() == nil && (len(c.queue) > 0 || len(c.waiting) > 0) {
		go c.release(0)
		return nil
	}
	c.busy = false
	return err
}

// trySoon calls sendSoon, unless many messages or bytes wait for the peer. Then it does nothing and returns
// false: the caller must use send.
func (c *framedConn) trySoon(message []byte) bool {
	c.mu.Lock()
	full := c.busy && len(c.queue) >= maxQueued
	c.mu.Unlock()
	if full || c.meter.isFull() {
		return false
	}
	if err := c.sendSoon(message); err != nil {
		c.fail(err)
	}
	return true
}

// await waits for the turn to write.
func (c *framedConn) await(ctx context.Context, turn chan struct{}) error {
	select {
	case <-turn:
		return nil
	case <-c.ended.Done():
		return c.why()
	case <-ctx.Done():
	}
	c.mu.Lock()
	i := slices.Index(c.waiting, turn)
	if i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
	}
	c.mu.Unlock()
	if i < 0 {
		c.release(0) // it was given the turn already
	}
	return ctx.Err()
}

// post queues a small message, and waits only if the peer takes nothing.
func (c *framedConn) post(message []byte) {
	c.mu.Lock()
	full := len(c.queue) >= maxQueued
	if !full {
		c.enqueue(message)
	}
	c.mu.Unlock()
	if full {
		_ = c.send(c.ended, message, nil)
	}
}

// enqueue queues a small message for another goroutine. c.mu is held.
func (c *framedConn) enqueue(message []byte) {
	c.queue = append(c.queue, message...)
	if !c.busy {
		c.busy = true
		go c.release(0)
	}
}

// writeQueue writes the small messages that wait. The caller has the turn to write. An error ends the
// connection.
func (c *framedConn) writeQueue() {
	c.mu.Lock()
	queue := c.queue
	c.queue = nil
	c.mu.Unlock()
	if len(queue) == 0 {
		return
	}
	if _, err := c.Write(queue); err != nil {
		c.fail(err)
	}
}

// isBusy reports whether a goroutine writes.
func (c *framedConn) isBusy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.busy
}

// write writes a message. The caller has the turn to write.
func (c *framedConn) write(start, body []byte) error {
	if n := min(len(body), smallMessage-len(start)); n > 0 { // the first record of TLS is full
		start = append(start, body[:n]...)
		body = body[n:]
	}
	_, err := c.Write(start)
	if err == nil && len(body) > 0 {
		_, err = c.Write(body)
	}
	if err != nil {
		c.fail(err)
		return c.why()
	}
	return nil
}

// release gives up the turn to write. First it writes the queued messages, at most rounds times; then another
// goroutine does. It gives the turn to the next waiting writer.
func (c *framedConn) release(rounds int) {
	var spare []byte
	for first, own := rounds, rounds > 0; ; rounds-- {
		c.mu.Lock()
		queue := c.queue
		switch {
		case c.ended.Err() != nil || len(queue) == 0 && len(c.waiting) == 0:
			c.busy = false
			c.mu.Unlock()
			return
		case len(c.waiting) > 0 && (len(queue) == 0 || rounds < first):
			turn := c.waiting[0]
			c.waiting = c.waiting[1:]
			c.mu.Unlock()
			close(turn)
			return
		case own && rounds == 0:
			c.mu.Unlock()
			go c.release(0)
			return
		}
		c.queue = spare
		c.mu.Unlock()
		if _, err := c.Write(queue); err != nil {
			c.fail(err)
		}
		if spare = nil; cap(queue) <= 2*smallMessage {
			spare = queue[:0]
		}
	}
}

// next reads the head of the next message. It handles pings, pongs and the end of the connection itself.
func (c *framedConn) next() (head, error) {
	for {
		var b [headSize]byte
		if _, err := io.ReadFull(c.in, b[:]); err != nil {
			return head{}, err
		}
		h, err := parseHead(&b)
		if err != nil {
			return head{}, err
		}
		switch h.kind {
		case kindPing:
			c.post(appendHead(nil, kindPong, 0, 0))
		case kindPong:
		case kindBye:
			text, err := c.body(h)
			if err != nil {
				return head{}, err
			}
			return head{}, errors.New("the peer ended the connection: " + string(text))
		default:
			return h, nil
		}
	}
}

// body reads the body of a message.
func (c *framedConn) body(h head) ([]byte, error) { return c.bodyIn(make([]byte, h.length)) }

// bodyIn reads the body of a message into b, which has its length.
func (c *framedConn) bodyIn(b []byte) ([]byte, error) {
	c.bodies.Add(1)
	c.partial.Store(true)
	defer c.partial.Store(false)
	_, err := io.ReadFull(c.in, b)
	return b, err
}

// skip reads past the body of a message.
func (c *framedConn) skip(h head) error {
	c.bodies.Add(1)
	c.partial.Store(true)
	defer c.partial.Store(false)
	_, err := c.in.Discard(h.length)
	return err
}

// bye sends the peer the reason for the end of the connection, if the peer listens, and ends the connection.
func (c *framedConn) bye(why error) {
	if c.isRaw() {
		c.fail(why)
		return
	}
	_ = c.SetWriteDeadline(time.Now().Add(byeTime))
	_ = c.send(c.ended, textMessage(kindBye, 0, why.Error()), nil)
	c.flush()
	c.fail(why)
}

// byeTime is the time limit for the last message to a peer.
const byeTime = time.Second

// flush returns when all pending messages are written, or the connection has ended.
func (c *framedConn) flush() {
	turn := make(chan struct{})
	c.mu.Lock()
	if !c.busy || c.ended.Err() != nil {
		c.mu.Unlock()
		return
	}
	c.waiting = append(c.waiting, turn)
	c.mu.Unlock()
	if c.await(c.ended, turn) == nil {
		c.release(0)
	}
}
