package dev

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/block"
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
	near       *block.Remote // of the client's region, with so many servers
	servers    uint64
	partitions []block.Store // put in all regions that replicate the partition, got from the nearest
}

func blocks(plan *topology.Cluster, region topology.Region, caller block.Caller) (*stores, error) {
	s := &stores{servers: uint64(len(plan.Storage(region))), partitions: make([]block.Store, len(plan.Partitions))}
	remotes := map[topology.Region]*block.Remote{}
	for _, r := range plan.Regions {
		var nodes []multicast.ProcessID
		for _, s := range plan.Storage(r) {
			nodes = append(nodes, s.Storage)
		}
		remote, err := block.NewRemote(caller, nodes, regionTimeout)
		if err != nil {
			return nil, err
		}
		remotes[r] = remote
	}
	s.near = remotes[region]
	for i := range plan.Partitions {
		regions := plan.Partitions[i].Regions()
		slices.SortStableFunc(regions, func(a, b topology.Region) int {
			return cmp.Compare(topology.Delay(region, a), topology.Delay(region, b))
		})
		var near []block.Store
		for _, r := range regions {
			near = append(near, remotes[r])
		}
		nearest, err := block.NewNearest(near...)
		if err != nil {
			return nil, err
		}
		s.partitions[i] = block.NewCached(nearest, cacheBytes/len(plan.Partitions))
	}
	return s, nil
}

// usage is what the disk of the nearest region holds: all servers of this process share it.
func (s *stores) usage(ctx context.Context) (total, free uint64, err error) {
	total, free, err = s.near.Usage(ctx)
	return total / s.servers, free / s.servers, err
}
