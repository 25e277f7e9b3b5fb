package shm

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
)

// greeting is the last thing that travels inside of TLS. After it the connection carries plain bytes and the
// segment: the server sends nothing before the client's first plain message, so no side reads too far.
const greeting = 's'

// Client authenticates a new connection as the dialling side. The connection is fit for Config.Dial then.
// The state names the identity of the peer.
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

// Server authenticates a new connection as the listening side. The connection is fit for Endpoint.Serve then.
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
