package transport

import (
	"context"
	"fmt"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// grpcEndpoint is the network access of a process that a Server hosts.
type grpcEndpoint struct {
	server *Server
	*service
	links *grpcLinks // guarded by server.mu; nil until opened
}

func (e *grpcEndpoint) Links(incarnation uint64) (Links, error) {
	s := e.server
	s.mu.Lock()
	defer s.mu.Unlock()
	invariant.Check(e.links == nil, "process %d opens its links twice", e.self)
	if e.ctx.Err() != nil || s.closed {
		return nil, fmt.Errorf("process %d: %w", e.self, ErrClosed)
	}
	if last := s.incarnations[e.self]; incarnation <= last {
		return nil, fmt.Errorf("process %d: incarnation %d is not higher than the last one, %d", e.self, incarnation, last)
	}
	s.incarnations[e.self] = incarnation
	e.links = newGRPCLinks(s, e.self, incarnation)
	s.links[e.self] = e.links
	return e.links, nil
}

func (e *grpcEndpoint) Call(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error) {
	return e.call(ctx, request, func(ctx context.Context) ([]byte, error) {
		address, err := e.server.pool.resolve(to)
		switch {
		case err != nil:
			return nil, err
		case e.server.isHere(address):
			ctx = withoutPeer(ctx)
			return abandon(ctx, func() ([]byte, error) { return e.server.answer(ctx, to, request) })
		}
		return e.server.pool.call(ctx, to, address, request)
	})
}

func (e *grpcEndpoint) Close() error {
	s := e.server
	s.mu.Lock()
	links := e.links
	s.mu.Unlock()
	if links != nil {
		_ = links.Close()
	}
	e.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.endpoints[e.self] == e {
		delete(s.endpoints, e.self)
	}
	return nil
}
