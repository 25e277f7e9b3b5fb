package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"

	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/wire"
	"github.com/globalfs/globalfs/pkg/multicast"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// Bounds of one connection.
const (
	// maxCalls bounds the calls under way on one connection of a server; more wait at their callers.
	maxCalls = 1024
	// maxClientCalls is the same for one connection of a client.
	maxClientCalls = 256
	// clientWindow bounds the bytes of one request of a client that have arrived and are not read: a block,
	// so that it travels at once, and not more, because these bytes are not charged to the client yet.
	clientWindow = 1<<20 + 64<<10
	// maxHeaders is the maximum length of a call's headers; the server uses none of them.
	maxHeaders = 16 << 10
)

// Server is the network access of all processes at one address.
type Server struct {
	wire.UnimplementedTransportServer

	address string
	pool    *pool
	gate    *gate
	control *service        // process 0: the server itself
	grpc    [2]*grpc.Server // for servers, and for clients and admins
	framed  *framed
	ctx     context.Context // ends with the server
	cancel  context.CancelFunc
	running sync.WaitGroup // the senders, the gate and the gRPC servers

	mu           sync.Mutex
	closed       bool
	endpoints    map[multicast.ProcessID]*grpcEndpoint
	links        map[multicast.ProcessID]*grpcLinks // the open ones
	incarnations map[multicast.ProcessID]uint64     // the last incarnation of each process
	senders      map[string]*sender
}

// open returns the listener at the address. After an error nothing is open.
func (c *Config) open() (net.Listener, error) {
	if c.Listener == nil {
		if err := c.mayListen(); err != nil {
			return nil, err
		}
		listener, err := c.listen(c.Address)
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("address %s is in use by another process: stop that one or choose another port: %w", c.Address, err)
		} else if err != nil {
			return nil, fmt.Errorf("address %s: %w", c.Address, err)
		}
		return listener, nil
	}
	c.Address = c.Listener.Addr().String()
	if err := c.mayListen(); err != nil {
		return nil, errors.Join(err, c.Listener.Close())
	}
	return c.Listener, nil
}

// mayListen returns the reason why a Server must not listen at the address, or nil.
func (c *Config) mayListen() error {
	if err := c.checkAddress(c.Address); err != nil {
		return err
	}
	if c.Credentials == nil {
		return nil
	}
	if id := c.Credentials.Identity(); id.Role != identity.Server {
		return fmt.Errorf("address %s: only a server may listen, and the certificate is of %s: 'globalfs certs server NAME' makes one", c.Address, id)
	}
	return nil
}

// Listen opens the address and serves it until Close. After an error nothing is open, not even
// Config.Listener.
func Listen(cfg Config) (*Server, error) {
	cfg.setDefaults()
	listener, err := cfg.open()
	if err != nil {
		return nil, err
	}
	s := &Server{
		address:      listener.Addr().String(),
		pool:         newPool(cfg),
		gate:         newGate(listener, &cfg),
		control:      newService(controlProcess),
		endpoints:    map[multicast.ProcessID]*grpcEndpoint{},
		links:        map[multicast.ProcessID]*grpcLinks{},
		incarnations: map[multicast.ProcessID]uint64{},
		senders:      map[string]*sender{},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.grpc[0] = s.serve(s.gate.servers, grpc.MaxRecvMsgSize(maxMessage), grpc.MaxConcurrentStreams(maxCalls),
		grpc.StaticStreamWindowSize(flowWindow))
	s.grpc[1] = s.serve(s.gate.clients, grpc.MaxRecvMsgSize(MaxCall+envelope), grpc.MaxConcurrentStreams(maxClientCalls),
		grpc.StaticStreamWindowSize(clientWindow), grpc.InTapHandle(admitCall))
	s.framed = newFramed(s)
	s.gate.framed, s.gate.sockets = s.framed.give, s.framed.giveSocket
	s.running.Go(s.follow)
	s.gate.start()
	return s, nil
}

// streamWorkers is the number of goroutines that a gRPC server keeps for calls and links. A goroutine made
// for each call begins with a small stack, and copies it several times while it grows: a tenth of the CPU
// time of a server that creates files. When all are busy, gRPC makes goroutines for single calls.
const streamWorkers = 32

// serve starts a gRPC server for the connections of a door.
func (s *Server) serve(through *door, more ...grpc.ServerOption) *grpc.Server {
	options := []grpc.ServerOption{
		grpc.WaitForHandlers(true),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.StaticConnWindowSize(flowWindow),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.ConnectionTimeout(probeTime),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: quietTime, Timeout: probeTime}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: quietTime / 2, PermitWithoutStream: true}),
	}
	if s.pool.cfg.Credentials != nil {
		options = append(options, grpc.Creds(identified{insecure.NewCredentials()}))
	}
	server := grpc.NewServer(append(options, more...)...)
	service := wire.Transport_ServiceDesc
	service.Methods = []grpc.MethodDesc{{
		MethodName: "Call",
		Handler: func(_ any, ctx context.Context, read func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			return s.handleCall(ctx, read)
		},
	}}
	server.RegisterService(&service, s)
	s.running.Go(func() {
		if err := server.Serve(through); err != nil {
			s.pool.log.Error("server does not accept connections any more", "address", s.address, "error", err)
		}
	})
	return server
}

// Recheck ends the connections of peers with certificates that were revoked since (Credentials.SetRevoked).
func (s *Server) Recheck() { s.gate.recheck() }

// Address returns the address of the listener, with the actual port.
func (s *Server) Address() string { return s.address }

// isHere reports whether an address belongs to this server, as its listener or in Resolve.
func (s *Server) isHere(address string) bool {
	return address == s.address || address == s.pool.cfg.Known
}

// Endpoint returns the network access of a process at this address. A process has one open endpoint at a
// time.
func (s *Server) Endpoint(self multicast.ProcessID) Endpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	invariant.Check(self != controlProcess, "process 0 is the server itself: see Control")
	invariant.Check(s.endpoints[self] == nil, "process %d has two endpoints", self)
	e := &grpcEndpoint{server: s, service: newService(self)}
	s.endpoints[self] = e
	return e
}

// Close closes all endpoints and connections.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	var open []*grpcEndpoint
	for _, e := range s.endpoints {
		open = append(open, e)
	}
	s.mu.Unlock()
	var errs []error
	for _, e := range open {
		errs = append(errs, e.Close())
	}
	s.control.close()
	s.cancel()
	s.gate.close()
	s.framed.close()
	for _, g := range s.grpc {
		g.Stop()
	}
	s.running.Wait()
	return errors.Join(append(errs, s.pool.close())...)
}

// Frames takes in the packets of the links from one address; gRPC calls it. Only a server can act for
// processes.
func (s *Server) Frames(stream grpc.ClientStreamingServer[wire.Batch, wire.FramesEnd]) error {
	if info := infoOf(stream.Context()); info != nil && info.identity.Role != identity.Server {
		s.gate.refusals.Do(func() {
			s.pool.log.Warn("links refused: the peer is not a server", "address", s.address, "peer", info.identity.String())
		})
		return status.Error(codes.PermissionDenied, "only servers have links")
	}
	for {
		batch, err := stream.Recv()
		if err != nil {
			return err
		}
		if err := s.deliver(batch); err != nil {
			s.pool.log.Warn("packet refused, the peer will send again", "address", s.address, "error", err)
			return status.Error(codes.InvalidArgument, err.Error())
		}
	}
}

// deliver hands packets to their target processes, if those are here.
func (s *Server) deliver(batch *wire.Batch) error {
	for _, p := range batch.GetPackets() {
		s.mu.Lock()
		links := s.links[multicast.ProcessID(p.GetTo())]
		s.mu.Unlock()
		if links == nil {
			continue
		}
		if err := links.deliver(p); err != nil {
			return err
		}
	}
	return nil
}

// forget removes links from the network.
func (s *Server) forget(links *grpcLinks) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.links[links.self] == links {
		delete(s.links, links.self)
	}
}

// Call answers a call from another address; gRPC calls it.
func (s *Server) Call(ctx context.Context, request *wire.CallRequest) (*wire.CallReply, error) {
	if info := infoOf(ctx); info != nil {
		ctx = context.WithValue(ctx, peerKey{}, &info.identity)
	}
	reply, err := s.answer(ctx, multicast.ProcessID(request.GetTo()), request.GetRequest())
	var remote *RemoteError
	switch {
	case errors.As(err, &remote):
		return &wire.CallReply{Error: &remote.Text}, nil
	case err != nil:
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return &wire.CallReply{Reply: reply}, nil
}

// answer runs the handler of a process here.
func (s *Server) answer(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error) {
	if to == controlProcess {
		return s.control.answer(ctx, request)
	}
	e := s.endpoint(to)
	if e == nil {
		return nil, unreachable(to, "it does not run at "+s.address)
	}
	return e.answer(ctx, request)
}

// endpoint returns a process that is here, or nil.
func (s *Server) endpoint(of multicast.ProcessID) *grpcEndpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.endpoints[of]
}
