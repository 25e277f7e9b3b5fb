package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// A connection that says nothing is asked after keepAlive, and given up if it does not answer within keepAliveTimeout. Etcd hangs
// up on who asks more often than every 5 s.
const (
	keepAlive        = 10 * time.Second
	keepAliveTimeout = 3 * time.Second
)

// maxReconnect is the longest pause between two tries to connect: etcd's client would wait for 2 minutes.
const maxReconnect = 2 * time.Second

// maxReply bounds what is taken from etcd in one reply, in bytes: some 4,000 servers with all that they may say of themselves.
const maxReply = 64 << 20

// refresh is how often Watch begins anew, whatever it heard: so a silent death of what is below it shows.
const refresh = 30 * time.Second

// retry is the pause before what failed is tried again.
const retry = time.Second

// Registry is one cluster's keys in etcd. Its methods may be called concurrently.
type Registry struct {
	config  Config
	logger  *slog.Logger
	refresh time.Duration

	turn   chan struct{}    // held by who uses what is below
	client *clientv3.Client // nil before the first operation
	closed bool
}

// Open prepares to speak with etcd, and does not wait for it: operations do. The error is that of Config.Validate.
func Open(config Config) (*Registry, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config.Endpoints = slices.Clone(config.Endpoints)
	if config.TLS != nil {
		config.TLS = config.TLS.Clone()
	}
	r := &Registry{config: config, logger: config.Logger, refresh: refresh, turn: make(chan struct{}, 1)}
	if r.logger == nil {
		r.logger = slog.New(slog.DiscardHandler)
	}
	if config.Password != "" && !config.secure() {
		r.logger.Warn("the password for etcd crosses the network in the clear: use https", "endpoints", config.Endpoints)
	}
	return r, nil
}

// Close ends the connections. Watch and Announce are to have ended before; other operations fail from now on.
func (r *Registry) Close() error {
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	r.closed = true
	if r.client == nil {
		return nil
	}
	err := r.client.Close()
	r.client = nil
	return err
}

// connect gives the client. The first call makes it, and logs in where there is a password: that needs etcd, and is why Open
// does not do it.
func (r *Registry) connect(ctx context.Context) (*clientv3.Client, error) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if r.closed {
		return nil, errClosed
	}
	if r.client != nil {
		return r.client, nil
	}
	// The client keeps its context, which must outlast ctx, but logging in ends with ctx.
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	client, err := clientv3.New(clientv3.Config{
		Endpoints: r.config.Endpoints, TLS: r.config.TLS, Username: r.config.Username, Password: r.config.Password,
		Context: lasting, DialTimeout: r.config.Timeout, MaxCallRecvMsgSize: maxReply,
		DialKeepAliveTime: keepAlive, DialKeepAliveTimeout: keepAliveTimeout,
		Logger: zap.NewNop(), // what it would log comes as errors, too, which are logged here
		DialOptions: []grpc.DialOption{
			grpc.WithChainUnaryInterceptor(noteCause),
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: maxReconnect},
				MinConnectTimeout: keepAliveTimeout,
			}),
		},
	})
	if !stop() && err == nil { // ctx has ended, and so has the client
		err = errors.Join(ctx.Err(), client.Close())
	}
	if err != nil {
		cancel()
		return nil, err
	}
	r.client = client
	return client, nil
}

// do runs one call of etcd within the timeout. doing says what for.
func (r *Registry) do(ctx context.Context, doing string, call func(context.Context, *clientv3.Client) error) error {
	latest := new(cause)
	bounded, cancel := context.WithTimeout(context.WithValue(ctx, causeKey{}, latest), r.config.Timeout)
	defer cancel()
	client, err := r.connect(bounded)
	if err == nil {
		err = call(bounded, client)
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("registry: %s: %w", doing, r.translate(ctx, bounded, err, latest))
}

// commit runs one transaction: then if all conditions hold, else otherwise.
func (r *Registry) commit(ctx context.Context, doing string, t transaction) (*clientv3.TxnResponse, error) {
	var response *clientv3.TxnResponse
	err := r.do(ctx, doing, func(ctx context.Context, client *clientv3.Client) (err error) {
		response, err = client.Txn(ctx).If(t.conditions...).Then(t.then...).Else(t.otherwise...).Commit()
		return err
	})
	return response, err
}

// transaction is what commit takes.
type transaction struct {
	conditions      []clientv3.Cmp
	then, otherwise []clientv3.Op
}

// key gives the key of a thing of the cluster; key("") is what all its keys begin with.
func (r *Registry) key(thing string) string { return "/globalfs/" + r.config.Cluster + "/" + thing }

type causeKey struct{}

// cause is the latest error of a connection: etcd's client forgets it when the time is over, and so would not say why a
// connection did not come about.
type cause struct{ latest atomic.Pointer[error] }

func (c *cause) or(err error) error {
	if latest := c.latest.Load(); latest != nil {
		return *latest
	}
	return err
}

// noteCause keeps the error of a call for who has a cause in its context.
func noteCause(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	err := invoke(ctx, method, request, reply, conn, options...)
	if c, ok := ctx.Value(causeKey{}).(*cause); ok && err != nil {
		c.latest.Store(&err)
	}
	return err
}

// pause waits before what failed is tried again, or until ctx ends.
func pause(ctx context.Context) {
	timer := time.NewTimer(retry)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
