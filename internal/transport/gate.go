package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/time/rate"

	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/pause"
)

// protocol is the ALPN name of gRPC.
const protocol = "h2"

// limits bound the work that peers can cause at a server. Servers of the cluster are bounded only by
// MaxFrame, MaxCall and Window.
type limits struct {
	handshakes     int           // connections with unknown peers; if there are more, the oldest is closed
	handshake      time.Duration // the time limit for a peer to authenticate
	connections    int           // connections of all clients
	perClient      int           // connections of one client
	calls          int64         // calls under way of one client, over all its connections
	bytes          int64         // bytes of the requests of one client that are read or answered
	callsPerSecond int           // rate of the calls of one client
}

func defaultLimits() limits {
	return limits{
		handshakes:     512,
		handshake:      probeTime,
		connections:    8192,
		perClient:      1024, // two of each mount: many machines may share a certificate
		calls:          1024,
		bytes:          256 << 20,
		callsPerSecond: DefaultCallsPerSecond,
	}
}

// gate accepts connections and identifies their peers. It passes each connection to the framed protocol, or
// to one of two gRPC servers: one for servers, one for clients. A connection with an unknown peer costs
// little, and cannot exclude others: when there are too many, the oldest one is closed.
type gate struct {
	listener net.Listener
	tls      *tls.Config                   // nil: peers are unknown
	revoked  func(*x509.Certificate) error // the reason why a certificate is not valid any more, or nil
	limits   limits
	log      *slog.Logger
	refusals rate.Sometimes // of log lines that any stranger can cause

	servers, clients *door        // of gRPC
	framed           func(*guest) // takes connections of the framed protocol
	sockets          func(*guest) // takes sockets
	protocols        []string

	shared *sharedDoor // nil: none

	ctx     context.Context // ends with the gate
	cancel  context.CancelFunc
	running sync.WaitGroup // the loops and the handshakes

	mu      sync.Mutex
	pending []net.Conn // GUARDED_BY mu; connections in their handshake, the oldest first

	guests guests
}

func newGate(listener net.Listener, cfg *Config) *gate {
	g := &gate{
		listener: listener, limits: cfg.limits, log: cfg.Logger, revoked: func(*x509.Certificate) error { return nil },
		servers: newDoor(listener.Addr()), clients: newDoor(listener.Addr()),
		refusals:  rate.Sometimes{First: 10, Interval: time.Second},
		protocols: cfg.protocols,
	}
	if cfg.Credentials != nil {
		g.tls, g.revoked = cfg.Credentials.ServerConfig(cfg.protocols...), cfg.Credentials.CheckRevoked
	}
	g.openShared(cfg)
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.guests = guests{limits: &g.limits, ended: g.ctx, accounts: map[string]*account{}, certified: map[*guest]struct{}{}}
	return g
}

// start accepts connections until close.
func (g *gate) start() {
	g.running.Go(func() { g.run(g.listener, g.identify) })
	if g.shared != nil {
		g.running.Go(func() { g.run(g.shared.listener, g.identifyShared) })
	}
}

// run accepts the connections of one listener.
func (g *gate) run(listener net.Listener, identify func(net.Conn) (*guest, error)) {
	for {
		conn, err := listener.Accept()
		switch {
		case g.ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return
		case err != nil: // for example: no file descriptor is left
			g.log.Error("connections cannot be accepted", "address", listener.Addr().String(), "error", err)
			_ = pause.For(g.ctx, maxPause) // the loop checks the context
		default:
			g.begin(conn)
			g.running.Go(func() { g.admit(conn, identify) })
		}
	}
}

// close ends the listeners and all handshakes. It does not end connections that have passed the gate.
func (g *gate) close() {
	g.cancel()
	_ = g.listener.Close()
	if g.shared != nil {
		_ = g.shared.listener.Close()
	}
	g.running.Wait()
}

// begin counts a connection in its handshake, and closes the oldest such connection if there are too many.
func (g *gate) begin(conn net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pending = append(g.pending, conn)
	if len(g.pending) > g.limits.handshakes {
		_ = g.pending[0].Close()
		g.pending = g.pending[1:]
	}
}

// end ends the count of a connection in its handshake.
func (g *gate) end(conn net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pending = slices.DeleteFunc(g.pending, func(p net.Conn) bool { return p == conn })
}

// admit identifies the peer of a connection, and lets the connection in or closes it.
func (g *gate) admit(raw net.Conn, identify func(net.Conn) (*guest, error)) {
	c, err := identify(raw)
	g.end(raw)
	if err == nil {
		err = g.guests.enter(c)
	}
	if err != nil {
		g.refuse(raw, c, err)
		return
	}
	if c.leaf != nil && g.revoked(c.leaf) != nil {
		g.recheck() // it was revoked after the handshake
	}
	switch {
	case c.socket != nil:
		g.sockets(c)
	case c.framed:
		g.framed(c)
	case c.account() == nil:
		g.servers.give(c)
	default:
		g.clients.give(c)
	}
}

// refuse closes a connection, and logs the reason unless the peer has closed the connection itself. c is nil
// if the peer was not identified.
func (g *gate) refuse(raw net.Conn, c *guest, reason error) {
	if c != nil {
		c.stopExpiry()
		if c.shared {
			_ = c.cut()
		}
	}
	_ = raw.Close()
	closed := errors.Is(reason, io.EOF) || errors.Is(reason, syscall.ECONNRESET) || errors.Is(reason, syscall.EPIPE)
	if closed || g.ctx.Err() != nil {
		return
	}
	g.refusals.Do(func() {
		g.log.Warn("connection refused", "address", g.listener.Addr().String(), "from", raw.RemoteAddr().String(), "error", reason)
	})
}

// identify makes the handshake.
func (g *gate) identify(raw net.Conn) (*guest, error) {
	m := newMeter(raw)
	if g.tls == nil {
		return g.greet(m)
	}
	ctx, cancel := context.WithTimeout(g.ctx, g.limits.handshake)
	defer cancel()
	conn := tls.Server(m, g.tls)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, handshakeError(err)
	}
	spoken := conn.ConnectionState().NegotiatedProtocol
	if !slices.Contains(g.protocols, spoken) {
		return nil, fmt.Errorf("the peer speaks none of %q", g.protocols)
	}
	c, err := guestOf(conn)
	if err != nil {
		return nil, err
	}
	c.Conn, c.meter, c.framed = conn, m, spoken == framedProtocol
	c.expireBy(raw.Close)
	return c, nil
}

// guestOf returns a guest with the identity of the peer in a handshake.
func guestOf(conn *tls.Conn) (*guest, error) {
	leaf := conn.ConnectionState().PeerCertificates[0] // VerifyConnection has checked it
	id, err := identity.FromCertificate(leaf)
	return &guest{leaf: leaf, info: &peerInfo{identity: id}}, err
}

// greet detects the protocol of a connection without TLS.
func (g *gate) greet(m *meter) (c *guest, err error) {
	c = &guest{Conn: m, meter: m}
	if slices.Contains(g.protocols, framedProtocol) {
		c.framed, c.Conn, err = greeted(m, g.limits.handshake)
	}
	return c, err
}

// handshakeError adds advice to the handshake error of a peer that does not use TLS.
func handshakeError(err error) error {
	var record tls.RecordHeaderError
	if errors.As(err, &record) && record.Conn != nil {
		return fmt.Errorf("the peer does not use TLS: give it a certificate made by 'globalfs certs': %w", err)
	}
	return err
}

// recheck ends the connections of peers with revoked certificates.
func (g *gate) recheck() {
	for _, c := range g.guests.matching(func(leaf *x509.Certificate) bool { return g.revoked(leaf) != nil }) {
		g.log.Warn("connection closed: the certificate of the peer was revoked", "address", g.listener.Addr().String(), "peer", c.info.identity.String())
		_ = c.cut() // its reader gets an error and closes the rest
	}
}
