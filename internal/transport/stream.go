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
	AnyWay    Way = iota // a socket if the peer is on this host, TCP otherwise
	SharedWay            // a socket only: an authenticated Unix socket, a *net.UnixConn, for memory to share
	TCPWay               // TCP only
)

// StreamHandler serves a stream that another process has opened, until the stream ends. peer is the
// authenticated server that hosts the other process; nil: the cluster has no certificates. The handler
// decides whether that server may act for the process. A *net.UnixConn is a socket (SharedWay).
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
	c, err := p.framed.connectTo(ctx, address)
	if err != nil {
		return nil, unreachable(to, err.Error())
	}
	if way != TCPWay {
		socket, err := p.framed.socket(ctx, c, socketEnds{e.self, to})
		if err == nil {
			c.fail(errors.New("the stream is a socket of this host"))
			return socket, nil
		}
		if way == SharedWay || errors.Is(err, errNotTaken) {
			c.fail(err)
			return nil, unreachable(to, err.Error())
		}
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

// FabricOf returns the kind of a stream, FabricTCP or FabricShm; empty: it is no stream.
func FabricOf(s net.Conn) string {
	switch s.(type) {
	case *net.UnixConn:
		return FabricShm
	case stream:
		return FabricTCP
	}
	return ""
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
	handler := s.framed.streamHandler(to)
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

// streamHandler returns the handler of streams to a process; nil: there is none.
func (f *framed) streamHandler(to multicast.ProcessID) StreamHandler {
	if e := f.server.endpoint(to); e != nil {
		return e.streamHandler()
	}
	return nil
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
