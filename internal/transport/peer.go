package transport

import (
	"context"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/globalfs/globalfs/internal/identity"
)

// peerKey is the key of the caller's identity in a handler's context.
type peerKey struct{}

// PeerOf returns the identity of the caller of a handler. It returns false for a call of this process itself,
// whichever request led to that call, and in a cluster without certificates.
func PeerOf(ctx context.Context) (identity.Identity, bool) {
	id, ok := ctx.Value(peerKey{}).(*identity.Identity)
	if !ok || id == nil {
		return identity.Identity{}, false
	}
	return *id, true
}

// withoutPeer returns the context of a call to a process of this server without the identity of a peer. A
// handler that calls a process here to answer a peer's call makes that call for itself.
func withoutPeer(ctx context.Context) context.Context {
	if ctx.Value(peerKey{}) == nil {
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, (*identity.Identity)(nil))
}

// peerInfo holds the identity and the account of the peer of a connection; gRPC hands it to every call.
type peerInfo struct {
	credentials.CommonAuthInfo
	identity identity.Identity
	account  *account // nil for servers, which are not bounded
}

// AuthType implements credentials.AuthInfo.
func (*peerInfo) AuthType() string { return "tls" }

// infoOf returns the information on the peer of a stream, nil without certificates.
func infoOf(stream context.Context) *peerInfo {
	p, ok := peer.FromContext(stream)
	if !ok {
		return nil
	}
	info, _ := p.AuthInfo.(*peerInfo)
	return info
}

// identified are the credentials of connections from the gate, with their handshake done.
type identified struct {
	credentials.TransportCredentials
}

// ServerHandshake implements credentials.TransportCredentials.
func (identified) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return c, c.(*guest).info, nil
}
