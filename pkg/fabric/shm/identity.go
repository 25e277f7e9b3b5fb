package shm

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
)

// greeting is the last byte of the TLS stream. After it the connection carries plain bytes and the segment.
// The server sends nothing between the greeting and the client's first plain message, so the TLS layer of
// neither side reads plain bytes.
const greeting = 's'

// Client authenticates a new connection as the dialling side. After that, Config.Dial may return the
// connection. The returned state has the certificates of the peer.
func Client(ctx context.Context, conn *net.UnixConn, cfg *tls.Config) (tls.ConnectionState, error) {
	session := tls.Client(conn, cfg)
	if err := session.HandshakeContext(ctx); err != nil {
		return tls.ConnectionState{}, fmt.Errorf("shm: TLS handshake: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	var b [1]byte
	if _, err := session.Read(b[:]); err != nil || b[0] != greeting {
		return tls.ConnectionState{}, fmt.Errorf("shm: the server has refused the client after the TLS handshake (%d, %w): see its log", b[0], err)
	}
	return session.ConnectionState(), nil
}

// Server authenticates a new connection as the listening side. After that, the connection may be passed to
// Endpoint.Serve.
func Server(ctx context.Context, conn *net.UnixConn, cfg *tls.Config) (tls.ConnectionState, error) {
	session := tls.Server(conn, cfg)
	if err := session.HandshakeContext(ctx); err != nil {
		return tls.ConnectionState{}, fmt.Errorf("shm: TLS handshake: %w", err)
	}
	if _, err := session.Write([]byte{greeting}); err != nil {
		return tls.ConnectionState{}, fmt.Errorf("shm: TLS greeting: %w", err)
	}
	return session.ConnectionState(), nil
}
