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
	watching              // it tells changes, or the end of a lock, later
	classes
)

// replicas are the replicas of a partition in the order of requests. A replica without a reachable quorum
// still answers reads: while a network is cut, reads must not go to the far side because of failed updates.
//
// An update that goes to the leader needs fewer messages than one that goes to another replica, and the same
// number of steps. So updates go to the leader if no other replica is nearer.
type replicas struct {
	from       topology.Region    // of the client
	all        []topology.Replica // the nearest first
	near       int                // so many replicas are as near as the nearest
	quorumTrip time.Duration      // estimated from the regions

	mu     sync.Mutex
	leader int                  // GUARDED_BY mu; the probable leader, by its place in all; -1: unknown
	avoid  [classes][]time.Time // GUARDED_BY mu; each replica is asked last until this time
}

// newReplicas orders replicas by distance. Replicas at the same distance are in random order, so that the
// reads of the clients of a region spread over its replicas. The first replica of a partition leads at first.
func newReplicas(from topology.Region, all []topology.Replica) *replicas {
	mixed := slices.Clone(all)
	rand.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
	r := &replicas{from: from, all: topology.Nearest(from, mixed)}
	r.quorumTrip = quorumTrip(from, r.all)
	for r.near < len(r.all) && topology.Delay(from, r.all[r.near].Region) == topology.Delay(from, r.all[0].Region) {
		r.near++
	}
	if len(all) > 0 {
		r.leader = slices.IndexFunc(r.all, func(x topology.Replica) bool { return x.Process == all[0].Process })
	}
	for c := range r.avoid {
		r.avoid[c] = make([]time.Time, len(mixed))
	}
	return r
}

// leads records the index of the leader in r.all; -1: the leader is not among the nearest replicas.
func (r *replicas) leads(i int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leader = i
}

// candidates returns the nearest replicas, the probable leader first; none if there is no choice.
func (r *replicas) candidates() []int {
	if r.near < 2 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leaderFirst()[:r.near]
}

// leaderFirst returns the indexes of all replicas: the leader first if no other one is nearer, then the
// nearest.
func (r *replicas) leaderFirst() []int {
	order := make([]int, 0, len(r.all))
	if 0 <= r.leader && r.leader < r.near {
		order = append(order, r.leader)
	}
	for i := range r.all {
		if len(order) == 0 || i != order[0] {
			order = append(order, i)
		}
	}
	return order
}

// order returns indexes of replicas: the nearest first, or for updates their leader, those to avoid last, and
// among these the one with the earliest failure first.
func (r *replicas) order(c class) []int {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	var order []int
	if c == ordering {
		order = r.leaderFirst()
	} else {
		for i := range r.all {
			order = append(order, i)
		}
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

// avoidServer puts the replicas on a server last for a while, for all requests.
func (r *replicas) avoidServer(server string) {
	for i := range r.all {
		if r.all[i].Server == server {
			r.failed(i, ordering, errHangs)
		}
	}
}

// avoidServer puts the replicas on a server that hangs last for a while, in all partitions: otherwise each
// partition would wait for the server.
func avoidServer(partitions []*partition, server string) {
	for _, p := range partitions {
		p.replicas.Load().avoidServer(server)
	}
}
