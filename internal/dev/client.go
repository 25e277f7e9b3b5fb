package dev

import (
	"sync/atomic"

	"github.com/globalfs/globalfs/internal/attach"
	"github.com/globalfs/globalfs/internal/topology"
)

// following is the network access of a client. Until it is closed, it informs the client of changes of the
// cluster.
type following struct {
	attach.Caller
	cluster *Cluster
	client  atomic.Pointer[attach.Client] // nil: it is still being made
}

// follow informs the client of a change.
func (f *following) follow(cluster *topology.Cluster) {
	if c := f.client.Load(); c != nil {
		c.Update(cluster)
	}
}

// Close implements attach.Caller.
func (f *following) Close() error {
	f.cluster.mu.Lock()
	delete(f.cluster.clients, f)
	f.cluster.mu.Unlock()
	return f.Caller.Close()
}

// Client makes a client in a region, which follows the changes of the cluster. The caller closes it.
func (c *Cluster) Client(region topology.Region) (*attach.Client, error) {
	return c.ClientWithCache(region, attach.DefaultCacheBytes)
}

// ClientWithCache makes a client with a cache of up to cacheBytes bytes of blocks in memory, for all
// partitions together.
func (c *Cluster) ClientWithCache(region topology.Region, cacheBytes int) (*attach.Client, error) {
	f := &following{Caller: c.network.client(region), cluster: c}
	client, err := attach.New(attach.Config{
		Cluster: c.plan.Load().cluster, Region: region, Caller: f, Objects: c.objects,
		CacheBytes: cacheBytes, Disk: c.cache, OneDisk: true,
		CacheNames: true, Delegate: c.cfg.Delegate, Linearizable: c.cfg.Linearizable, Timeout: c.cfg.Timeout, Logger: c.cfg.Logger.With("client", region),
	})
	if err != nil {
		return nil, err
	}
	f.client.Store(client)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients[f] = struct{}{}
	f.follow(c.plan.Load().cluster) // the cluster may have changed meanwhile
	return client, nil
}
