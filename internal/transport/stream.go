package transport

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Way selects the connection under a stream.
type Way uint8

// The ways.
const (
	AnyWay    Way = iota // shared memory if the peer is on this host, TCP otherwise
	SharedWay            // shared memory only
	TCPWay               // TCP only
)

// StreamHandler serves a stream that another process has opened, until the stream ends. peer is the
// authenticated server that hosts the other process; nil: the cluster has no certificates. The handler
// decides whether that server may act for the process.
type StreamHandler func(from multicast.ProcessID, peer *identity.Identity, stream net.Conn)

// Streams is an Endpoint that carries streams of bytes between processes.
type Streams interface {
	// Stream opens a stream to another process. Bytes leave at each Write.
	Stream(ctx context.Context, to multicast.ProcessID, way Way) (net.Conn, error)
	// ServeStreams sets the handler of streams that others open. Before that they are refused.
	ServeStreams(h StreamHandler)
}

var _ Streams = (*grpcEndpoint)(nil)

// Stream implements Streams.
func (e *grpcEndpoint) Stream(ctx context.Context, to multicast.ProcessID, way Way) (net.Conn, error) {
	p := e.server.pool
	address, err := p.resolve(to)
	switch {
	case err != nil:
		return nil, err
	case e.server.isHere(address) || p.framed == nil:
		return nil, unreachable(to, "there are no streams to "+address)
	}
	c, err := p.framed.stream(ctx, address, way)
	if err != nil {
		return nil, unreachable(to, err.Error())
	}
	body := varint.AppendUint(varint.AppendUint(nil, e.self), to)
	if err := c.send(ctx, append(appendHead(nil, kindStream, 0, len(body)), body...), nil); err != nil {
		c.fail(err)
		return nil, unreachable(to, err.Error())
	}
	opened := c.framedConn.stream()
	c.keep(nil)
	return opened, nil
}

// FabricOf returns the kind of the connection under a stream, FabricTCP or FabricShm; empty: it is no stream.
func FabricOf(s net.Conn) string {
	of, ok := s.(stream)
	switch {
	case !ok:
		return ""
	case of.shared:
		return FabricShm
	}
	return FabricTCP
}

// stream opens a connection for a stream to a server. With SharedWay, a connection without shared memory is
// an error.
func (p *framedProvider) stream(ctx context.Context, address string, way Way) (*caller, error) {
	if way == TCPWay {
		return p.connectTo(ctx, address)
	}
	c, err := p.connect(ctx, address)
	if err == nil && way == SharedWay && !c.shared {
		err = errors.New(address + " is reached by TCP only, and shared memory is demanded: is it on this host?")
		c.fail(err)
	}
	return c, err
}

// stream serves a connection that becomes a stream. Only a server can act for processes.
func (s *session) stream(h head) error {
	if s.info != nil && s.info.identity.Role != identity.Server {
		return refusal("only servers have streams")
	}
	body, err := s.body(h)
	if err != nil {
		return err
	}
	r := varint.NewReader(body)
	from, to := multicast.ProcessID(r.Uint32()), multicast.ProcessID(r.Uint32())
	if r.Done() != nil {
		return fmt.Errorf("%w: a stream cannot be read", errFormat)
	}
	var handler StreamHandler
	if e := s.framed.server.endpoint(to); e != nil {
		handler = e.streamHandler()
	}
	if handler == nil {
		return unreachable(to, "it takes no streams")
	}
	var peer *identity.Identity
	if s.info != nil {
		peer = &s.info.identity
	}
	handler(from, peer, s.framedConn.stream())
	return errStreamEnded
}

// errStreamEnded is the regular end of a stream.
var errStreamEnded = errors.New("the stream has ended")

// stream is a connection without messages.
type stream struct{ *framedConn }

// stream ends the messages of a connection, after those that wait.
func (c *framedConn) stream() net.Conn {
	c.flush()
	c.mu.Lock()
	c.raw = true
	c.mu.Unlock()
	return stream{c}
}

func (c *framedConn) isRaw() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.raw
}

// Read implements net.Conn.
func (s stream) Read(b []byte) (int, error) { return s.in.Read(b) }

// Close implements net.Conn.
func (s stream) Close() error {
	s.fail(errStreamEnded)
	return nil
}
