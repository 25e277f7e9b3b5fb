package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// answer is the outcome of a call at its caller.
type answer struct {
	kind kind
	body []byte
}

// caller is a connection that this side has opened, for calls or for the packets of links.
type caller struct {
	*framedConn
	leaf     *x509.Certificate // the certificate of the peer; nil: it has none
	shares   string            // name of the peer's socket for shared memory; empty: the peer offers none
	slots    chan struct{}     // one element for each call that the peer has not answered yet
	answered atomic.Bool       // the peer has answered a call

	pending sync.Mutex
	next    uint64                 // GUARDED_BY pending
	calls   map[uint64]chan answer // GUARDED_BY pending; nil when the connection has ended
}

// errOldPeer means that a server does not speak the framed protocol. It may speak HTTP/2.
var errOldPeer = errors.New("the server does not speak " + framedProtocol)

// connect opens a connection to an address, and continues in shared memory if the server is on this host.
func (p *framedProvider) connect(ctx context.Context, address string) (*caller, error) {
	c, err := p.connectTo(ctx, address)
	if err != nil {
		return nil, err
	}
	if s := p.share(ctx, c); s != nil {
		c.fail(errors.New("the connection continues in shared memory"))
		return s, nil
	}
	return c, nil
}

// caller makes a connection to a peer with a certificate; nil: it has none.
func (p *framedProvider) caller(conn net.Conn, m *meter, leaf *x509.Certificate) *caller {
	c := &caller{framedConn: newFramedConn(conn, m), leaf: leaf, calls: map[uint64]chan answer{}}
	if leaf != nil {
		c.valid = func() error { return p.cfg.Credentials.CheckRevoked(leaf) }
	}
	return c
}

// connectTo opens a connection to an address over TCP and waits for the server's first message.
func (p *framedProvider) connectTo(ctx context.Context, address string) (c *caller, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	defer func() {
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("no GlobalFS server has answered within %s: %w", probeTime, err)
		}
	}()
	raw, err := p.cfg.dial(ctx, address)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() }) // ends every wait for the peer
	m := newMeter(raw)
	conn, err := p.shake(ctx, m)
	if err != nil {
		stop()
		_ = raw.Close()
		return nil, err
	}
	var leaf *x509.Certificate
	if t, ok := conn.(*tls.Conn); ok {
		leaf = t.ConnectionState().PeerCertificates[0]
	}
	c = p.caller(conn, m, leaf)
	err = c.hello()
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		c.fail(err)
		return nil, err
	}
	return c, nil
}

// shake makes the handshake, and returns errOldPeer if the server does not speak the framed protocol.
func (p *framedProvider) shake(ctx context.Context, m *meter) (net.Conn, error) {
	if p.cfg.Credentials == nil {
		return m, shakePlain(m)
	}
	config := p.cfg.Credentials.ClientConfig()
	config.NextProtos = p.cfg.protocols
	config.DynamicRecordSizingDisabled = true // the receiver waits for whole messages: small records only cost
	conn := tls.Client(m, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	switch spoken := conn.ConnectionState().NegotiatedProtocol; spoken {
	case framedProtocol:
		return conn, nil
	case protocol:
		return nil, errOldPeer
	default:
		return nil, fmt.Errorf("the peer speaks %q and none of %q: is the address that of a GlobalFS server?", spoken, p.cfg.protocols)
	}
}

// shakePlain is like shake, for a connection without TLS.
func shakePlain(c net.Conn) error {
	if _, err := io.WriteString(c, greeting); err != nil {
		return err
	}
	b := make([]byte, len(greeting))
	n, err := io.ReadFull(c, b)
	switch {
	case err == nil && string(b) == greeting:
		return nil
	case n >= 4 && b[3] == 4: // the settings of HTTP/2
		return errOldPeer
	case err == nil || errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the peer does not speak " + framedProtocol + " without TLS: does it need certificates?")
	case errors.Is(err, io.EOF):
		return errors.New("the peer closed the connection: does it need certificates?")
	}
	return err
}

// hello reads the server's first message.
func (c *caller) hello() error {
	h, err := c.framedConn.next()
	if err != nil {
		return err
	}
	if h.kind != kindHello {
		return fmt.Errorf("%w: its first message is of kind %d", errFormat, h.kind)
	}
	body, err := c.body(h)
	if err != nil {
		return err
	}
	most, n := binary.Uvarint(body)
	if n <= 0 || most == 0 {
		return fmt.Errorf("%w: it says no number of calls", errFormat)
	}
	c.slots, c.shares = make(chan struct{}, min(most, maxCalls)), string(body[n:])
	return nil
}

// run reads messages until the connection ends.
func (c *caller) run() {
	err := c.read()
	c.fail(err)
	c.pending.Lock()
	defer c.pending.Unlock()
	c.calls = nil // callers that wait get the end of the connection
}

func (c *caller) read() error {
	for {
		h, err := c.framedConn.next()
		if err != nil {
			return err
		}
		switch h.kind {
		case kindReply, kindFailed, kindRefused, kindLate:
		default:
			return fmt.Errorf("%w: a server sends a message of kind %d", errFormat, h.kind)
		}
		c.answered.Store(true)
		waiting, known := c.forget(h.call)
		switch {
		case !known:
			return fmt.Errorf("%w: it answers the call %d, which is not under way", errFormat, h.call)
		case waiting == nil:
			err = c.skip(h)
		default:
			var body []byte
			if body, err = c.body(h); err == nil {
				waiting <- answer{h.kind, body}
			}
		}
		if err != nil {
			return err
		}
	}
}

// forget ends a call that is answered or was never sent. It returns the channel of the caller that waits; nil
// if none waits.
func (c *caller) forget(call uint64) (waiting chan answer, known bool) {
	c.pending.Lock()
	defer c.pending.Unlock()
	if waiting, known = c.calls[call]; known {
		delete(c.calls, call)
		<-c.slots
	}
	return waiting, known
}

// withdraw informs the server that the caller does not wait for the answer any more. The call keeps its slot
// until the server answers it, with a short message.
func (c *caller) withdraw(call uint64) {
	c.pending.Lock()
	if c.calls[call] != nil {
		c.calls[call] = nil
	}
	c.pending.Unlock()
	c.post(appendHead(nil, kindCancel, call, 0))
}

// unused reports whether no call is under way.
func (c *caller) unused() bool { return len(c.slots) == 0 }

// call makes one call.
func (c *caller) call(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error) {
	select {
	case c.slots <- struct{}{}:
	case <-c.ended.Done():
		return nil, unreachable(to, c.why().Error())
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	waiting := make(chan answer, 1)
	c.pending.Lock()
	if c.calls == nil {
		c.pending.Unlock()
		return nil, unreachable(to, c.why().Error())
	}
	c.next++
	id := c.next
	c.calls[id] = waiting
	c.pending.Unlock()
	var limit time.Duration
	if deadline, ok := ctx.Deadline(); ok {
		limit = max(time.Until(deadline), time.Microsecond)
	}
	start := callStart(make([]byte, 0, headSize+2*binary.MaxVarintLen64+min(len(request), smallMessage)), id, to, limit, request)
	if len(request) > smallMessage {
		go func() { _ = c.transmit(ctx, id, start, request) }() // the caller does not wait for a slow network
	} else if err := c.transmit(ctx, id, start, request); err != nil && ctx.Err() == nil {
		return nil, unreachable(to, err.Error())
	}
	select {
	case a := <-waiting:
		return a.result(to)
	case <-ctx.Done():
		c.withdraw(id)
		return nil, ctx.Err()
	case <-c.ended.Done():
	}
	select {
	case a := <-waiting: // the answer was the last that came
		return a.result(to)
	default:
		return nil, unreachable(to, c.why().Error())
	}
}

// transmit sends the request of a call.
func (c *caller) transmit(ctx context.Context, call uint64, start, request []byte) error {
	err := c.send(ctx, start, request)
	switch {
	case err != nil:
		c.forget(call)
	case len(request) > smallMessage && ctx.Err() != nil:
		c.withdraw(call) // the server ignores a withdrawal that arrives before the call
	}
	return err
}

// result converts an answer to the results of Call.
func (a answer) result(to multicast.ProcessID) ([]byte, error) {
	switch a.kind {
	case kindReply:
		return a.body, nil
	case kindFailed:
		return nil, &RemoteError{Text: string(a.body)}
	case kindLate:
		return nil, context.DeadlineExceeded
	}
	return nil, unreachable(to, string(a.body))
}
