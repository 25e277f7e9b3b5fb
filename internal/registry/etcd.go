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

// A connection that says nothing is asked after keepAlive, and given up if it does not answer within
// keepAliveTimeout. Etcd hangs up on who asks more often than every 5 s.
const (
	keepAlive        = 10 * time.Second
	keepAliveTimeout = 3 * time.Second
)

// maxReconnect is the longest pause between two tries to connect: etcd's client would wait for 2 minutes.
const maxReconnect = 2 * time.Second

// maxReply bounds what is taken from etcd in one reply, in bytes: some 4,000 servers with all that they may
// say of themselves.
const maxReply = 64 << 20

// refresh is how often Watch begins anew, whatever it heard: so a silent death of what is below it shows.
const refresh = 30 * time.Second

// retry is the pause before what failed is tried again.
const retry = time.Second

// Etcd is one cluster's keys in etcd: a Registry for servers on several hosts. Its methods may be called
// concurrently.
type Etcd struct {
	config  Config
	logger  *slog.Logger
	refresh time.Duration
	client  *clientv3.Client
}

// OpenEtcd prepares to speak with etcd, and does not wait for it: operations do.
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
		Logger: zap.NewNop(), // what it would log comes as errors, too, which are logged here
	})
	if err != nil {
		return nil, fmt.Errorf("registry: prepare for etcd at %s: %w", strings.Join(config.Endpoints, ", "), err)
	}
	return r, nil
}

// Close ends the connections. Watch and Announce are to have ended before; other operations fail from now on.
func (r *Etcd) Close() error {
	if r.closed() {
		return nil
	}
	return r.client.Close()
}

func (r *Etcd) closed() bool { return r.client.Ctx().Err() != nil }

// do runs one call of etcd within the timeout. doing says what for.
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

// transaction is what commit takes.
type transaction struct {
	conditions      []clientv3.Cmp
	then, otherwise []clientv3.Op
}

// key gives the key of a thing of the cluster; key("") is what all its keys begin with.
func (r *Etcd) key(thing string) string { return "/globalfs/" + r.config.Cluster + "/" + thing }

type causeKey struct{}

// cause is the latest error of a connection: etcd's client forgets it when the time is over, and so would not
// say why a connection did not come about.
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
