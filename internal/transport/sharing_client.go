package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"syscall"
	"time"

	"github.com/globalfs/globalfs/internal/identity"
)

// shareRetry is the time from a failed attempt to the next one with the same server.
const shareRetry = time.Minute

// shareGo is the byte with which a client accepts inside of TLS: it has compared the introduction of the
// server with the socket. A process that relays the handshake cannot make this byte. The server sends nothing
// outside of TLS before this byte, and the client sends nothing more before the offer, so TLS reads nothing
// beyond its own records.
const shareGo = 'g'

// share returns a connection through shared memory to the server at the other end of c, nil if there can be
// none: c stays in use then.
func (p *framedProvider) share(ctx context.Context, c *caller) *caller {
	if p.cfg.sharing == nil || c.leaf == nil || !isSharedName(c.shares) || !p.mayShare(sharedProtocol, c.shares) {
		return nil
	}
	attempt, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	s, err := p.connectShared(attempt, c)
	if err != nil {
		p.cannotShare(ctx, c, sharedProtocol, err)
		return nil
	}
	return s
}

// mayShare reports whether an attempt to share memory by a protocol makes sense.
func (p *framedProvider) mayShare(protocol, name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(p.unshared, func(_ string, until time.Time) bool { return now.After(until) })
	_, failed := p.unshared[protocol+name]
	return !failed
}

// cannotShare records a failed attempt to share memory with the server at the other end of c. ctx is that of
// the caller.
func (p *framedProvider) cannotShare(ctx context.Context, c *caller, protocol string, err error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return // the caller has ended the attempt
	}
	p.mu.Lock()
	p.unshared[protocol+c.shares] = time.Now().Add(shareRetry)
	p.mu.Unlock()
	if ctx.Err() == nil && !errors.Is(err, syscall.ECONNREFUSED) { // another host
		p.cfg.Logger.Warn("the connection to a server of this host stays on TCP: no shared memory", "server", c.RemoteAddr().String(), "error", err)
	}
}

// connectShared opens a connection through shared memory to the server at the other end of c.
func (p *framedProvider) connectShared(ctx context.Context, c *caller) (s *caller, err error) {
	raw, err := p.cfg.sharing.dial(ctx, c.shares)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() }) // ends every wait for the peer
	defer func() {
		if !stop() && err == nil {
			err = ctx.Err()
		}
		if err != nil && s != nil {
			s.fail(err)
			s = nil
		}
		if err != nil {
			_ = raw.Close()
		}
	}()
	conn, leaf, err := p.meet(ctx, raw, c, sharedProtocol)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write([]byte{shareGo}); err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	memory, err := p.cfg.sharing.accept(raw, deadline)
	if err != nil {
		return nil, err
	}
	m := newMeter(memory)
	s = p.caller(m, m, leaf)
	s.shared = true
	return s, s.hello()
}

// meet authenticates both ends of a socket of the server at the other end of c. The caller accepts inside of
// TLS.
func (p *framedProvider) meet(ctx context.Context, raw net.Conn, c *caller, protocol string) (*tls.Conn, *x509.Certificate, error) {
	config := p.cfg.Credentials.ClientConfig()
	config.NextProtos = []string{protocol}
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, nil, err
	}
	leaf := conn.ConnectionState().PeerCertificates[0]
	if err := sameServer(leaf, c.leaf); err != nil {
		return nil, nil, err
	}
	user, err := p.cfg.sharing.user(raw)
	if err != nil {
		return nil, nil, err
	}
	want := introduction(user, c.shares)
	received := make([]byte, len(want))
	if _, err := io.ReadFull(conn, received); err != nil {
		return nil, nil, err
	}
	if !bytes.Equal(received, want) {
		return nil, nil, fmt.Errorf("the server introduces itself as %q, and the process at the other end of the socket is %q: another process may sit between them", received, want)
	}
	return conn, leaf, nil
}

// sameServer checks that two certificates name one process.
func sameServer(a, b *x509.Certificate) error {
	first, err := identity.FromCertificate(a)
	if err != nil {
		return err
	}
	second, err := identity.FromCertificate(b)
	if err != nil {
		return err
	}
	if first.String() != second.String() {
		return fmt.Errorf("%s answers on the socket of %s", first, second)
	}
	return nil
}
