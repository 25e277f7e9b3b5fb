package micro

import (
	"fmt"
	"time"

	"github.com/globalfs/globalfs/bench/virtual"
)

// processors is the number of processors of a machine with a mount: the thesis has two.
const processors = 2

// world is a cluster with mounts and clients.
type world struct {
	*virtual.Cluster
	prices  *Prices
	mounts  []*mount
	workers []*worker
}

// mount is a machine with a mount, in a datacenter of a region.
type mount struct {
	*virtual.Host
	region int // index
}

// newWorld starts a cluster, and clients at each mount and more at the first one, each with its session and
// file in the partitions of a load.
func newWorld(c *Config, l *load, clients, more int) (*world, error) {
	k, err := virtual.New(virtual.Config{
		Carrier: &virtual.Carriers()[0], Regions: l.regions, Shards: l.shards, Seed: c.Seed, Prices: &c.Prices.Prices, Batch: l.batch,
	})
	if err != nil {
		return nil, err
	}
	w := &world{Cluster: k, prices: &c.Prices}
	ready := 0
	for r, servers := range k.Servers {
		for range servers {
			m := &mount{Host: k.NewHost(processors), region: r}
			w.mounts = append(w.mounts, m)
			count := clients
			if len(w.mounts) == 1 {
				count += more
			}
			for i := range count {
				shards := max(1, l.shards)
				x := &worker{own: uint16(r*shards + i%shards + 1), prices: w.prices, Client: k.NewClient(l.regions[r]), mount: m}
				w.workers = append(w.workers, x)
				x.prepare(l.places(), l.chunks(), func() { ready++ })
			}
		}
	}
	k.Run(time.Minute, func() bool { return ready == len(w.workers) })
	if k.Err == nil && ready < len(w.workers) {
		return nil, fmt.Errorf("%d of %d clients are ready after a minute", ready, len(w.workers))
	}
	return w, k.Err
}

// busy returns the busy time of each server.
func (w *world) busy() (all []time.Duration) {
	for _, servers := range w.Servers {
		for _, s := range servers {
			all = append(all, s.Busy())
		}
	}
	return all
}

// mountBusy returns the busy time of all machines with mounts.
func (w *world) mountBusy() (sum time.Duration) {
	for _, m := range w.mounts {
		sum += m.Busy()
	}
	return sum
}
