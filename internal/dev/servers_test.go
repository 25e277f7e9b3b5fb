package dev

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/block/region"
	"github.com/globalfs/globalfs/internal/daemon"
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// stopServers stops servers cleanly, so that acknowledged updates are on disk, and waits for their end. It
// does not start them again.
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
		<-r.ended
	}
}

// startServer starts a server that was stopped.
func (c *Cluster) startServer(ctx context.Context, name string) error {
	c.mu.Lock()
	r := c.begin(name)
	c.mu.Unlock()
	return r.await(ctx)
}

// runs returns a server that should run; nil: there is none.
func (c *Cluster) runs(name string) *running {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.servers[name]
}

// operator connects to the cluster through its file, like a command.
func operator(t *testing.T, c *Cluster) *daemon.Access {
	t.Helper()
	file, err := daemon.ReadFile(c.File())
	require.NoError(t, err)
	cfg := daemon.AccessConfig{Timeout: 10 * time.Second, Logger: c.cfg.Logger}
	for _, address := range file.Addresses {
		cfg.Servers = append(cfg.Servers, address)
	}
	cfg.Certificates, err = identity.Find(file.Certificates, identity.Admin, "")
	require.NoError(t, err)
	a, err := daemon.Connect(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.Close()) })
	return a
}

// change sends a change of the cluster to a server.
func change(t *testing.T, a *daemon.Access, q daemon.Request) daemon.Changed {
	t.Helper()
	var changed daemon.Changed
	require.NoError(t, a.Ask(t.Context(), "", &q, &changed))
	return changed
}

// join adds a new server, and returns after its start.
func join(t *testing.T, c *Cluster, a *daemon.Access, region topology.Region) (name string) {
	t.Helper()
	free, err := net.Listen("tcp", anyPort)
	require.NoError(t, err)
	require.NoError(t, free.Close())
	name = change(t, a, daemon.Request{Op: daemon.Join, Region: region, Address: free.Addr().String()}).Server
	require.Eventually(t, func() bool { return c.runs(name) != nil }, 30*time.Second, time.Millisecond)
	require.NoError(t, c.runs(name).await(t.Context()))
	return name
}

func drain(t *testing.T, a *daemon.Access, name string) {
	t.Helper()
	change(t, a, daemon.Request{Op: daemon.Drain, Server: name})
}

// storage returns the states of the storage servers of a region that have not left, in the order of the plan;
// nil for one that does not answer.
func storage(t *testing.T, a *daemon.Access, region topology.Region) (all []*daemon.StorageServer) {
	t.Helper()
	for _, answer := range a.Status(t.Context()) {
		if answer.Server.Region == region && answer.Server.State != topology.StorageLeft {
			all = append(all, answer.Status.Storage)
		}
	}
	return all
}

// statusOf returns the status of a storage server.
func statusOf(t *testing.T, c *Cluster, server multicast.ProcessID) region.Status {
	t.Helper()
	caller := c.network.client(c.Plan.Regions[0])
	defer func() { require.NoError(t, caller.Close()) }()
	admin := region.NewAdmin(caller, 5*time.Second)
	status, err := admin.Status(t.Context(), server)
	for try := 0; err != nil && try < 10; try++ { // a busy machine is slow
		status, err = admin.Status(t.Context(), server)
	}
	require.NoError(t, err)
	return status
}

// planNow returns the cluster of the description in the registry.
func planNow(t *testing.T, c *Cluster) *topology.Cluster {
	t.Helper()
	document, err := c.registry.Load(t.Context())
	require.NoError(t, err)
	spec, err := topology.ParseSpec(document.Value)
	require.NoError(t, err)
	plan, err := spec.Plan()
	require.NoError(t, err)
	return plan
}
