package route

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/topology"
)

// Times for which a failed or overloaded replica is asked last.
const (
	avoidFailed     = 10 * time.Second
	avoidOverloaded = time.Second
)

// class is the requirement of a request on its replica.
type class int

const (
	reading  class = iota // it is as new as the client
	ordering              // a quorum answers it
	watching              // it tells changes
	classes
)

// replicas are the replicas of a partition in the order of requests. A replica without a reachable quorum
// still answers reads: while a network is cut, reads must not go to the far side because of failed updates.
type replicas struct {
	from       topology.Region    // of the client
	all        []topology.Replica // the nearest first
	quorumTrip time.Duration      // estimated from the regions

	mu    sync.Mutex
	avoid [classes][]time.Time // GUARDED_BY mu; each replica is asked last until this time
}

// newReplicas orders replicas by distance. Replicas at the same distance are in random order, so that the
// clients of a region spread over its replicas.
func newReplicas(from topology.Region, all []topology.Replica) *replicas {
	mixed := slices.Clone(all)
	rand.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
	r := &replicas{from: from, all: topology.Nearest(from, mixed)}
	r.quorumTrip = quorumTrip(from, r.all)
	for c := range r.avoid {
		r.avoid[c] = make([]time.Time, len(mixed))
	}
	return r
}

// order returns indexes of replicas: the nearest first, those to avoid last, and among these the one with the
// earliest failure first.
func (r *replicas) order(c class) []int {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	order := make([]int, len(r.all))
	for i := range order {
		order[i] = i
	}
	until := func(i int) time.Time {
		if r.avoid[c][i].After(now) {
			return r.avoid[c][i]
		}
		return time.Time{}
	}
	slices.SortStableFunc(order, func(a, b int) int { return until(a).Compare(until(b)) })
	return order
}

// answered restores the place of replica i in the order.
func (r *replicas) answered(i int, c class) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.avoid[c][i] = time.Time{}
}

// failed puts replica i last for a while: for requests of this class if it was slow or overloaded, for all if
// it cannot be reached.
func (r *replicas) failed(i int, c class, why error) {
	while := avoidFailed
	if why == nil {
		while = avoidOverloaded
	}
	until := time.Now().Add(while)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.avoid[c][i] = until
	if why != nil && !errors.Is(why, context.DeadlineExceeded) {
		for c := range r.avoid {
			r.avoid[c][i] = until
		}
	}
}
