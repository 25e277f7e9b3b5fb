// Package dev implements the embedded cluster: all servers of several regions in one process, with clients
// and mounts in the regions that the user names (thesis section 3.6.1 in one process). The servers are those
// of package daemon, with two differences: the registry is a file instead of etcd, and the network between
// their processes may be queues in memory, optionally with the delays of a wide-area network. Servers answer
// control calls on loopback, with certificates of the cluster's own CA. So the commands for operators work on
// this cluster, too.
//
// # The data directory
//
//	lock           held while the cluster runs
//	registry.json  the registry: the cluster's description, and the marks of processes
//	cluster.yaml   the cluster file for commands (--config), written at each start
//	certificates/  the CA, and certificates of the servers, of an operator and of a client
//	SERVER/        the data directory of a server, as 'globalfs server' has it
package dev

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/globalfs/globalfs/internal/attach"
	"github.com/globalfs/globalfs/internal/block/diskcache"
	"github.com/globalfs/globalfs/internal/collector"
	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/metrics"
	"github.com/globalfs/globalfs/internal/registry"
	"github.com/globalfs/globalfs/internal/server"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/wal"
)

// Config of an embedded cluster.
type Config struct {
	Spec       topology.Spec
	Dir        string // kept between runs
	GRPC       bool   // the servers communicate over loopback TCP instead of queues in memory
	WAN        bool   // add the delays between the regions; not with GRPC
	Durability wal.Durability
	Timeout    time.Duration // of one file system operation; 0: the client's default
	Grace      time.Duration // time for which a block that no file contains any more is kept; 0: the collector's default; below 0: none
	Sweep      time.Duration // between searches for blocks that no file ever contained; 0: the collector's default
	server.Tuning
	Build      string // version of the program, for the status
	Logger     *slog.Logger
	CacheDir   string // directory of the block cache of all clients of this process; empty: only memory
	CacheBytes int64  // maximum size of the cache in CacheDir

	Delegate     bool // clients hold the directories that they make
	Linearizable bool // clients see all operations that have ended before, in all regions
}

// Cluster is a running embedded cluster. Its methods may be called concurrently.
type Cluster struct {
	// Plan is the cluster at the time when all its servers had started.
	Plan *topology.Cluster

	cfg      Config
	file     *daemon.File // of the servers
	unlock   func() error
	registry *registry.Local
	network  network
	cache    *diskcache.Cache // of all clients; nil: none
	objects  attach.Objects   // of all clients; nil: the blocks are on the servers' disks
	metrics  metrics.Set

	plan atomic.Pointer[plan]
	life context.Context // of the servers
	stop context.CancelFunc
	ends sync.WaitGroup // of the servers, and of the watch of the description

	mu          sync.Mutex
	everStarted map[string]bool         // GUARDED_BY mu; servers that were started, by name
	servers     map[string]*running     // GUARDED_BY mu; those that are to run
	clients     map[*following]struct{} // GUARDED_BY mu; the open ones
	errs        []error                 // GUARDED_BY mu; of servers that have ended
}

// startPatience is the time limit for the start of the servers. A server that has lost its disk waits for a
// majority of the others.
const startPatience = 30 * time.Second

// Start opens the data directory, starts all servers and waits until every partition takes updates. On an
// error nothing is left running.
func Start(ctx context.Context, cfg Config) (_ *Cluster, err error) {
	if err := cfg.Spec.Validate(); err != nil {
		return nil, err
	}
	if cfg.WAN && cfg.GRPC {
		return nil, errors.New("wide-area delays are added to the links in memory: use them without the gRPC transport")
	}
	c := &Cluster{cfg: cfg, everStarted: map[string]bool{}, servers: map[string]*running{}, clients: map[*following]struct{}{}}
	c.life, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	if c.unlock, err = claim(cfg.Dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if err := c.prepare(ctx); err != nil {
		return nil, err
	}
	if err := c.startAll(ctx); err != nil {
		return nil, err
	}
	c.Plan = c.plan.Load().cluster
	if c.objects, err = attach.OpenObjects(ctx, c.Plan, true); err != nil {
		return nil, err
	}
	if c.cache, err = attach.OpenDiskCache(cfg.CacheDir, cfg.CacheBytes, c.Plan, cfg.Logger); err != nil {
		return nil, err
	}
	return c, c.awaitReady(ctx)
}

// prepare makes the resources that the servers need.
func (c *Cluster) prepare(ctx context.Context) (err error) {
	if c.registry, err = registry.OpenLocal(filepath.Join(c.cfg.Dir, registry.LocalFile)); err != nil {
		return err
	}
	spec, listeners, err := c.describe(ctx)
	if err != nil {
		return err
	}
	c.file = c.fileOf(spec)
	if err := c.certify(); err != nil {
		return errors.Join(err, listeners.close())
	}
	if c.network, err = c.openNetwork(listeners); err != nil {
		return err
	}
	return writeFile(c.file)
}

// awaitReady waits until every partition has executed an update.
func (c *Cluster) awaitReady(ctx context.Context) error {
	probe, err := c.Client(c.Plan.Regions[0])
	if err != nil {
		return err
	}
	for _, p := range c.Plan.Partitions {
		if err := probe.OpenPartition(ctx, p.ID); err != nil {
			return errors.Join(fmt.Errorf("partition %d (%s) takes no updates: %w", p.ID, p.Path, err), probe.Close())
		}
	}
	return probe.Close()
}

// File returns the path of the cluster file, for the commands with --config.
func (c *Cluster) File() string { return filepath.Join(c.cfg.Dir, clusterFile) }

// Metrics returns the metrics of all servers; callers may add others.
func (c *Cluster) Metrics() *metrics.Set { return &c.metrics }

// Collector makes a collector for all partitions and all regions. It works only on calls of Once.
func (c *Cluster) Collector(client *attach.Client) (*collector.Collector, error) {
	return collector.New(collector.Config{Metadata: client.Client, Regions: client.Regions, Grace: c.cfg.Grace, Logger: c.cfg.Logger})
}

// Close stops all servers and returns their errors. Close the clients before.
func (c *Cluster) Close() error {
	c.rest()
	c.stop()
	c.ends.Wait()
	err := c.objects.Close()
	if c.network != nil {
		err = errors.Join(err, c.network.close())
	}
	if c.cache != nil {
		err = errors.Join(err, c.cache.Close())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(append(c.errs, err, c.unlock())...)
}
