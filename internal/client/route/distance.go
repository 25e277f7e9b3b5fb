package route

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/globalfs/globalfs/internal/topology"
)

// distance is the time that a partition needs to order a command of this client, in nanoseconds; 0: not
// measured. The coordinator of a command of several partitions must wait for the others anyway. So a client
// saves a round trip if the nearest partition is the coordinator.
type distance struct{ atomic.Int64 }

// add adds a measurement. A shorter time replaces the distance at once. A longer time raises it slowly,
// because most long measurements include waits for other work.
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

// quorumTrip returns the estimated distance of a partition from a region: the round trip to the nearest
// majority of its replicas.
func quorumTrip(from topology.Region, nearestFirst []topology.Replica) time.Duration {
	if len(nearestFirst) == 0 {
		return 0
	}
	return 2 * topology.Delay(from, nearestFirst[len(nearestFirst)/2].Region)
}

// distance returns the partition's measured distance or, before the first measurement, the estimate by its
// regions.
func (p *partition) distance() time.Duration {
	if measured := p.measured.Load(); measured != 0 {
		return time.Duration(measured)
	}
	return p.replicas.Load().quorumTrip
}

// nearest returns the nearest of the partitions; preferred wins a tie. It ignores partitions that the cluster
// does not have.
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
