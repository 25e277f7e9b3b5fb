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

// How long a replica that failed, or that has too much to do, is asked last.
const (
	avoidFailed     = 10 * time.Second
	avoidOverloaded = time.Second
)

// class says what a request needs of a replica.
type class int

const (
	reading  class = iota // it is as new as the client
	ordering              // a quorum answers it
	classes
)

// replicas are the replicas of a partition and the order in which they are asked. A replica whose quorum is
// out of reach still reads: where a network is cut, reads must not go to the far side because updates were
// tried.
type replicas struct {
	all        []topology.Replica // the nearest first
	quorumTrip time.Duration      // by their regions

	mu    sync.Mutex
	avoid [classes][]time.Time // GUARDED_BY mu; until when each one is asked last
}

// newReplicas orders replicas by distance. Those equally far begin anywhere, so that the clients
// of a region spread over its replicas.
func newReplicas(from topology.Region, all []topology.Replica) *replicas {
	mixed := slices.Clone(all)
	rand.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
	r := &replicas{all: topology.Nearest(from, mixed)}
	r.quorumTrip = quorumTrip(from, r.all)
	for c := range r.avoid {
		r.avoid[c] = make([]time.Time, len(mixed))
	}
	return r
}

// order gives indexes of replicas: the nearest first, those to avoid last, the one
// that failed longest ago first.
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

// answered makes replica i one to ask in its turn.
func (r *replicas) answered(i int, c class) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.avoid[c][i] = time.Time{}
}

// failed makes replica i one to ask last for a while: for requests of this class if it was slow or
// busy, for all if it cannot be reached.
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
