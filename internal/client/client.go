// Package client is a user of the file system: it routes each operation to the partition of its
// inode (thesis sections 3.4, 3.5.1), numbers updates in a session so that a retry through another
// replica is executed once, carries the vector clock that makes reads causal (T 3.4.1), and moves file
// contents between callers and the block stores (T 3.4.2).
//
// Every operation returns a posix.Code as its error, or nil. All methods may be called
// concurrently.
package client

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/replica"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Defaults of Config.
const (
	DefaultTimeout = 30 * time.Second
	DefaultRenewal = 5 * time.Second
)

// Caller reaches the replicas. Close is called when the client closes.
type Caller interface {
	Call(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error)
	Close() error
}

// Config of a client.
type Config struct {
	Cluster *topology.Cluster
	Region  topology.Region // where the client is: it asks the nearest replica
	Caller  Caller
	Blocks  []block.Store // by partition
	// Capacity gives what the storage of a partition's files can hold and what of it is free, in bytes.
	Capacity func(ctx context.Context, partition uint16) (total, free uint64, err error)
	Timeout  time.Duration // of an operation whose context has no deadline; 0: DefaultTimeout
	Renewal  time.Duration // between two renewals of a session; 0: DefaultRenewal
	Logger   *slog.Logger
}

// Client is a user of the file system.
type Client struct {
	cfg        Config
	partitions []*partition
	session    uint64        // part of the ids of blocks that it writes
	block      atomic.Uint64 // number of the newest block

	mu     sync.Mutex
	vector replica.Vector // GUARDED_BY mu

	cancel  context.CancelFunc
	running sync.WaitGroup
}

// New makes a client. It speaks to nobody before its first operation.
func New(cfg Config) (*Client, error) {
	if len(cfg.Blocks) != len(cfg.Cluster.Partitions) {
		return nil, fmt.Errorf("client: %d block stores for %d partitions", len(cfg.Blocks), len(cfg.Cluster.Partitions))
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.Renewal == 0 {
		cfg.Renewal = DefaultRenewal
	}
	c := &Client{cfg: cfg, session: newSession(), vector: make(replica.Vector, len(cfg.Cluster.Partitions))}
	for i := range cfg.Cluster.Partitions {
		c.partitions = append(c.partitions, newPartition(c, &cfg.Cluster.Partitions[i]))
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	c.running.Go(func() { c.renewals(ctx) })
	return c, nil
}

// newSession gives a number that no other session ever has, but by an accident of
// 1 in 2^48 for each pair.
func newSession() uint64 {
	var b [8]byte
	for {
		_, _ = rand.Read(b[2:]) // never fails
		if s := binary.BigEndian.Uint64(b[:]); s != 0 {
			return s
		}
	}
}

// Close ends the sessions, as far as that is possible at once, and the caller.
func (c *Client) Close() error {
	c.cancel()
	c.running.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	var closing sync.WaitGroup
	for _, p := range c.partitions {
		closing.Go(func() { p.closeSession(ctx) })
	}
	closing.Wait()
	return c.cfg.Caller.Close()
}

// Vector gives what this client has seen. Another client that adopts it reads nothing older.
func (c *Client) Vector() replica.Vector {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append(replica.Vector(nil), c.vector...)
}

// Adopt makes this client see at least what v has seen: what it reads from now on is not older.
func (c *Client) Adopt(v replica.Vector) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.vector = c.vector.Merge(v)
}

// bound gives an operation its deadline if the caller did not.
func (c *Client) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.cfg.Timeout)
}

// of gives the partition of an inode.
func (c *Client) of(i posix.Ino) (*partition, error) {
	if p := int(i.Partition()); p < len(c.partitions) {
		return c.partitions[p], nil
	}
	return nil, posix.ESTALE
}

// code makes the error that callers see of any that happened on the way.
func (c *Client) code(err error) error {
	var code posix.Code
	switch {
	case err == nil:
		return nil
	case errors.As(err, &code):
		return code
	case errors.Is(err, context.DeadlineExceeded):
		return posix.ETIMEDOUT
	case errors.Is(err, context.Canceled):
		return posix.EINTR
	case errors.Is(err, block.ErrNoSpace):
		return posix.ENOSPC
	}
	c.cfg.Logger.Error("operation failed: see whether the servers of the region run and are reachable", "error", err)
	return posix.EIO
}
