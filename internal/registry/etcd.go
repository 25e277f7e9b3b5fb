package registry

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// A silent connection is pinged after keepAlive, and closed if no answer arrives within keepAliveTimeout.
// Etcd closes connections that ping more often than every 5 s.
const (
	keepAlive        = 10 * time.Second
	keepAliveTimeout = 3 * time.Second
)

// maxReconnect is the longest pause between two tries to connect: etcd's client would wait for 2 minutes.
const maxReconnect = 2 * time.Second

// maxReply bounds one reply of etcd, in bytes: some 4,000 servers with the largest Presence.Info.
const maxReply = 64 << 20

// refresh is the interval at which Watch starts anew in any case, to detect silent failures below it.
const refresh = 30 * time.Second

// retry is the pause before a failed attempt is repeated.
const retry = time.Second

// Etcd is the access to one cluster's keys in etcd: a Registry for servers on several hosts. Its methods may
// be called concurrently.
type Etcd struct {
	config  Config
	logger  *slog.Logger
	refresh time.Duration
	client  *clientv3.Client
}

// OpenEtcd prepares the connections to etcd, and does not wait for etcd; operations wait.
func OpenEtcd(config Config) (*Etcd, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config.Endpoints = slices.Clone(config.Endpoints)
	r := &Etcd{config: config, logger: config.Logger, refresh: refresh}
	if r.logger == nil {
		r.logger = slog.New(slog.DiscardHandler)
	}
	dial := []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(noteCause),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: maxReconnect},
			MinConnectTimeout: keepAliveTimeout,
		}),
	}
	if config.Password != "" {
		l := &login{user: config.Username, password: config.Password}
		dial = append(dial, grpc.WithPerRPCCredentials(l), grpc.WithChainUnaryInterceptor(l.intercept))
		if !config.secure() {
			r.logger.Warn("the password for etcd crosses the network in the clear: use https", "endpoints", config.Endpoints)
		}
	}
	var err error
	r.client, err = clientv3.New(clientv3.Config{
		Endpoints: config.Endpoints, TLS: config.TLS.Clone(), DialOptions: dial, MaxCallRecvMsgSize: maxReply,
		DialKeepAliveTime: keepAlive, DialKeepAliveTimeout: keepAliveTimeout,
		Logger: zap.NewNop(), // its messages also arrive as errors, which are logged here
	})
	if err != nil {
		return nil, fmt.Errorf("registry: prepare for etcd at %s: %w", strings.Join(config.Endpoints, ", "), err)
	}
	return r, nil
}

// Close ends the connections. Watch and Announce must have ended before; other operations fail from now on.
func (r *Etcd) Close() error {
	if r.closed() {
		return nil
	}
	return r.client.Close()
}

func (r *Etcd) closed() bool { return r.client.Ctx().Err() != nil }

// do runs one call of etcd within the timeout. doing describes it for errors.
func (r *Etcd) do(ctx context.Context, doing string, call func(context.Context) error) error {
	if r.closed() {
		return fmt.Errorf("registry: %s: %w", doing, errClosed)
	}
	latest := new(cause)
	bounded, cancel := context.WithTimeout(context.WithValue(ctx, causeKey{}, latest), r.config.Timeout)
	defer cancel()
	err := call(bounded)
	if err == nil {
		return nil
	}
	return fmt.Errorf("registry: %s: %w", doing, r.translate(ctx, bounded, err, latest))
}

// commit runs one transaction: then if all conditions hold, else otherwise.
func (r *Etcd) commit(ctx context.Context, doing string, t transaction) (*clientv3.TxnResponse, error) {
	var response *clientv3.TxnResponse
	err := r.do(ctx, doing, func(ctx context.Context) (err error) {
		response, err = r.client.Txn(ctx).If(t.conditions...).Then(t.then...).Else(t.otherwise...).Commit()
		return err
	})
	return response, err
}

// transaction is the argument of commit.
type transaction struct {
	conditions      []clientv3.Cmp
	then, otherwise []clientv3.Op
}

// key returns the key of a thing of the cluster; key("") is the prefix of all its keys.
func (r *Etcd) key(thing string) string { return "/globalfs/" + r.config.Cluster + "/" + thing }

type causeKey struct{}

// cause is the latest error of a connection: etcd's client forgets it at the timeout, and its own error would
// not contain the reason why a connection failed.
type cause struct{ latest atomic.Pointer[error] }

func (c *cause) or(err error) error {
	if latest := c.latest.Load(); latest != nil {
		return *latest
	}
	return err
}

// noteCause stores the error of a call in the cause of its context, if there is one.
func noteCause(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	err := invoke(ctx, method, request, reply, conn, options...)
	if c, ok := ctx.Value(causeKey{}).(*cause); ok && err != nil {
		c.latest.Store(&err)
	}
	return err
}
