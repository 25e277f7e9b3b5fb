package route

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/globalfs/globalfs/internal/topology"
)

// distance is the time in which a partition orders a command for this client, in nanoseconds; 0: not
// measured. The coordinator of a command of several partitions waits for the others anyway, so a client that
// sends the command to the nearest partition saves a round trip.
type distance struct{ atomic.Int64 }

// add adds a measurement. The distance falls to a shorter time at once, and rises slowly: most long
// measurements include waits for other work.
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

// quorumTrip is the estimated distance of a partition from a region: the round trip to the nearest majority
// of its replicas.
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
