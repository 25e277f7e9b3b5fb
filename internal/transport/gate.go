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
	tls      *tls.Config // nil: peers are unknown
	revoked  func(*x509.Certificate) error
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

	mu       sync.Mutex
	pending  []net.Conn          // in their handshake, the oldest first
	guests   int                 // connections of clients
	accounts map[string]*account // of clients with connections now or recently
	open     map[*guest]struct{} // connections with certificates that went through a door
}

func newGate(listener net.Listener, cfg *Config) *gate {
	g := &gate{
		listener: listener, limits: cfg.limits, log: cfg.Logger, accounts: map[string]*account{}, open: map[*guest]struct{}{}, revoked: func(*x509.Certificate) error { return nil },
		servers: newDoor(listener.Addr()), clients: newDoor(listener.Addr()),
		refusals:  rate.Sometimes{First: 10, Interval: time.Second},
		protocols: cfg.protocols,
	}
	if cfg.Credentials != nil {
		g.tls, g.revoked = cfg.Credentials.ServerConfig(cfg.protocols...), cfg.Credentials.CheckRevoked
	}
	g.openShared(cfg)
	g.ctx, g.cancel = context.WithCancel(context.Background())
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
			g.await(conn)
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

// await counts a connection whose peer is unknown, and closes the oldest such connection if there are too
// many.
func (g *gate) await(conn net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pending = append(g.pending, conn)
	if len(g.pending) > g.limits.handshakes {
		_ = g.pending[0].Close()
		g.pending = g.pending[1:]
	}
}

// admit lets a connection in, or closes it.
func (g *gate) admit(raw net.Conn, identify func(net.Conn) (*guest, error)) {
	c, err := identify(raw)
	g.mu.Lock()
	g.pending = slices.DeleteFunc(g.pending, func(p net.Conn) bool { return p == raw })
	if err == nil {
		err = g.enter(c)
	}
	if err == nil && c.leaf != nil {
		g.keep(c)
	}
	g.mu.Unlock()
	if err == nil && c.leaf != nil && g.revoked(c.leaf) != nil {
		g.recheck() // it was revoked after the handshake
	}
	switch {
	case err == nil && c.socket != nil:
		g.sockets(c)
	case err == nil && c.framed:
		g.framed(c)
	case err == nil && (c.info == nil || c.info.account == nil):
		g.servers.give(c)
	case err == nil:
		g.clients.give(c)
	default:
		if c != nil && c.shared {
			_ = c.cut()
		}
		_ = raw.Close()
		if gone := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE); !gone && g.ctx.Err() == nil { // the peer did not go away itself
			g.refusals.Do(func() {
				g.log.Warn("connection refused", "address", g.listener.Addr().String(), "from", raw.RemoteAddr().String(), "error", err)
			})
		}
	}
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
	c.expire(raw.Close)
	return c, nil
}

// guestOf returns a guest with the identity of the peer in a handshake.
func guestOf(conn *tls.Conn) (*guest, error) {
	leaf := conn.ConnectionState().PeerCertificates[0] // VerifyConnection has checked it
	id, err := identity.FromCertificate(leaf)
	return &guest{leaf: leaf, info: &peerInfo{identity: id}}, err
}

// expire schedules the end of a connection at the expiry of the peer's certificate. cut ends the connection
// at once, without a wait for the peer.
func (c *guest) expire(cut func() error) {
	end := time.AfterFunc(time.Until(c.leaf.NotAfter), func() { _ = cut() })
	c.cut, c.leave = cut, func() { end.Stop() }
}

// greet detects the protocol of a connection without TLS.
func (g *gate) greet(m *meter) (c *guest, err error) {
	c = &guest{Conn: m, meter: m, leave: func() {}}
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

// keep remembers a connection until it ends. g.mu is held.
func (g *gate) keep(c *guest) {
	g.open[c] = struct{}{}
	before := c.leave
	c.leave = func() {
		before()
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.open, c)
	}
}

// recheck ends the connections of peers with revoked certificates.
func (g *gate) recheck() {
	g.mu.Lock()
	var gone []*guest
	for c := range g.open {
		if g.revoked(c.leaf) != nil {
			gone = append(gone, c)
		}
	}
	g.mu.Unlock()
	for _, c := range gone {
		g.log.Warn("connection closed: the certificate of the peer was revoked", "address", g.listener.Addr().String(), "peer", c.info.identity.String())
		_ = c.cut() // its reader gets an error and closes the rest
	}
}

// enter counts a connection of a client. g.mu is held.
func (g *gate) enter(c *guest) error {
	if c.info != nil && c.info.identity.Role == identity.Server {
		return nil
	}
	if g.guests >= g.limits.connections {
		c.leave()
		return fmt.Errorf("there are %d connections of clients: no more are accepted", g.guests)
	}
	name := ""
	if c.info != nil {
		name = string(c.info.identity.Role) + "/" + c.info.identity.Name
		a := g.accounts[name]
		if a == nil {
			a = newAccount(c.info.identity.Role, g.limits)
			g.accounts[name] = a
		}
		if a.conns >= g.limits.perClient {
			c.leave()
			return fmt.Errorf("%s has %d connections: no more are accepted", name, a.conns)
		}
		a.conns++
		c.info.account = a
	}
	g.guests++
	c.leave = g.leaver(name, c.leave)
	return nil
}

// leaver returns the function that a client's connection calls when it ends.
func (g *gate) leaver(name string, before func()) func() {
	return func() {
		before()
		g.mu.Lock()
		defer g.mu.Unlock()
		g.guests--
		if a := g.accounts[name]; a != nil {
			a.conns--
			g.release(name, a)
		}
	}
}

// accountCheck is the time between two checks of an account without connections.
const accountCheck = time.Second

// release deletes an account without connections if it equals a new one; otherwise it schedules another
// check. g.mu is held.
func (g *gate) release(name string, a *account) {
	switch {
	case a.conns > 0 || a.leaving || g.ctx.Err() != nil:
	case a.isUnused():
		delete(g.accounts, name)
	default:
		a.leaving = true
		time.AfterFunc(accountCheck, func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			a.leaving = false
			g.release(name, a)
		})
	}
}

// guest is a connection whose peer the gate has identified.
type guest struct {
	net.Conn
	meter  *meter      // under Conn
	framed bool        // speaks the framed protocol
	shared bool        // through shared memory
	socket *socketEnds // it is a socket between two processes; nil: it is not
	info   *peerInfo   // nil without certificates
	leaf   *x509.Certificate
	cut    func() error // ends the connection under TLS, without waiting for the peer
	once   sync.Once
	leave  func()
}

// Close ends the connection; it may be called several times.
func (c *guest) Close() error {
	c.once.Do(c.leave)
	return c.Conn.Close()
}

// door is the listener of one gRPC server: it accepts the connections that the gate hands over.
type door struct {
	address net.Addr
	through chan net.Conn
	once    sync.Once
	closed  chan struct{}
}

func newDoor(address net.Addr) *door {
	return &door{address: address, through: make(chan net.Conn), closed: make(chan struct{})}
}

// give hands a connection over, or closes it if the door is closed.
func (d *door) give(c net.Conn) {
	select {
	case d.through <- c:
	case <-d.closed:
		_ = c.Close()
	}
}

// Accept implements net.Listener.
func (d *door) Accept() (net.Conn, error) {
	select {
	case c := <-d.through:
		return c, nil
	case <-d.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (d *door) Close() error {
	d.once.Do(func() { close(d.closed) })
	return nil
}

// Addr implements net.Listener.
func (d *door) Addr() net.Addr { return d.address }
