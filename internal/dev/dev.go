// Package dev is the embedded cluster: all servers of several regions in one process, with clients and
// mounts in the regions that the user names (thesis section 3.6.1 in one process). The servers are the
// real ones; only the network between them may be replaced, by queues in memory with
// the delays of a wide-area network if that is wanted.
package dev

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/attach"
	"github.com/globalfs/globalfs/internal/block/diskcache"
	"github.com/globalfs/globalfs/internal/block/region"
	"github.com/globalfs/globalfs/internal/metrics"
	"github.com/globalfs/globalfs/internal/server"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/transport"
	"github.com/globalfs/globalfs/internal/wal"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Config of an embedded cluster.
type Config struct {
	Spec       topology.Spec
	Dir        string // kept between runs
	GRPC       bool   // the servers talk over loopback TCP instead of queues in memory
	WAN        bool   // add the delays between the regions; not with GRPC
	Durability wal.Durability
	Timeout    time.Duration  // of one file system operation; 0: the client's default
	Retain     int            // bytes of commands that a replica keeps for others that are away; 0: the default
	Grace      time.Duration  // how long a block that no file needs any more is kept; 0: the collector's default
	Sweep      time.Duration  // between looks for blocks that no file ever got; 0: the collector's default
	Healing    region.Healing // how storage servers keep their regions whole; zero: the default
	Logger     *slog.Logger
	CacheDir   string // where all clients of this process remember blocks, beside memory; empty: nowhere
	CacheBytes int64  // of the disk of CacheDir, at most

	Linearizable bool // clients read what is as new as all that ended before anywhere
}

// Cluster is a running embedded cluster.
type Cluster struct {
	Plan *topology.Cluster

	cfg      Config
	unlock   func() error
	network  network
	operator attach.Caller // of admin
	admin    *region.Admin // asks and tells storage servers
	workers  workers
	cache    *diskcache.Cache // of all clients; nil: none
	objects  attach.Objects   // nil: the blocks are on the servers' disks
	metrics  metrics.Set

	changing sync.Mutex // held while the storage servers change; before mu

	mu      sync.Mutex
	servers map[string]*running // GUARDED_BY mu; by name
	errs    []error             // GUARDED_BY mu
}

// Metrics are those of all servers and of what runs in the background.
func (c *Cluster) Metrics() *metrics.Set { return &c.metrics }

// running is a server, or something in the background, that runs.
type running struct {
	server *server.Server // nil: it is none
	stop   context.CancelFunc
	done   chan struct{} // closed when it has ended
}

// Start opens the data directory, starts all servers and waits until every partition
// takes updates. On an error nothing is left running.
func Start(ctx context.Context, cfg Config) (_ *Cluster, err error) {
	if err := cfg.Spec.Validate(); err != nil {
		return nil, err
	}
	if cfg.WAN && cfg.GRPC {
		return nil, errors.New("wide-area delays are added to the links in memory: use them without the gRPC transport")
	}
	c := &Cluster{servers: map[string]*running{}}
	if c.unlock, err = claim(cfg.Dir, &cfg.Spec); err != nil {
		return nil, err
	}
	c.cfg = cfg
	run := context.WithoutCancel(ctx)
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if c.Plan, err = replaceLost(cfg.Dir, &c.cfg.Spec, cfg.Durability, cfg.Logger); err != nil {
		return nil, err
	}
	if err := c.Plan.Crowded(); err != nil {
		return nil, err
	}
	if c.objects, err = attach.OpenObjects(ctx, c.Plan, c.cfg.Spec.Started); err != nil {
		return nil, err
	}
	if c.cache, err = attach.OpenDiskCache(cfg.CacheDir, cfg.CacheBytes, c.Plan, cfg.Logger); err != nil {
		return nil, err
	}
	if c.network, err = c.openNetwork(); err != nil {
		return nil, err
	}
	c.operator = c.network.client(c.Plan.Regions[0])
	c.admin = region.NewAdmin(c.operator, storagePatience)
	for _, s := range c.Plan.Servers {
		if s.State == topology.StorageLeft && len(c.Plan.ReplicasOn(s.Name)) == 0 {
			continue
		}
		if err := c.startServer(run, c.Plan, s.Name); err != nil {
			return nil, err
		}
	}
	if err := c.awaitReady(ctx); err != nil {
		return nil, err
	}
	if err := c.startWorkers(run); err != nil {
		return nil, err
	}
	return c, noteStarted(cfg.Dir, &c.cfg.Spec, cfg.Durability)
}

func (c *Cluster) startServer(ctx context.Context, plan *topology.Cluster, name string) error {
	s, err := server.Start(server.Config{
		Cluster: plan, Name: name, Dir: filepath.Join(c.cfg.Dir, name), Durability: c.cfg.Durability,
		Retain: c.cfg.Retain, Healing: c.cfg.Healing,
		Endpoint: func(p multicast.ProcessID) transport.Endpoint { return c.network.endpoint(name, p) },
		Logger:   c.cfg.Logger,
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	r := &running{server: s, stop: stop, done: make(chan struct{})}
	c.metrics.Add(func(report metrics.Report) {
		c.mu.Lock()
		runs := c.servers[name] == r
		c.mu.Unlock()
		if runs {
			s.Metrics(report)
		}
	})
	c.mu.Lock()
	c.servers[name] = r
	c.mu.Unlock()
	go func() {
		defer close(r.done)
		if err := s.Run(ctx); err != nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.errs = append(c.errs, err)
		}
	}()
	return nil
}

// stopServers stops servers, in order that what was acknowledged is on disk, and waits for their end.
func (c *Cluster) stopServers(names ...string) {
	var stopped []*running
	c.mu.Lock()
	for _, name := range names {
		if r := c.servers[name]; r != nil {
			r.stop()
			stopped = append(stopped, r)
			delete(c.servers, name)
		}
	}
	c.mu.Unlock()
	for _, r := range stopped {
		<-r.done
	}
}

// awaitReady returns once every partition has executed an update.
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

// Client makes a client in a region. The caller closes it.
func (c *Cluster) Client(region topology.Region) (*attach.Client, error) {
	return c.ClientWithCache(region, attach.DefaultCacheBytes)
}

// ClientWithCache makes a client that keeps up to so many bytes of blocks in memory, of all partitions together.
func (c *Cluster) ClientWithCache(region topology.Region, cacheBytes int) (*attach.Client, error) {
	return attach.New(attach.Config{
		Cluster: c.Plan, Region: region, Caller: c.network.client(region), Objects: c.objects,
		CacheBytes: cacheBytes, Disk: c.cache, OneDisk: true,
		Linearizable: c.cfg.Linearizable, Timeout: c.cfg.Timeout, Logger: c.cfg.Logger.With("client", region),
	})
}

// Close stops all servers and gives the errors that any of them had.
func (c *Cluster) Close() error {
	err := c.workers.stop()
	c.mu.Lock()
	names := slices.Collect(maps.Keys(c.servers))
	c.mu.Unlock()
	c.stopServers(names...)
	if c.operator != nil {
		err = errors.Join(err, c.operator.Close())
	}
	if c.network != nil {
		err = errors.Join(err, c.network.close())
	}
	err = errors.Join(err, c.objects.Close())
	if c.cache != nil {
		err = errors.Join(err, c.cache.Close())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(append(c.errs, err, c.unlock())...)
}
