package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/pause"
)

// protocol is what connections speak after the handshake (ALPN).
const protocol = "h2"

// limits bound what peers can make a server do. Servers of the cluster are bounded only by MaxFrame, MaxCall
// and Window.
type limits struct {
	handshakes     int           // connections whose peers are not known yet; then the oldest has to go
	handshake      time.Duration // how long a peer may take to say who it is
	connections    int           // of all clients
	perClient      int           // connections of one client
	calls          int64         // of one client, over all its connections
	bytes          int64         // of one client's requests that are being read or answered
	callsPerSecond int           // of one client
}

func defaultLimits() limits {
	return limits{
		handshakes:     512,
		handshake:      probeTime,
		connections:    8192,
		perClient:      64,
		calls:          1024,
		bytes:          256 << 20,
		callsPerSecond: DefaultCallsPerSecond,
	}
}

// gate accepts connections, finds out whose they are, and hands them to the gRPC server for such peers. Until
// it knows its peer a connection costs little, and others cannot be kept out by silent ones: the oldest of
// those gives way to a new one.
type gate struct {
	listener net.Listener
	tls      *tls.Config // nil: peers are not known
	limits   limits
	log      *slog.Logger
	refusals rate.Sometimes // of log lines that a stranger can cause

	servers, clients *door

	ctx     context.Context // ends with the gate
	cancel  context.CancelFunc
	running sync.WaitGroup // the loop and the handshakes

	mu       sync.Mutex
	pending  []net.Conn          // in their handshake, the oldest first
	guests   int                 // connections of clients
	accounts map[string]*account // of clients with connections
}

func newGate(listener net.Listener, cfg *Config) *gate {
	g := &gate{
		listener: listener, limits: cfg.limits, log: cfg.Logger, accounts: map[string]*account{},
		servers: newDoor(listener.Addr()), clients: newDoor(listener.Addr()),
		refusals: rate.Sometimes{First: 10, Interval: time.Second},
	}
	if cfg.Credentials != nil {
		g.tls = cfg.Credentials.ServerConfig(protocol)
	}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g
}

// run accepts connections until close.
func (g *gate) run() {
	for {
		conn, err := g.listener.Accept()
		switch {
		case g.ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return
		case err != nil: // as when no file descriptor is left
			g.log.Error("connections cannot be accepted", "address", g.listener.Addr().String(), "error", err)
			_ = pause.For(g.ctx, maxPause) // the loop looks at the context
		default:
			g.await(conn)
			g.running.Go(func() { g.admit(conn) })
		}
	}
}

// close ends the listener and all handshakes. Connections that went through a door are not the gate's any
// more.
func (g *gate) close() {
	g.cancel()
	_ = g.listener.Close()
	g.running.Wait()
}

// await counts a connection among those whose peers are not known.
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
func (g *gate) admit(raw net.Conn) {
	c, err := g.identify(raw)
	g.mu.Lock()
	g.pending = slices.DeleteFunc(g.pending, func(p net.Conn) bool { return p == raw })
	if err == nil {
		err = g.enter(c)
	}
	g.mu.Unlock()
	switch {
	case err == nil && (c.info == nil || c.info.account == nil):
		g.servers.give(c)
	case err == nil:
		g.clients.give(c)
	default:
		_ = raw.Close()
		if g.ctx.Err() == nil && !errors.Is(err, io.EOF) {
			g.refusals.Do(func() {
				g.log.Warn("connection refused", "address", g.listener.Addr().String(), "from", raw.RemoteAddr().String(), "error", err)
			})
		}
	}
}

// identify makes the handshake.
func (g *gate) identify(raw net.Conn) (*guest, error) {
	if g.tls == nil {
		return &guest{Conn: raw, leave: func() {}}, nil
	}
	ctx, cancel := context.WithTimeout(g.ctx, g.limits.handshake)
	defer cancel()
	conn := tls.Server(raw, g.tls)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	state := conn.ConnectionState()
	if state.NegotiatedProtocol != protocol {
		return nil, fmt.Errorf("the peer does not speak %s", protocol)
	}
	leaf := state.PeerCertificates[0] // which VerifyConnection has checked
	id, err := identity.FromCertificate(leaf)
	if err != nil {
		return nil, err
	}
	end := time.AfterFunc(time.Until(leaf.NotAfter), func() { _ = raw.Close() })
	return &guest{Conn: conn, info: &peerInfo{identity: id}, leave: func() { end.Stop() }}, nil
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

// leaver gives what is to be done when a client's connection has ended.
func (g *gate) leaver(name string, before func()) func() {
	return func() {
		before()
		g.mu.Lock()
		defer g.mu.Unlock()
		g.guests--
		if a := g.accounts[name]; a != nil {
			if a.conns--; a.conns == 0 {
				delete(g.accounts, name)
			}
		}
	}
}

// guest is a connection that the gate lets in.
type guest struct {
	net.Conn
	info  *peerInfo // nil without certificates
	once  sync.Once
	leave func()
}

// Close ends the connection; several times are as good as once.
func (c *guest) Close() error {
	c.once.Do(c.leave)
	return c.Conn.Close()
}

// door is the listener of one gRPC server: it accepts what the gate gives.
type door struct {
	address net.Addr
	through chan net.Conn
	once    sync.Once
	closed  chan struct{}
}

func newDoor(address net.Addr) *door {
	return &door{address: address, through: make(chan net.Conn), closed: make(chan struct{})}
}

// give hands a connection over, or closes it if nobody is there any more.
func (d *door) give(c net.Conn) {
	select {
	case d.through <- c:
	case <-d.closed:
		_ = c.Close()
	}
}

// Accept is net.Listener's.
func (d *door) Accept() (net.Conn, error) {
	select {
	case c := <-d.through:
		return c, nil
	case <-d.closed:
		return nil, net.ErrClosed
	}
}

// Close is net.Listener's.
func (d *door) Close() error {
	d.once.Do(func() { close(d.closed) })
	return nil
}

// Addr is net.Listener's.
func (d *door) Addr() net.Addr { return d.address }
