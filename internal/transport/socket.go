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
	"syscall"
	"time"

	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// memoryProtocol is the ALPN name on the Unix socket of a server: after the handshake the socket is a stream
// between two processes (SharedWay). They pass memory over it, and both know the identity of the other.
const memoryProtocol = "globalfs/1-memory"

// socketEnds are the processes at the ends of a socket.
type socketEnds struct{ from, to multicast.ProcessID }

// socketReady is the first byte outside of TLS: the process takes the socket. The client sends nothing before
// it, so TLS reads nothing beyond its own records.
const socketReady = 'r'

// openingSize is the size of the last message of the client inside of TLS.
const openingSize = 1 + 4 + 4

// opening returns the message with which a client accepts and names both processes.
func (e socketEnds) opening() []byte {
	b := binary.LittleEndian.AppendUint32([]byte{shareGo}, uint32(e.from))
	return binary.LittleEndian.AppendUint32(b, uint32(e.to))
}

// socket returns a Unix socket to a process on the server at the other end of c.
func (p *framedProvider) socket(ctx context.Context, c *caller, ends socketEnds) (net.Conn, error) {
	switch {
	case p.cfg.sharing == nil:
		return nil, errors.New("this server shares no memory: that needs certificates, and fabric: auto in its cluster file")
	case c.leaf == nil || !isSharedName(c.shares):
		return nil, errors.New("the peer shares no memory: that needs certificates, and fabric: auto in its cluster file")
	case !p.mayShare(memoryProtocol, c.shares):
		return nil, errors.New("an attempt to share memory has failed less than a minute ago")
	}
	attempt, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	raw, err := p.openSocket(attempt, c, ends)
	if errors.Is(err, errNotTaken) {
		return nil, err // it may begin soon
	}
	if err != nil {
		p.cannotShare(ctx, c, memoryProtocol, err)
		return nil, fmt.Errorf("no memory can be shared with the server at %s: is it on this host, and in the same network namespace? %w", c.RemoteAddr(), err)
	}
	return raw, nil
}

func (p *framedProvider) openSocket(ctx context.Context, c *caller, ends socketEnds) (raw net.Conn, err error) {
	if raw, err = p.cfg.sharing.dial(ctx, c.shares); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() }) // ends every wait for the peer
	conn, leaf, err := p.meet(ctx, raw, c, memoryProtocol)
	if err == nil {
		_, err = conn.Write(ends.opening())
	}
	if err == nil {
		err = awaitReady(raw)
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	p.watch(raw, leaf)
	return raw, nil
}

// errNotTaken is the error for a socket to a process that takes no streams, or not yet.
var errNotTaken = errors.New("the process takes no streams")

// awaitReady waits until the peer takes the socket.
func awaitReady(raw net.Conn) error {
	var one [1]byte
	switch _, err := io.ReadFull(raw, one[:]); {
	case errors.Is(err, io.EOF):
		return errNotTaken
	case err != nil:
		return err
	case one[0] != socketReady:
		return fmt.Errorf("the server begins with the byte %#x", one[0])
	}
	return nil
}

// watch closes a socket after the certificate of the peer was revoked. It ends with the socket.
func (p *framedProvider) watch(socket net.Conn, leaf *x509.Certificate) {
	of, ok := socket.(syscall.Conn)
	if !ok {
		return // a test without sockets
	}
	raw, err := of.SyscallConn()
	if err != nil {
		return // it is closed already
	}
	var look func()
	look = func() {
		switch {
		case raw.Control(func(uintptr) {}) != nil: // it was closed
		case p.cfg.Credentials.CheckRevoked(leaf) != nil:
			_ = socket.Close() // its user gets an error
		default:
			time.AfterFunc(probeTime, look)
		}
	}
	time.AfterFunc(probeTime, look)
}

// identifySocket reads the opening of a socket. The peer has introduced itself by TLS.
func (c *guest) identifySocket(raw net.Conn, conn *tls.Conn) error {
	if c.info.identity.Role != identity.Server {
		return refusal("only servers have sockets")
	}
	var b [openingSize]byte
	if _, err := io.ReadFull(conn, b[:]); err != nil {
		return err
	}
	if b[0] != shareGo {
		return fmt.Errorf("the client does not accept a socket: it sends the byte %#x", b[0])
	}
	c.socket = &socketEnds{multicast.ProcessID(binary.LittleEndian.Uint32(b[1:])), multicast.ProcessID(binary.LittleEndian.Uint32(b[5:]))}
	c.Conn, c.shared = raw, true
	c.expireBy(raw.Close)
	return raw.SetDeadline(time.Time{})
}

// giveSocket takes over a socket, and serves it in a goroutine.
func (f *framed) giveSocket(c *guest) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		_ = c.Close()
		return
	}
	f.sockets[c] = struct{}{}
	f.running.Go(func() { f.serveSocket(c) })
}

// serveSocket passes a socket to its process, and returns when the process does not use it any more.
func (f *framed) serveSocket(c *guest) {
	if handler := f.streamHandler(c.socket.to); handler != nil {
		if _, err := c.Conn.Write([]byte{socketReady}); err == nil {
			handler(c.socket.from, &c.info.identity, c.Conn)
		}
	}
	_ = c.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.sockets, c)
}
