package dev

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/collector"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// cacheBytes bounds the blocks that a client keeps in memory, of all partitions together.
const cacheBytes = 64 << 20

// regionTimeout is how long one storage node may take for one block: it tries others in
// its region meanwhile.
const regionTimeout = 10 * time.Second

// stores are the block stores as a client in one region reaches them.
type stores struct {
	regions    []collector.Region
	partitions []block.Store // put in all regions that replicate the partition, got from the nearest
	// usage is what the disk of the nearest region holds. Nil: the storage has no end that is known.
	usage func(context.Context) (total, free uint64, err error)
}

// blocks makes the stores of a client in a region, over the servers' disks or over object storage.
func (c *Cluster) blocks(region topology.Region, caller block.Caller, cacheBytes int) (*stores, error) {
	plan := c.Plan
	s := &stores{partitions: make([]block.Store, len(plan.Partitions))}
	regional := map[topology.Region]collector.Store{}
	for _, r := range plan.Regions {
		if c.objects != nil {
			regional[r] = c.objects[r]
			continue
		}
		remote, err := block.NewRemote(caller, nodes(plan, r), regionTimeout)
		if err != nil {
			return nil, err
		}
		regional[r] = remote
		if r == region {
			s.usage = shared(remote)
		}
	}
	for _, r := range plan.Regions {
		s.regions = append(s.regions, collector.Region{Name: r, Store: regional[r]})
	}
	for i := range plan.Partitions {
		regions := plan.Partitions[i].Regions()
		slices.SortStableFunc(regions, func(a, b topology.Region) int {
			return cmp.Compare(topology.Delay(region, a), topology.Delay(region, b))
		})
		var near []block.Store
		for _, r := range regions {
			near = append(near, regional[r])
		}
		nearest, err := block.NewNearest(near...)
		if err != nil {
			return nil, err
		}
		s.partitions[i] = c.remembered(nearest, cacheBytes)
	}
	return s, nil
}

// nodes are the storage servers of a region.
func nodes(plan *topology.Cluster, region topology.Region) []multicast.ProcessID {
	var nodes []multicast.ProcessID
	for _, s := range plan.Storage(region) {
		nodes = append(nodes, s.Storage)
	}
	return nodes
}

// shared is the usage of a region: all its servers, which are in this process, share one disk.
func shared(region *block.Remote) func(context.Context) (total, free uint64, err error) {
	return func(ctx context.Context) (total, free uint64, err error) {
		total, free, servers, err := region.Usage(ctx)
		if err != nil {
			return 0, 0, err
		}
		return total / uint64(servers), free / uint64(servers), nil
	}
}
