package attach

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/region"
	"github.com/globalfs/globalfs/internal/collector"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// regionTimeout is how long one storage node may take for one block: it tries others in
// its region meanwhile.
const regionTimeout = 10 * time.Second

// stores are the block stores as a client in one region reaches them.
type stores struct {
	regions    []collector.Region
	remotes    map[topology.Region]*region.Remote // over the servers' disks
	partitions []*block.Cached                    // put in all regions that replicate the partition, got from the nearest
	// usage is what the disk of the nearest region holds. Nil: the storage has no end that is known.
	usage func(context.Context) (total, free uint64, err error)
	// wholeUsage is that of all regions. Nil: not known, or the same as usage.
	wholeUsage func(context.Context) (total, free uint64, err error)
}

// newStores makes the stores of a client, over the servers' disks or over object storage.
func newStores(cfg *Config) (*stores, error) {
	plan := cfg.Cluster
	s := &stores{partitions: make([]*block.Cached, len(plan.Partitions)), remotes: map[topology.Region]*region.Remote{}}
	regional := map[topology.Region]collector.Store{}
	for _, r := range plan.Regions {
		if cfg.Objects != nil {
			regional[r] = cfg.Objects[r]
			continue
		}
		remote, err := region.NewRemote(cfg.Caller, nodes(plan, r), regionTimeout)
		if err != nil {
			return nil, err
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
	for i := range plan.Partitions {
		var near []block.Store
		for _, r := range nearestRegions(&plan.Partitions[i], cfg.Region) {
			near = append(near, regional[r])
		}
		nearest, err := block.NewNearest(near...)
		if err != nil {
			return nil, err
		}
		s.partitions[i] = cfg.remembered(nearest)
	}
	return s, nil
}

// nearestRegions are the regions that replicate a partition, the nearest to home first.
func nearestRegions(p *topology.Partition, home topology.Region) []topology.Region {
	regions := p.Regions()
	slices.SortStableFunc(regions, func(a, b topology.Region) int {
		return cmp.Compare(topology.Delay(home, a), topology.Delay(home, b))
	})
	return regions
}

// remembered is the store of a partition behind the caches: the client's in memory, of which each partition
// has its share, and this machine's on disk if there is one.
func (cfg *Config) remembered(store block.Store) *block.Cached {
	if cfg.Disk != nil {
		store = cfg.Disk.Over(store)
	}
	return block.NewCached(store, cfg.CacheBytes/len(cfg.Cluster.Partitions))
}

// nodes are the storage servers of a region.
func nodes(plan *topology.Cluster, region topology.Region) []multicast.ProcessID {
	var nodes []multicast.ProcessID
	for _, s := range plan.Storage(region) {
		nodes = append(nodes, s.Storage)
	}
	return nodes
}

// usage is that of a region.
func usage(region *region.Remote, oneDisk bool) func(context.Context) (total, free uint64, err error) {
	return func(ctx context.Context) (total, free uint64, err error) {
		total, free, servers, err := region.Usage(ctx)
		if err != nil || !oneDisk {
			return total, free, err
		}
		return total / uint64(servers), free / uint64(servers), nil
	}
}

// wholeUsage is the sum of all regions that answer. The error is that of one of them if none does.
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

// usagePatience bounds the time for the usage of far regions.
const usagePatience = 3 * time.Second
