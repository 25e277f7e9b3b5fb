package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/wire"
	"github.com/globalfs/globalfs/pkg/multicast"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
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

	// The network under gRPC; nil: TCP.
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

// pool keeps one connection to each address.
type pool struct {
	cfg Config
	log *slog.Logger

	mu     sync.Mutex
	conns  map[string]*grpc.ClientConn
	closed bool
}

func newPool(cfg Config) *pool {
	return &pool{cfg: cfg, log: cfg.Logger, conns: map[string]*grpc.ClientConn{}}
}

// resolve gives the address of a process.
func (p *pool) resolve(process multicast.ProcessID) (string, error) {
	address, ok := p.cfg.Resolve(process)
	if !ok {
		return "", unreachable(process, "nobody knows its address")
	}
	return address, p.cfg.checkAddress(address)
}

// conn gives the connection to an address; gRPC opens it, and again when it broke.
func (p *pool) conn(address string) (*grpc.ClientConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	if c := p.conns[address]; c != nil {
		return c, nil
	}
	c, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(p.credentials()),
		grpc.WithContextDialer(p.cfg.dial),
		grpc.WithNoProxy(),
		grpc.WithStaticStreamWindowSize(flowWindow),
		grpc.WithStaticConnWindowSize(flowWindow),
		grpc.WithDisableServiceConfig(),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: probeTime,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: quietTime, Timeout: probeTime, PermitWithoutStream: true}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxCall+envelope)),
	)
	if err != nil {
		return nil, fmt.Errorf("connection to %s: %w", address, err)
	}
	p.conns[address] = c
	return c, nil
}

// credentials are for connections that we open.
func (p *pool) credentials() credentials.TransportCredentials {
	if p.cfg.Credentials == nil {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(p.cfg.Credentials.ClientConfig())
}

// call asks a process at another address.
func (p *pool) call(ctx context.Context, to multicast.ProcessID, address string, request []byte) ([]byte, error) {
	conn, err := p.conn(address)
	if err != nil {
		return nil, err
	}
	reply, err := wire.NewTransportClient(conn).Call(ctx, &wire.CallRequest{To: uint32(to), Request: request})
	switch {
	case err == nil && reply.Error != nil:
		return nil, &RemoteError{Text: reply.GetError()}
	case err == nil:
		return reply.GetReply(), nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case status.Code(err) == codes.DeadlineExceeded: // the other end was quicker to notice
		return nil, context.DeadlineExceeded
	}
	return nil, unreachable(to, status.Convert(err).Message())
}

func (p *pool) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var errs []error
	for _, c := range p.conns {
		errs = append(errs, c.Close())
	}
	clear(p.conns)
	return errors.Join(errs...)
}
