package transport

import (
	"context"
	"fmt"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// controlProcess stands for the server at an address itself, not for a process that it hosts.
const controlProcess multicast.ProcessID = 0

// Control sets the handler of calls to the server itself, once. Before that, callers get ErrUnreachable.
func (s *Server) Control(h Handler) { s.control.Serve(h) }

// CallAddress calls the server at an address, as Endpoint.Call calls a process.
func (s *Server) CallAddress(ctx context.Context, address string, request []byte) ([]byte, error) {
	return s.control.call(ctx, request, func(ctx context.Context) ([]byte, error) {
		if s.isHere(address) {
			ctx = withoutPeer(ctx)
			return abandon(ctx, func() ([]byte, error) { return s.answer(ctx, controlProcess, request) })
		}
		return s.pool.callServer(ctx, address, request)
	})
}

// CallAddress calls the server at an address, as Endpoint.Call calls a process.
func (c *Client) CallAddress(ctx context.Context, address string, request []byte) ([]byte, error) {
	return c.service.call(ctx, request, func(ctx context.Context) ([]byte, error) {
		return c.pool.callServer(ctx, address, request)
	})
}

// callServer calls the server at another address.
func (p *pool) callServer(ctx context.Context, address string, request []byte) ([]byte, error) {
	if err := p.cfg.checkAddress(address); err != nil {
		return nil, err
	}
	reply, err := p.call(ctx, controlProcess, address, request)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return reply, nil
}
