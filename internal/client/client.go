package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/client/notice"
	"github.com/globalfs/globalfs/internal/client/route"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/metrics"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
)

// Caller calls processes: a transport's endpoint.
type Caller = route.Caller

// ErrAbandoned, as the cause of the end of a context, means that no caller waits for the outcome any more
// (C6).
var ErrAbandoned = route.ErrAbandoned

// Config of a Client. Zero durations take the defaults.
type Config struct {
	Cluster *topology.Cluster // the present cluster; Update replaces it
	Region  topology.Region   // the client's region: the client queries the nearest replicas first
	Caller  Caller
	// Blocks returns the block store of a partition. Put of this store returns when the block is in all
	// reachable regions of the partition, and at least in a majority of its regions.
	Blocks func(partition uint16) block.Store
	// Usage returns the total and the free bytes of the disks of the region's storage, with all copies
	// counted. nil: unknown.
	Usage func(ctx context.Context) (total, free uint64, err error)
	// WholeUsage is Usage for all regions together. nil: StatFS uses Usage instead.
	WholeUsage func(ctx context.Context) (total, free uint64, err error)
	// Linearizable makes every operation see all operations, of all clients, that ended before it began (T
	// 3.4.1). Each read then needs the answer of a quorum. Without it, reads are causally consistent.
	Linearizable bool
	Timeout      time.Duration // time limit of one operation
	// Hard makes operations wait until the replicas answer, however long that takes (C6).
	Hard   bool
	Renew  time.Duration // interval of the renewals of sessions: well below the lease of the replicas
	Logger *slog.Logger  // nil: slog.Default()
	// CacheNames makes the client cache names and attributes while a replica reports the changes of their
	// partition. Lookups of cached names need no call. A linearizable client caches nothing.
	CacheNames bool
	// Delegate lets the client hold directories that it makes, or in which it works alone. It answers
	// changes in these directories before the servers have ordered them (package delegate). A linearizable
	// client holds none.
	Delegate bool
	// Grants returns the grants that all replicas of a partition support, and that the client may request.
	// nil: NumberedGrants in all partitions.
	Grants func(partition uint16) Grants
	// Journal records the changes that the client has answered and the servers have not ordered. If the
	// process dies, the client that resumes this one sends them (package journal). The zero Journal records
	// nothing.
	Journal Journal
	// Resume is the state of a suspended or dead client whose sessions this client continues. nil: the
	// client begins without sessions.
	Resume *State
}

// Defaults of Config.
const (
	DefaultTimeout = 30 * time.Second
	DefaultRenew   = 10 * time.Second
)

// Validate returns an error that names the invalid field and the remedy.
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

// complete validates the configuration and sets the defaults.
func (cfg *Config) complete() error {
	if err := cfg.Validate(); err != nil {
		return err
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
	return nil
}

// Client is one client of a cluster. Its operations are the methods of its parts. It owns two goroutines: one
// renews sessions, and one copies blocks to the partitions of moved files.
type Client struct {
	*Names
	*Attributes
	*Handles
	*Reader
	*Writer
	*Copier
	*Blocks
	*Locks
	*Placing
	*Collection
	*Persister

	common
}

// common is the state that all parts of a client share.
type common struct {
	cfg     *Config
	router  *router
	notices *notice.Log
	leases  *leases
	losses  *losses
}

// New returns a client. It sends nothing before the first operation, unless it resumes another client.
func New(cfg Config) (*Client, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	from, err := cfg.resumed()
	if err != nil {
		return nil, err
	}
	part := common{cfg: &cfg, notices: notice.New(cfg.Logger), leases: newLeases(&cfg)}
	part.losses = &losses{report: part.leases.report}
	routes, err := route.New(route.Config{
		Cluster: cfg.Cluster, Region: cfg.Region, Caller: cfg.Caller, Linearizable: cfg.Linearizable,
		Timeout: cfg.Timeout, Hard: cfg.Hard, Renew: cfg.Renew, Notices: part.notices,
		Executed: part.leases.executed,
	}, from)
	if err != nil {
		return nil, err
	}
	part.leases.router = routes
	part.router = &router{Router: routes, delegations: newDelegations(&cfg, routes, part.losses, part.notices.Rarely)}
	part.leases.delegations = part.router.delegations
	blocks := newBlocks(part)
	if d := part.router.delegations; d != nil {
		part.router.waiting, d.waiting.put, d.waiting.putAll = d.waiting, blocks.put, blocks.putAll
	}
	if err := part.router.delegations.restore(cfg.Journal.Logs); err != nil {
		return nil, err
	}
	if cfg.Resume != nil {
		part.leases.resume(cfg.Resume.Streams)
		part.losses.adopt(cfg.Resume.Losses)
	}
	reader := newReader(part, blocks)
	copier := newCopier(part, blocks, reader)
	names := newNames(part, copier)
	c := &Client{
		Names: names, Attributes: &Attributes{part}, Handles: &Handles{part, names}, Reader: reader, Writer: &Writer{part, blocks},
		Copier: copier, Blocks: blocks, Locks: &Locks{part}, Placing: &Placing{part, names}, Collection: &Collection{part},
		Persister: &Persister{part, blocks}, common: part,
	}
	c.router.Go(copier.followMoved)
	return c, nil
}

// closeTimeout bounds the time in which Close ends the sessions. A session that a partition does not end now
// ends with its lease.
const closeTimeout = 2 * time.Second

// Close ends the sessions, unless the client is suspended. No operation may run, or begin later. If the
// Journal has changes that are not ordered, Close leaves the sessions to the client that will order them.
func (c *Client) Close() error {
	if d := c.router.delegations; d != nil && d.journal != nil && d.unordered() > 0 {
		c.router.Suspend()
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	c.router.Close(ctx)
	return nil
}

// Cluster returns the description of the cluster that the client uses.
func (c *Client) Cluster() *topology.Cluster { return c.router.Cluster() }

// At returns the partition in which an inode is, as far as the client knows. ok is false if the cluster does
// not have that partition.
func (c *Client) At(ino posix.Ino) (partition uint16, ok bool) {
	partition, err := c.router.At(ino)
	return partition, err == nil
}

// IsFar reports whether the partition of an inode, as far as the client knows it, has a replica outside of
// the client's region.
func (c *Client) IsFar(ino posix.Ino) bool {
	partition, ok := c.At(ino)
	return ok && !c.router.Cluster().IsNear(partition, c.cfg.Region)
}

// Update replaces the description of the cluster, for example after the replacement of replicas. Operations
// under way use the new replicas in their next round.
func (c *Client) Update(cluster *topology.Cluster) {
	c.Blocks.grow(cluster)
	c.leases.grow(cluster)
	c.router.SetCluster(cluster) // last: then operations find all the rest for a new partition
}

// Outdated returns a channel that receives when the client has met a partition that its description of the
// cluster lacks. The caller must then call Update with a newer description.
func (c *Client) Outdated() <-chan struct{} { return c.router.Outdated() }

// Timeout returns the time limit of one operation. For a hard client it limits only the work after the end of
// the caller's context.
func (c *Client) Timeout() time.Duration { return c.cfg.Timeout }

// Hard reports whether operations wait without bound.
func (c *Client) Hard() bool { return c.cfg.Hard }

// Proofs returns proofs of all updates that the client has seen. A client that adopts them with Observe reads
// no older state.
func (c *Client) Proofs() ask.Proofs { return c.router.Proofs() }

// Observe adopts the proofs of another client. Every operation that begins after Observe sees all updates
// that the other client has seen.
func (c *Client) Observe(p ask.Proofs) { c.router.Observe(p) }

// Token returns the proofs of the client as text. After a successful Wait for the token, another client reads
// no older state.
func (c *Client) Token() string { return c.Proofs().Token() }

// Wait returns once every read of this client is at least as new as the token. It returns EINVAL if the text
// is not a token of this cluster.
func (c *Client) Wait(ctx context.Context, token string) error {
	p, err := ask.ParseToken(token)
	if err != nil {
		return posix.EINVAL
	}
	return c.router.Wait(ctx, p)
}

// OpenPartition opens the client's session in a partition, if there is none. It returns once a quorum of the
// partition has ordered the session, which proves that the partition takes updates.
func (c *Client) OpenPartition(ctx context.Context, partition uint16) error {
	_, err := c.router.Session(ctx, partition)
	return err
}

// Answers returns nil once a quorum of the partition has ordered a read, which proves that the partition
// takes updates. It needs no session and changes nothing.
func (c *Client) Answers(ctx context.Context, partition uint16) error {
	root := meta.Command{Op: meta.OpGetAttr, Ino: posix.MakeIno(partition, posix.Root.Counter())}
	_, err := c.router.Query(ctx, &root, route.Partition(partition).Fresh())
	return err
}

// Metrics reports the latencies of answers, labelled with the name of a mount.
func (c *Client) Metrics(report metrics.Report, mount string) {
	c.router.Metrics(report, mount)
	h := c.Holding()
	report.Value(metrics.HeldDirectories, float64(h.Directories), mount)
	report.Value(metrics.UnorderedChanges, float64(h.Unordered), mount)
	report.Value(metrics.LoggedChanges, float64(h.Logged), mount)
	report.Value(metrics.Recalls, float64(h.Recalls), mount)
	report.Value(metrics.LostChanges, float64(h.Lost), mount)
}

// Calls returns the numbers of queries and updates that partitions have answered so far.
func (c *Client) Calls() (queries, updates uint64) { return c.router.Calls() }

// outcome converts every error to a Code (C1).
func (c *common) outcome(err error) error {
	code := c.router.Outcome(err)
	if code == posix.EIO && errors.Is(err, block.ErrNoSpace) {
		return posix.ENOSPC
	}
	return code
}

// has returns EINVAL if the cluster has no such partition.
func (c *common) has(partition uint16) error {
	if int(partition) >= c.router.Partitions() {
		return posix.EINVAL
	}
	return nil
}
