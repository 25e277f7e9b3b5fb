package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Caller asks processes: a transport's endpoint. The request and the reply are not changed
// afterwards by either side.
type Caller interface {
	Call(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error)
}

// Config of a Client. Zero durations take the defaults.
type Config struct {
	Cluster *topology.Cluster // as it is now: see Update
	Region  topology.Region   // where the client is: replicas near it are asked first
	Caller  Caller
	// Blocks gives the store of a partition's blocks: what is put is in all its regions that can be reached, a majority at least.
	Blocks func(partition uint16) block.Store
	// Usage gives the bytes of disk of the region's storage, all copies counted. Nil: unknown.
	Usage func(ctx context.Context) (total, free uint64, err error)
	// Linearizable makes every operation see all that ended before it began anywhere (T 3.4.1), at the
	// price of a quorum for each read. Otherwise reads are causally consistent.
	Linearizable bool
	Timeout      time.Duration // of one operation
	// Hard makes operations wait until the replicas answer, however long that takes (C6).
	Hard   bool
	Renew  time.Duration // between renewals of sessions: well below the lease of the replicas
	Logger *slog.Logger  // nil: slog.Default()
	// Resume goes on with the sessions of a client that was suspended, or has died; nil: begin anew.
	Resume *State
}

// Defaults of Config.
const (
	DefaultTimeout = 30 * time.Second
	DefaultRenew   = 10 * time.Second
)

// Validate names the field that is wrong and the remedy.
func (cfg *Config) Validate() error {
	switch {
	case cfg.Cluster == nil:
		return fmt.Errorf("client: no cluster: set Cluster")
	case cfg.Caller == nil:
		return fmt.Errorf("client: no caller: set Caller to a transport's endpoint")
	case cfg.Blocks == nil:
		return fmt.Errorf("client: no block stores: set Blocks")
	case cfg.Timeout < 0 || cfg.Renew < 0:
		return fmt.Errorf("client: timeout %v, renewal %v: must not be negative", cfg.Timeout, cfg.Renew)
	}
	if err := cfg.Cluster.Validate(); err != nil {
		return fmt.Errorf("client: %w", err)
	}
	return nil
}

// Client is one client. It owns two goroutines: one renews its sessions, one brings blocks after files that it has moved.
type Client struct {
	cfg        Config
	cluster    atomic.Pointer[topology.Cluster] // the newest
	partitions []*partition                     // by id
	vector     vectorClock
	events     events

	located *recent[posix.Ino, uint16]  // inodes that are, or were believed to be, away from home
	foreign *recent[Name, posix.Ino]    // what names name in another partition
	rules   *recent[posix.Ino, placing] // of directories that have a rule
	spans   *recent[posix.Ino, *span]   // where the content of files is that are looked at

	bringing  chan struct{}  // holds a token for each block on its way after its file
	following chan movedFile // whose blocks are to come after them

	lives     atomic.Pointer[lifetime]
	suspended atomic.Bool // nothing may be sent
	running   sync.WaitGroup
}

// lifetime is the time between New, or Resume, and Suspend or Close.
type lifetime struct {
	context.Context
	end context.CancelFunc
}

// life gives the client's present, or last, lifetime.
func (c *Client) life() context.Context { return c.lives.Load() }

// New makes a client. It speaks to nobody before the first operation.
func New(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.Renew == 0 {
		cfg.Renew = DefaultRenew
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	c := &Client{
		cfg: cfg, events: newEvents(cfg.Logger),
		located: newRecent[posix.Ino, uint16](maxLocations),
		foreign: newRecent[Name, posix.Ino](maxForeign),
		rules:   newRecent[posix.Ino, placing](maxRules),
		spans:   newRecent[posix.Ino, *span](maxSpans), bringing: make(chan struct{}, parallel),
		following: make(chan movedFile, maxFollowing),
	}
	c.cluster.Store(cfg.Cluster)
	c.vector.max = len(cfg.Cluster.Partitions)
	for i := range cfg.Cluster.Partitions {
		c.partitions = append(c.partitions, newPartition(&cfg, &cfg.Cluster.Partitions[i]))
	}
	if err := c.adopt(cfg.Resume); err != nil {
		return nil, err
	}
	c.start(cfg.Resume != nil)
	return c, nil
}

// start begins a lifetime; resumed: there are sessions that nobody renewed for a while.
func (c *Client) start(resumed bool) {
	l := &lifetime{}
	l.Context, l.end = context.WithCancel(context.Background())
	c.lives.Store(l)
	c.running.Go(func() { c.renewUntilClosed(l, resumed) })
	c.running.Go(func() { c.followUntilClosed(l) })
}

// closeTimeout bounds how long Close says goodbye: a session that does not hear it
// ends with its lease.
const closeTimeout = 2 * time.Second

// Close ends the sessions, unless the client is suspended. No operation may be running or begin.
func (c *Client) Close() error {
	if c.life().Err() != nil {
		return nil
	}
	c.lives.Load().end()
	c.running.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	c.closeSessions(ctx)
	return nil
}

// Cluster gives the cluster as the client knows it.
func (c *Client) Cluster() *topology.Cluster { return c.cluster.Load() }

// Timeout gives the bound of one operation, or of what comes after the end of its caller's context if the client is hard.
func (c *Client) Timeout() time.Duration { return c.cfg.Timeout }

// Hard reports whether operations wait without bound.
func (c *Client) Hard() bool { return c.cfg.Hard }

// operation bounds one operation (C6).
func (c *Client) operation(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.cfg.Hard {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.cfg.Timeout)
}

// ErrAbandoned as the cause of a context's end says that nobody waits for the outcome any more: also an update that was multicast
// ends at once.
var ErrAbandoned = errors.New("nobody waits for the outcome")

// outcomeTime is the context in which the outcome of an update is awaited that was begun in ctx: only its deadline counts and, if
// it has none, its end some time ago (C6).
func (c *Client) outcomeTime(ctx context.Context) (context.Context, context.CancelFunc) {
	var waiting context.Context
	var end context.CancelFunc
	deadline, bounded := ctx.Deadline()
	if bounded {
		waiting, end = context.WithDeadline(c.life(), deadline)
	} else {
		waiting, end = context.WithCancel(c.life())
	}
	unlink := context.AfterFunc(ctx, func() {
		switch {
		case context.Cause(ctx) == ErrAbandoned:
			end()
		case !bounded:
			timer := time.AfterFunc(c.cfg.Timeout, end)
			context.AfterFunc(waiting, func() { timer.Stop() })
		}
	})
	return waiting, func() {
		unlink()
		end()
	}
}
