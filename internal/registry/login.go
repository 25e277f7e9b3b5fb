package registry

import (
	"context"
	"errors"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// login adds the user's token to each call, and gets a token when etcd requires it: at first, when the token
// has expired, and when a restarted etcd has forgotten it. The client library has this function, too, but it
// sends the old token with the request for a new one. Etcd 3.4 refuses that, and the library repeats the
// request until the timeout.
type login struct {
	user, password string
	token          atomic.Pointer[string]
}

// GetRequestMetadata returns the token, except for the request for a token.
func (l *login) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token := l.token.Load()
	info, known := credentials.RequestInfoFromContext(ctx)
	if token == nil || known && info.Method == etcdserverpb.Auth_Authenticate_FullMethodName {
		return nil, nil
	}
	return map[string]string{rpctypes.TokenFieldNameGRPC: *token}, nil
}

// RequireTransportSecurity returns false: an etcd on the same host needs no TLS.
func (l *login) RequireTransportSecurity() bool { return false }

// intercept makes a call, and repeats it after a login if etcd requires one.
func (l *login) intercept(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	err := invoke(ctx, method, request, reply, conn, options...)
	if method == etcdserverpb.Auth_Authenticate_FullMethodName || !asksForLogin(err) {
		return err
	}
	answer, err := etcdserverpb.NewAuthClient(conn).Authenticate(ctx,
		&etcdserverpb.AuthenticateRequest{Name: l.user, Password: l.password}, grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	l.token.Store(&answer.Token)
	return invoke(ctx, method, request, reply, conn, options...)
}

func asksForLogin(err error) bool {
	known := rpctypes.Error(err)
	return errors.Is(known, rpctypes.ErrUserEmpty) || errors.Is(known, rpctypes.ErrInvalidAuthToken) || errors.Is(known, rpctypes.ErrAuthOldRevision)
}
