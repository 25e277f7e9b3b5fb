package transport

import (
	"context"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/globalfs/globalfs/internal/identity"
)

// peerKey is where a handler's context has the identity of who calls.
type peerKey struct{}

// PeerOf gives who has made the call that a handler answers. It is false for a call of this process itself,
// whoever asked for what led to it, and in a cluster without certificates.
func PeerOf(ctx context.Context) (identity.Identity, bool) {
	id, ok := ctx.Value(peerKey{}).(*identity.Identity)
	if !ok || id == nil {
		return identity.Identity{}, false
	}
	return *id, true
}

// asOurselves is the context of a call to a process here: what is asked for while a peer's call is answered,
// we ask.
func asOurselves(ctx context.Context) context.Context {
	if ctx.Value(peerKey{}) == nil {
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, (*identity.Identity)(nil))
}

// peerInfo is what a connection knows of its peer; gRPC hands it to every call.
type peerInfo struct {
	credentials.CommonAuthInfo
	identity identity.Identity
	account  *account // nil for servers, which are not bounded
}

// AuthType is credentials.AuthInfo's.
func (*peerInfo) AuthType() string { return "tls" }

// infoOf gives what is known of who is at the other end of a stream, nil without certificates.
func infoOf(stream context.Context) *peerInfo {
	p, ok := peer.FromContext(stream)
	if !ok {
		return nil
	}
	info, _ := p.AuthInfo.(*peerInfo)
	return info
}

// identified are the credentials of connections that come from the gate, with their handshake done.
type identified struct {
	credentials.TransportCredentials
}

// ServerHandshake is credentials.TransportCredentials'.
func (identified) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return c, c.(*guest).info, nil
}
