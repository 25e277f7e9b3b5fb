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
	plan       *topology.Cluster
	remotes    map[topology.Region]*block.Remote
	partitions []block.Store // put in all regions that replicate the partition, got from the nearest
}

func blocks(plan *topology.Cluster, region topology.Region, caller block.Caller) (*stores, error) {
	s := &stores{plan: plan, remotes: map[topology.Region]*block.Remote{}, partitions: make([]block.Store, len(plan.Partitions))}
	for _, r := range plan.Regions {
		var nodes []multicast.ProcessID
		for _, s := range plan.Storage(r) {
			nodes = append(nodes, s.Storage)
		}
		remote, err := block.NewRemote(caller, nodes, regionTimeout)
		if err != nil {
			return nil, err
		}
		s.remotes[r] = remote
	}
	for i := range plan.Partitions {
		regions := plan.Partitions[i].Regions()
		slices.SortStableFunc(regions, func(a, b topology.Region) int {
			return cmp.Compare(topology.Delay(region, a), topology.Delay(region, b))
		})
		var near []block.Store
		for _, r := range regions {
			near = append(near, s.remotes[r])
		}
		nearest, err := block.NewNearest(near...)
		if err != nil {
			return nil, err
		}
		s.partitions[i] = block.NewCached(nearest, cacheBytes/len(plan.Partitions))
	}
	return s, nil
}

// capacity is what the files of a partition can fill. All servers of this process share one disk, on
// which a block stands once for each copy in each region.
func (s *stores) capacity(ctx context.Context, partition uint16) (total, free uint64, err error) {
	regions := s.plan.Partitions[partition].Regions()
	total, free, err = s.remotes[regions[0]].Usage(ctx)
	share := uint64(len(s.plan.Storage(regions[0])) * s.plan.Copies * len(regions))
	return total / share, free / share, err
}
