package transport

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/wire"
	"github.com/globalfs/globalfs/pkg/multicast"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// maxCalls bounds the calls that one connection has under way; more wait.
const maxCalls = 1024

// Server is the network access of all processes at one address.
type Server struct {
	wire.UnimplementedTransportServer

	address string
	pool    *pool
	grpc    *grpc.Server
	ctx     context.Context // ends with the server
	cancel  context.CancelFunc
	running sync.WaitGroup // the senders and the gRPC server

	mu           sync.Mutex
	closed       bool
	endpoints    map[multicast.ProcessID]*grpcEndpoint
	links        map[multicast.ProcessID]*grpcLinks // the open ones
	incarnations map[multicast.ProcessID]uint64     // the last of each process
	senders      map[string]*sender
}

// Listen opens the address and answers there until Close.
func Listen(cfg Config) (*Server, error) {
	cfg.setDefaults()
	if err := cfg.checkAddress(cfg.Address); err != nil {
		return nil, err
	}
	listener, err := cfg.listen(cfg.Address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("address %s is in use by another process: stop that one or choose another port: %w", cfg.Address, err)
	} else if err != nil {
		return nil, fmt.Errorf("address %s: %w", cfg.Address, err)
	}
	s := &Server{
		address:      listener.Addr().String(),
		pool:         newPool(cfg),
		endpoints:    map[multicast.ProcessID]*grpcEndpoint{},
		links:        map[multicast.ProcessID]*grpcLinks{},
		incarnations: map[multicast.ProcessID]uint64{},
		senders:      map[string]*sender{},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.grpc = grpc.NewServer(
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxConcurrentStreams(maxCalls),
		grpc.WaitForHandlers(true),
		grpc.StaticStreamWindowSize(flowWindow),
		grpc.StaticConnWindowSize(flowWindow),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: quietTime, Timeout: probeTime}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: quietTime / 2, PermitWithoutStream: true}),
	)
	wire.RegisterTransportServer(s.grpc, s)
	s.running.Go(func() {
		if err := s.grpc.Serve(listener); err != nil {
			s.pool.log.Error("server does not accept connections any more", "address", s.address, "error", err)
		}
	})
	return s, nil
}

// Address is where the server listens, with the port that it got.
func (s *Server) Address() string { return s.address }

// Endpoint gives a process at this address its access. A process has one open endpoint at a time.
func (s *Server) Endpoint(self multicast.ProcessID) Endpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
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
	s.cancel()
	s.grpc.Stop()
	s.running.Wait()
	return errors.Join(append(errs, s.pool.close())...)
}

// sender gives the way to an address.
func (s *Server) sender(address string) *sender {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.senders[address]
	if w == nil {
		w = newSender(s, address)
		s.senders[address] = w
		if !s.closed {
			s.running.Go(func() { w.run(s.ctx) })
		}
	}
	return w
}

// Frames takes in what the links from one address bring; it is called by gRPC.
func (s *Server) Frames(stream grpc.ClientStreamingServer[wire.Batch, wire.FramesEnd]) error {
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

// deliver hands packets to the processes that they are for, where those are here.
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

// forget takes links out of the network.
func (s *Server) forget(links *grpcLinks) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.links[links.self] == links {
		delete(s.links, links.self)
	}
}

// Call answers a call from another address; it is called by gRPC.
func (s *Server) Call(ctx context.Context, request *wire.CallRequest) (*wire.CallReply, error) {
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

// answer lets a process here answer a request.
func (s *Server) answer(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error) {
	s.mu.Lock()
	e := s.endpoints[to]
	s.mu.Unlock()
	if e == nil {
		return nil, unreachable(to, "it does not run at "+s.address)
	}
	return e.answer(ctx, request)
}
