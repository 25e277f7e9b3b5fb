// Package attach makes the objects that a process needs to use a cluster: a client, the block stores of all
// regions, the nearest first, and the caches in front of them. The embedded cluster, servers and mounts use
// the same code.
package attach

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/diskcache"
	"github.com/globalfs/globalfs/internal/block/region"
	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/collector"
	"github.com/globalfs/globalfs/internal/metrics"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// DefaultCacheBytes is the default of Config.CacheBytes for a mount.
const DefaultCacheBytes = 64 << 20

// DefaultDiskCacheBytes is the default size of a cache on disk.
const DefaultDiskCacheBytes = 10 << 30

// Caller is access to the network.
type Caller interface {
	Call(ctx context.Context, to multicast.ProcessID, request []byte) ([]byte, error)
	Close() error
}

// Config of a Client.
type Config struct {
	Cluster *topology.Cluster
	Region  topology.Region // of the process
	Caller  Caller          // the client closes it
	Objects Objects         // nil: the blocks are on the servers' disks
	// CacheBytes is the size of the block cache in memory, for all partitions together.
	CacheBytes int
	Disk       *diskcache.Cache // the machine's cache, shared by all clients; nil: none
	DiskFar    bool             // Disk is only for blocks that are far (OpenDefaultDiskCache)
	// OneDisk means that all servers of a region share one disk: their space is not added up.
	OneDisk      bool
	Linearizable bool // see client.Config, like
	Hard         bool
	CacheNames   bool // see client.Config, like
	Delegate     bool
	Grants       func(partition uint16) client.Grants // client.Config.Grants
	Journal      client.Journal                       // client.Config.Journal
	Resume       *client.State
	Timeout      time.Duration // of one operation; 0: the client's default
	Logger       *slog.Logger
}

// Client is a client with its access to the network and to the regions' blocks.
type Client struct {
	*client.Client
	Regions []collector.Region // all, with their stores

	home    topology.Region
	traced  *tracedCaller
	remotes map[topology.Region]*region.Remote
	signed  map[topology.Region]signed
	cfg     Config
	stores  *stores
}

// New makes a client. The client makes no calls before the first operation.
func New(cfg Config) (*Client, error) {
	traced := &tracedCaller{Caller: cfg.Caller}
	traced.cluster.Store(cfg.Cluster)
	cfg.Caller = traced
	stores, err := newStores(&cfg)
	if err != nil {
		return nil, errors.Join(err, cfg.Caller.Close())
	}
	cl, err := client.New(client.Config{
		Cluster: cfg.Cluster, Region: cfg.Region, Caller: cfg.Caller, Usage: stores.usage, WholeUsage: stores.wholeUsage,
		Blocks:       func(p uint16) block.Store { return stores.partitions.All()[p] },
		Linearizable: cfg.Linearizable, Hard: cfg.Hard, CacheNames: cfg.CacheNames, Delegate: cfg.Delegate, Grants: cfg.Grants, Journal: cfg.Journal, Resume: cfg.Resume, Timeout: cfg.Timeout, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, errors.Join(err, cfg.Caller.Close())
	}
	return &Client{Client: cl, home: cfg.Region, traced: traced, Regions: stores.regions, remotes: stores.remotes, signed: stores.signed, cfg: cfg, stores: stores}, nil
}

// Close ends the client's sessions and its access to the network.
func (c *Client) Close() error {
	err := c.Client.Close()
	for _, s := range c.signed {
		err = errors.Join(err, s.store.Close())
	}
	return errors.Join(err, c.traced.Close())
}

// Update passes the newest description of the cluster to the client.
func (c *Client) Update(cluster *topology.Cluster) {
	if err := c.stores.grow(&c.cfg, cluster); err != nil {
		c.cfg.Logger.Error("the client continues with the partitions that it knows", "error", err)
		return
	}
	c.Client.Update(cluster)
	c.traced.cluster.Store(cluster)
	for region, remote := range c.remotes {
		remote.SetServers(nodes(cluster, region))
	}
	for region, s := range c.signed {
		s.signer.SetServers(nodes(cluster, region))
	}
}

// Lengths returns the length of each block of a partition in bytes. It asks the regions of the partition, the
// nearest first; 0: none of them has the block. If lengths are 0, the error names the servers and regions
// that did not answer: they may have the block.
func (c *Client) Lengths(ctx context.Context, partition uint16, ids []block.ID) ([]uint32, error) {
	lengths := make([]uint32, len(ids))
	var failed error
	for _, r := range c.near(partition) {
		sizes := r.Store.Sizes
		if remote := c.remotes[r.Name]; remote != nil {
			sizes = remote.Lengths
		}
		there, err := sizes(ctx, ids)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("blocks of region %s: %w", r.Name, err))
		}
		for i := range there {
			lengths[i] = max(lengths[i], there[i])
		}
		if !slices.Contains(lengths, 0) {
			return lengths, nil
		}
	}
	return lengths, failed
}

// Holders returns for each block of a partition the names of the servers with a copy. For object storage it
// names the regions. The error names servers that did not answer: they may have copies, too.
func (c *Client) Holders(ctx context.Context, partition uint16, ids []block.ID) ([][]string, error) {
	holders := make([][]string, len(ids))
	names := map[multicast.ProcessID]string{}
	for _, s := range c.Cluster().Servers {
		names[s.Storage] = s.Name
	}
	var failed error
	for _, r := range c.near(partition) {
		remote := c.remotes[r.Name]
		if remote == nil {
			sizes, err := r.Store.Sizes(ctx, ids)
			failed = errors.Join(failed, err)
			for i, size := range sizes {
				if size > 0 {
					holders[i] = append(holders[i], "object storage of "+string(r.Name))
				}
			}
			continue
		}
		there, err := remote.Holders(ctx, ids)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("region %s: %w", r.Name, err))
		}
		for i, servers := range there {
			for _, s := range servers {
				holders[i] = append(holders[i], names[s])
			}
		}
	}
	return holders, failed
}

// near returns the regions of a partition, the nearest first.
func (c *Client) near(partition uint16) (near []collector.Region) {
	plan := c.Cluster()
	if int(partition) >= len(plan.Partitions) {
		return nil
	}
	for _, r := range nearestRegions(&plan.Partitions[partition], c.home) {
		for _, store := range c.Regions {
			if store.Name == r {
				near = append(near, store)
			}
		}
	}
	return near
}

// Metrics reports the metrics of the client and its caches for the mount of that name.
func (c *Client) Metrics(report metrics.Report, mount string) {
	c.Client.Metrics(report, mount)
	cache := func(name string, hits, misses, bytes float64) {
		report.Value(metrics.CacheHits, hits, mount, name)
		report.Value(metrics.CacheMisses, misses, mount, name)
		report.Value(metrics.CacheBytes, bytes, mount, name)
	}
	hits, misses, bytes := c.stores.memory.Stats()
	cache("memory", float64(hits), float64(misses), float64(bytes))
	if c.cfg.Disk != nil {
		s := c.cfg.Disk.Stats()
		cache("disk", float64(s.Hits), float64(s.Misses), float64(s.Bytes))
	}
}

// OpenDiskCache opens the cache of blocks in a directory of this machine for a cluster; nil if dir is empty.
func OpenDiskCache(dir string, maxBytes int64, plan *topology.Cluster, logger *slog.Logger) (*diskcache.Cache, error) {
	if dir == "" {
		return nil, nil
	}
	return diskcache.Open(diskcache.Config{
		Dir: dir, MaxBytes: maxBytes, Cluster: string(plan.Identity()), Log: logger.With("component", "block cache"),
	})
}
