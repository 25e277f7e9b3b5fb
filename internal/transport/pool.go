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
	// envelope is more than what goes around the frames of a batch, and around a call.
	envelope = 1 << 20
	// maxMessage bounds a batch: batchBytes or a single longer frame, and what goes around them.
	maxMessage = MaxFrame + batchBytes + envelope
	// flowWindow is what a stream, and a connection, may have sent and gRPC not handed over: as much as
	// gRPC's own estimate would reach at most. Fixed, it spares the pings of that estimate, which would go with
	// every batch of a link that is not busy.
	flowWindow = 16 << 20
	// A connection on which nothing is heard for quietTime is probed, and broken if
	// there is no answer in probeTime.
	quietTime, probeTime = 10 * time.Second, 5 * time.Second
	// DefaultCallsPerSecond is far above what a mount needs, and far below what a server can do.
	DefaultCallsPerSecond = 20_000
)

// Config is what a Server and a Client need to know.
type Config struct {
	// Address is where a Server listens, as host:port. Port 0 takes a free one, see Server.Address.
	Address string
	// Listener is open at the address already, and the Server's from now on. Nil: the Server opens Address.
	Listener net.Listener
	// Known is the address by which Resolve knows a Server, if that is another one, such as a name: what is said
	// to it does not leave the process then.
	Known string
	// Resolve gives the address of the server that hosts a process. It is quick and may be called
	// from several goroutines. When a process has moved, calls go to its new address at once and its links
	// within a second or two; not ok, for a process whose address was known, changes nothing for links.
	Resolve func(multicast.ProcessID) (address string, ok bool)
	// Credentials are shown to all peers, who must show theirs: a Server's role must be server. Nil: connections
	// are neither encrypted nor authenticated, whoever reaches them can speak for any process, and only loopback
	// addresses are accepted.
	Credentials *identity.Credentials
	// CallsPerSecond is how many calls each client may make at a Server; more wait. 0: DefaultCallsPerSecond.
	CallsPerSecond int
	// Logger hears of connections that break; nil: nobody does.
	Logger *slog.Logger

	limits limits // only tests change them

	protocols []string // spoken, the preferred first; nil: the framed protocol and HTTP/2. Only tests change it

	// The network under them; nil: TCP.
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

// checkAddress says why an address must not be used, or nil.
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
}

func newPool(cfg Config) *pool {
	p := &pool{cfg: cfg, log: cfg.Logger}
	if slices.Contains(cfg.protocols, framedProtocol) {
		p.provider = newEither(cfg)
	} else {
		p.provider = newGRPCProvider(cfg)
	}
	return p
}

// resolve gives the address of a process.
func (p *pool) resolve(process multicast.ProcessID) (string, error) {
	address, ok := p.cfg.Resolve(process)
	if !ok {
		return "", unreachable(process, "nobody knows its address")
	}
	return address, p.cfg.checkAddress(address)
}
