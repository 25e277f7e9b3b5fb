package attach

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/objects"
	"github.com/globalfs/globalfs/internal/block/region"
	"github.com/globalfs/globalfs/internal/client/route"
	"github.com/globalfs/globalfs/internal/collector"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// regionTimeout is the time limit of one storage server for one block. The storage server tries others in its
// region meanwhile.
const regionTimeout = 10 * time.Second

// stores are the block stores for a client in one region.
type stores struct {
	regions    []collector.Region
	remotes    map[topology.Region]*region.Remote // over the servers' disks
	signed     map[topology.Region]signed         // object storage of a machine without credentials
	regional   map[topology.Region]collector.Store
	memory     *block.Memory                    // of all partitions
	partitions route.ByPartition[*block.Cached] // they put into all regions that replicate the partition, and get from the nearest
	// usage returns the space of the nearest region's disks in bytes. Nil: the storage has no known limit.
	usage func(context.Context) (total, free uint64, err error)
	// wholeUsage returns the space of all regions. Nil: not known, or the same as usage.
	wholeUsage func(context.Context) (total, free uint64, err error)
}

// signed is a region's store in object storage, with requests that servers of the region sign.
type signed struct {
	store  *objects.Store
	signer *region.Remote
}

// newStores makes the stores of a client, over the servers' disks or over object storage.
func newStores(cfg *Config) (*stores, error) {
	plan := cfg.Cluster
	s := &stores{memory: block.NewMemory(cfg.CacheBytes), remotes: map[topology.Region]*region.Remote{}, signed: map[topology.Region]signed{}, regional: map[topology.Region]collector.Store{}}
	regional := s.regional
	for _, r := range plan.Regions {
		if cfg.Objects != nil {
			regional[r] = cfg.Objects[r]
			continue
		}
		remote, err := region.NewRemote(cfg.Caller, nodes(plan, r), regionTimeout)
		if err != nil {
			return nil, err
		}
		if plan.Objects != nil {
			store, err := objects.OpenSigned(objectsConfig(plan, r), remote)
			if err != nil {
				return nil, fmt.Errorf("blocks of region %s: %w", r, err)
			}
			regional[r], s.signed[r] = store, signed{store, remote}
			continue
		}
		regional[r], s.remotes[r] = remote, remote
		if r == cfg.Region {
			s.usage = usage(remote, cfg.OneDisk)
		}
	}
	if len(s.remotes) > 0 && !cfg.OneDisk {
		s.wholeUsage = wholeUsage(s.remotes)
	}
	for _, r := range plan.Regions {
		s.regions = append(s.regions, collector.Region{Name: r, Store: regional[r]})
	}
	return s, s.grow(cfg, plan)
}

// grow makes the stores of all partitions of a cluster.
func (s *stores) grow(cfg *Config, plan *topology.Cluster) error {
	return s.partitions.Grow(len(plan.Partitions), func(i int) (*block.Cached, error) {
		var near []block.Store
		for _, r := range nearestRegions(&plan.Partitions[i], cfg.Region) {
			near = append(near, s.regional[r])
		}
		nearest, err := block.NewNearest(near...)
		if err != nil {
			return nil, err
		}
		if cfg.keepsOnDisk(&plan.Partitions[i]) {
			return block.NewCached(cfg.Disk.Over(nearest), s.memory), nil
		}
		return block.NewCached(nearest, s.memory), nil
	})
}

// nearestRegions returns the regions that replicate a partition, the nearest to home first.
func nearestRegions(p *topology.Partition, home topology.Region) []topology.Region {
	regions := p.Regions()
	slices.SortStableFunc(regions, func(a, b topology.Region) int {
		return cmp.Compare(topology.Delay(home, a), topology.Delay(home, b))
	})
	return regions
}

// nodes returns the storage servers of a region.
func nodes(plan *topology.Cluster, region topology.Region) []multicast.ProcessID {
	var nodes []multicast.ProcessID
	for _, s := range plan.Storage(region) {
		nodes = append(nodes, s.Storage)
	}
	return nodes
}

// usage returns a function for the space of a region.
func usage(region *region.Remote, oneDisk bool) func(context.Context) (total, free uint64, err error) {
	return func(ctx context.Context) (total, free uint64, err error) {
		total, free, servers, err := region.Usage(ctx)
		if err != nil || !oneDisk {
			return total, free, err
		}
		return total / uint64(servers), free / uint64(servers), nil
	}
}

// wholeUsage returns a function for the sum of the space of all regions that answer. If none answers, the
// function returns the error of one of them.
func wholeUsage(remotes map[topology.Region]*region.Remote) func(context.Context) (total, free uint64, err error) {
	return func(ctx context.Context) (total, free uint64, err error) {
		ctx, cancel := context.WithTimeout(ctx, usagePatience)
		defer cancel()
		var mu sync.Mutex
		answers := 0
		var asking sync.WaitGroup
		for _, r := range remotes {
			asking.Go(func() {
				t, f, _, failed := r.Usage(ctx)
				mu.Lock()
				defer mu.Unlock()
				if failed != nil {
					err = failed
					return
				}
				total, free, answers = total+t, free+f, answers+1
			})
		}
		asking.Wait()
		if answers > 0 {
			err = nil
		}
		return total, free, err
	}
}

// usagePatience is the time limit for the usage of distant regions.
const usagePatience = 3 * time.Second
