package transport

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/reason"
	"github.com/globalfs/globalfs/internal/wire"
	"github.com/globalfs/globalfs/pkg/multicast"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// grpcProvider reaches servers over gRPC. It keeps one connection to each address.
type grpcProvider struct {
	cfg Config

	mu     sync.Mutex
	conns  map[string]*grpc.ClientConn
	closed bool
}

func newGRPCProvider(cfg Config) *grpcProvider {
	return &grpcProvider{cfg: cfg, conns: map[string]*grpc.ClientConn{}}
}

// conn returns the connection to an address; gRPC opens it, and reopens it after a break.
func (p *grpcProvider) conn(address string) (*grpc.ClientConn, error) {
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

// credentials returns the credentials for the connections that this side opens.
func (p *grpcProvider) credentials() credentials.TransportCredentials {
	if p.cfg.Credentials == nil {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(p.cfg.Credentials.ClientConfig())
}

// call calls a process at another address.
func (p *grpcProvider) call(ctx context.Context, to multicast.ProcessID, address string, request []byte) ([]byte, error) {
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
	case status.Code(err) == codes.DeadlineExceeded: // the other end noticed first
		return nil, context.DeadlineExceeded
	}
	return nil, unreachable(to, reason.In(status.Convert(err).Message()))
}

func (p *grpcProvider) close() error {
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

// rest waits until another call of an unreachable address is worth a try, at most until ctx ends.
func (p *grpcProvider) rest(ctx context.Context, address string) {
	if conn, err := p.conn(address); err == nil && conn.GetState() == connectivity.TransientFailure {
		conn.WaitForStateChange(ctx, connectivity.TransientFailure)
		return
	}
	<-ctx.Done()
}

// grpcPackets is a stream for the packets of links.
type grpcPackets struct {
	wire.Transport_FramesClient
	cancel context.CancelFunc
	ended  chan struct{}
	reason error // set before ended is closed
}

func (p *grpcProvider) packets(ctx context.Context, address string) (packetStream, error) {
	conn, err := p.conn(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	stream, err := wire.NewTransportClient(conn).Frames(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	s := &grpcPackets{Transport_FramesClient: stream, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		s.reason = stream.RecvMsg(new(wire.FramesEnd))
	}()
	return s, nil
}

func (s *grpcPackets) send(batch *wire.Batch) error { return s.Send(batch) }

func (s *grpcPackets) broken() <-chan struct{} { return s.ended }

func (s *grpcPackets) why() error { return s.reason }

func (s *grpcPackets) close() {
	s.cancel()
	<-s.ended
}
