package transport

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/pkg/multicast"
)

const (
	// envelope exceeds the overhead around the frames of a batch, and around a call.
	envelope = 1 << 20
	// maxMessage bounds a batch: batchBytes or a single longer frame, with their overhead.
	maxMessage = MaxFrame + batchBytes + envelope
	// flowWindow bounds the bytes that a stream, and a connection, have sent and gRPC has not handed over:
	// the maximum of gRPC's own estimate. A fixed window avoids the pings of that estimate, which would go
	// with every batch of a link that is not busy.
	flowWindow = 16 << 20
	// A connection that receives nothing for quietTime is probed, and broken if there is no answer in
	// probeTime.
	quietTime, probeTime = 10 * time.Second, 5 * time.Second
	// DefaultCallsPerSecond is far above the needs of a mount, and far below the capacity of a server.
	DefaultCallsPerSecond = 20_000
)

// Config configures a Server or a Client.
type Config struct {
	// Address is the host:port of a Server's listener. Port 0 takes a free port, see Server.Address.
	Address string
	// Listener is already open at the address, and the Server owns it from now on. Nil: the Server opens
	// Address.
	Listener net.Listener
	// Known is the address of a Server in Resolve, if it differs from the listening address, such as a name.
	// Messages to this address do not leave the process.
	Known string
	// Resolve returns the address of the server that hosts a process. It is quick and may be called from
	// several goroutines. When a process has moved, calls go to its new address at once and its links within
	// a second or two. For links, a false ok for a process with an address known before changes nothing.
	Resolve func(multicast.ProcessID) (address string, ok bool)
	// Credentials are shown to all peers, and each peer must show its own: a Server's role must be server.
	// Nil: connections are neither encrypted nor authenticated, any program that reaches them can act for
	// any process, and only loopback addresses are accepted.
	Credentials *identity.Credentials
	// CallsPerSecond is the maximum rate of calls of each client at a Server; more wait. 0:
	// DefaultCallsPerSecond.
	CallsPerSecond int
	// SharedMemory permits shared memory instead of TCP for peers on this host (sharing.go). It needs
	// Credentials, and both ends must have set it.
	SharedMemory bool
	// Logger receives messages about broken connections; nil: no log.
	Logger *slog.Logger

	limits limits // only tests change them

	protocols []string // spoken, the preferred first; nil: both protocols. Only tests change it

	sharing sharing // nil: connections stay on TCP

	// The underlying network; nil: TCP.
	listen func(address string) (net.Listener, error)
	dial   func(ctx context.Context, address string) (net.Conn, error)
}

func (c *Config) setDefaults() {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.limits == (limits{}) {
		c.limits = defaultLimits()
	}
	if c.protocols == nil {
		c.protocols = []string{framedProtocol, protocol}
	}
	switch {
	case !c.SharedMemory || c.Credentials == nil:
		c.sharing = nil
	case c.sharing == nil:
		c.sharing = hostSharing{}
	}
	if c.CallsPerSecond > 0 {
		c.limits.callsPerSecond = c.CallsPerSecond
	}
	if c.listen == nil {
		c.listen = func(address string) (net.Listener, error) { return net.Listen("tcp", address) }
	}
	if c.dial == nil {
		c.dial = func(ctx context.Context, address string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", address)
		}
	}
}

// checkAddress returns the reason why an address must not be used, or nil.
func (c *Config) checkAddress(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("address %q is not host:port: %w", address, err)
	}
	if ip := net.ParseIP(host); c.Credentials != nil || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("address %s is not on this host's loopback, and without certificates everybody there would be let in: "+
		"make some with 'globalfs certs', or use 127.0.0.1", address)
}

// pool reaches the servers at other addresses.
type pool struct {
	cfg Config
	log *slog.Logger
	provider
	framed *framedProvider // part of provider; nil: none
}

func newPool(cfg Config) *pool {
	p := &pool{cfg: cfg, log: cfg.Logger}
	if slices.Contains(cfg.protocols, framedProtocol) {
		both := newFallback(cfg)
		p.provider, p.framed = both, both.framed.(*framedProvider)
	} else {
		p.provider = newGRPCProvider(cfg)
	}
	return p
}

// resolve returns the address of a process.
func (p *pool) resolve(process multicast.ProcessID) (string, error) {
	address, ok := p.cfg.Resolve(process)
	if !ok {
		return "", unreachable(process, "nobody knows its address")
	}
	return address, p.cfg.checkAddress(address)
}
