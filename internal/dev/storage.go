package dev

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/durable"
	"github.com/globalfs/globalfs/internal/mount"
	"github.com/globalfs/globalfs/internal/server"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// The data directory says who is in the storage ring of each region (topology.StorageChange). A change is written there first, then told to
// the region's servers, which do the rest by themselves: what is written can always be told once more, at the next start.

// errObjects is of clusters without storage servers.
var errObjects = errors.New("the blocks of this cluster are in object storage: it has no storage servers")

// JoinStorage starts a new storage server in a region, and gives its name: it gets its share of the blocks in the background.
func (c *Cluster) JoinStorage(ctx context.Context, region topology.Region) (name string, err error) {
	if c.objects != nil {
		return "", errObjects
	}
	c.changing.Lock()
	defer c.changing.Unlock()
	spec, plan, err := c.planned()
	if err != nil {
		return "", err
	}
	joins, err := spec.JoinStorage(plan, region)
	if err != nil {
		return "", err
	}
	if plan, err = c.note(spec); err != nil {
		return "", err
	}
	if err := c.network.join(joins.Server, region, joins.Process); err != nil {
		return "", err
	}
	if err := c.tell(ctx, plan, region); err != nil { // before it starts: a member hears of it first (block, M3)
		return "", err
	}
	if err := c.startServer(context.WithoutCancel(ctx), plan, joins.Server); err != nil {
		return "", fmt.Errorf("storage server %s: %w: it joins at the next start", joins.Server, err)
	}
	return joins.Server, nil
}

// LeaveStorage has a storage server hand back all its blocks to the others of its region, in the background. Once it has none it has left.
func (c *Cluster) LeaveStorage(ctx context.Context, name string) error {
	if c.objects != nil {
		return errObjects
	}
	c.changing.Lock()
	defer c.changing.Unlock()
	spec, plan, err := c.planned()
	if err != nil {
		return err
	}
	if err := spec.LeaveStorage(plan, name); err != nil {
		return err
	}
	if plan, err = c.note(spec); err != nil {
		return err
	}
	c.workers.start(context.WithoutCancel(ctx), func(ctx context.Context) { c.retire(ctx, name) })
	return c.tell(ctx, plan, plan.Server(name).Region)
}

// planned gives a copy of the spec to change, and the cluster that it is the spec of. The caller holds changing.
func (c *Cluster) planned() (*topology.Spec, *topology.Cluster, error) {
	spec := c.cfg.Spec
	spec.StorageChanges = slices.Clone(spec.StorageChanges)
	plan, err := spec.Plan()
	return &spec, plan, err
}

// note makes a changed spec the cluster's. The caller holds changing.
func (c *Cluster) note(spec *topology.Spec) (*topology.Cluster, error) {
	plan, err := spec.Plan()
	if err == nil {
		err = durable.WriteFile(filepath.Join(c.cfg.Dir, specFile), spec.YAML())
	}
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	c.cfg.Spec = *spec
	return plan, nil
}

// storagePatience bounds how long a storage server may take to answer: its disk may hang.
const storagePatience = 5 * time.Second

// tell tells the storage servers of a region who is one of them. It is enough if a member hears it.
func (c *Cluster) tell(ctx context.Context, plan *topology.Cluster, region topology.Region) error {
	members := server.Members(plan, region)
	var errs []error
	for _, s := range plan.Storage(region) {
		err := c.admin.SetMembers(ctx, s.Storage, members)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return fmt.Errorf("no storage server of %s knows of the change yet, which it does at the next start: %w", region, errors.Join(errs...))
}

// storageOf gives the storage node of a running server, nil if there is none.
func (c *Cluster) storageOf(name string) *server.Storage {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.servers[name]; r != nil {
		return r.server.Storage()
	}
	return nil
}

// drainedEvery is how often a server that leaves is asked whether it has anything left.
const drainedEvery = time.Second

// retire waits until a server that leaves has no block any more, and takes it out of the ring.
func (c *Cluster) retire(ctx context.Context, name string) {
	ticker := time.NewTicker(drainedEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if !c.drained(ctx, name) {
			continue
		}
		if err := c.left(ctx, name); err != nil {
			c.cfg.Logger.Warn("a storage server has no blocks any more, but cannot be taken out of its region's ring: it is tried again", "server", name, "error", err)
			continue
		}
		c.cfg.Logger.Info("a storage server has left: the others of its region have all its blocks", "server", name)
		return
	}
}

// drained reports whether a server that leaves may be taken out: it has no block any more, and all others know that it leaves, so that
// nobody counts on it (block, M3).
func (c *Cluster) drained(ctx context.Context, name string) bool {
	c.changing.Lock()
	_, plan, err := c.planned()
	c.changing.Unlock()
	if err != nil {
		return false
	}
	if plan.Server(name).State == topology.StorageLeft {
		return true // it was; the others are to be told
	}
	region := plan.Server(name).Region
	for _, s := range plan.Storage(region) {
		status, err := c.admin.Status(ctx, s.Storage)
		if err != nil || status.Members.Version < plan.StorageVersion(region) || s.Name == name && !status.Drained {
			return false
		}
	}
	return true
}

// left takes a server out of the ring of its region, and stops it if it does nothing else. It may be called again after an error.
func (c *Cluster) left(ctx context.Context, name string) error {
	c.changing.Lock()
	defer c.changing.Unlock()
	spec, plan, err := c.planned()
	if err != nil {
		return err
	}
	if plan.Server(name).State != topology.StorageLeft {
		spec.LeftStorage(name)
		if plan, err = c.note(spec); err != nil {
			return err
		}
	}
	if err := c.tell(ctx, plan, plan.Server(name).Region); err != nil {
		return err
	}
	if len(plan.ReplicasOn(name)) == 0 {
		c.stopServers(name)
	}
	return nil
}

// Storage gives the state of the storage servers of all regions; none if the blocks are in object storage.
func (c *Cluster) Storage(ctx context.Context) ([]mount.StorageRegion, error) {
	if c.objects != nil {
		return nil, nil
	}
	c.changing.Lock()
	_, plan, err := c.planned()
	c.changing.Unlock()
	if err != nil {
		return nil, err
	}
	var regions []mount.StorageRegion
	for _, name := range plan.Regions {
		region := mount.StorageRegion{Region: name, Copies: plan.Copies, Version: plan.StorageVersion(name)}
		names := map[multicast.ProcessID]string{}
		for _, s := range plan.Storage(name) {
			names[s.Storage] = s.Name
		}
		for _, s := range plan.Storage(name) {
			region.Servers = append(region.Servers, c.storageServer(ctx, &s, names))
		}
		regions = append(regions, region)
	}
	return regions, nil
}

func (c *Cluster) storageServer(ctx context.Context, s *topology.Server, names map[multicast.ProcessID]string) mount.StorageServer {
	told := mount.StorageServer{Name: s.Name, Datacenter: s.Datacenter, State: string(s.State)}
	status, err := c.admin.Status(ctx, s.Storage)
	storage := c.storageOf(s.Name)
	if err != nil || storage == nil {
		return told
	}
	status.Members.Servers = nil // these are what the region is a list of
	told.Running, told.Status = true, &status
	for _, down := range status.Down {
		told.Down = append(told.Down, names[down])
	}
	if stats, err := storage.Stats(); err == nil {
		told.Blocks, told.Bytes, told.DeadBytes = stats.Blocks, stats.LiveBytes, stats.DeadBytes
	}
	return told
}
