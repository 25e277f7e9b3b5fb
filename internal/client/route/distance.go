package route

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/globalfs/globalfs/internal/topology"
)

// distance is the time in which a partition orders something for this client, in nanoseconds; 0: it was not
// measured. The party that coordinates a command of several partitions waits for the others anyway, so a
// client that asks the nearest saves a round trip.
type distance struct{ atomic.Int64 }

// add takes in a measurement. The distance falls to a shorter time at once, and rises slowly: most
// measurements that are long had to wait for something.
func (d *distance) add(took time.Duration) {
	for {
		before := d.Load()
		now := int64(max(took, 1))
		if before != 0 {
			now = min(now, before+before/8+1)
		}
		if d.CompareAndSwap(before, now) {
			return
		}
	}
}

// quorumTrip is what a partition's distance from a region should be: the round trip to the nearest majority
// of its replicas.
func quorumTrip(from topology.Region, nearestFirst []topology.Replica) time.Duration {
	if len(nearestFirst) == 0 {
		return 0
	}
	return 2 * topology.Delay(from, nearestFirst[len(nearestFirst)/2].Region)
}

// distance returns the partition's distance, by what was measured or, as long as nothing was, by its regions.
func (p *partition) distance() time.Duration {
	if measured := p.measured.Load(); measured != 0 {
		return time.Duration(measured)
	}
	return p.replicas.Load().quorumTrip
}

// nearest returns the nearest of the partitions; if several are, then preferred. Partitions that the cluster
// does not have are passed over.
func (r *Router) nearest(preferred uint16, all []uint16) uint16 {
	best, shortest := preferred, time.Duration(math.MaxInt64)
	if p, err := r.partition(preferred); err == nil {
		shortest = p.distance()
	}
	for _, id := range all {
		if p, err := r.partition(id); err == nil && p.distance() < shortest {
			best, shortest = id, p.distance()
		}
	}
	return best
}
