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

// Times for which a replica that failed, or was overloaded, is asked last.
const (
	avoidFailed     = 10 * time.Second
	avoidOverloaded = time.Second
)

// class is the kind of a request, which determines the choice of the replica.
type class int

const (
	reading  class = iota // the replica itself answers
	ordering              // the replica needs a quorum for the answer
	watching              // the replica answers later, after a change or the end of a lock
	classes
)

// replicas are the replicas of a partition in the order of requests. The order differs between the classes of
// requests: a replica without a reachable quorum still answers reads, so during a cut of the network failed
// updates must not send reads to the distant side.
//
// An update at the leader needs fewer messages than one at another replica, and the same number of steps. So
// updates go to the leader if no other replica is nearer.
type replicas struct {
	from       topology.Region    // of the client
	all        []topology.Replica // the nearest first
	near       int                // number of replicas that are as near as the nearest one
	quorumTrip time.Duration      // estimated from the regions

	mu     sync.Mutex
	leader int                  // index in all of the probable leader; -1: unknown
	avoid  [classes][]time.Time // by class and replica: the replica is asked last until this time
}

// newReplicas orders replicas by distance. Replicas at the same distance are in random order, so that the
// reads of a region's clients spread over its replicas. At first, the first replica of the partition counts
// as the leader.
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

// leads records the leader by its index in r.all; -1: the leader is not among the nearest replicas.
func (r *replicas) leads(i int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leader = i
}

// candidates returns the replicas that may be asked for the leader: the nearest ones, the probable leader
// first. It returns none if there is no choice.
func (r *replicas) candidates() []int {
	if r.near < 2 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leaderFirst()[:r.near]
}

// leaderFirst returns the indexes of all replicas: the leader first if no other one is nearer, and then by
// distance.
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

// order returns the indexes of the replicas in the order in which to ask them: by distance, or for updates
// leaderFirst. Replicas to avoid are last, the one with the earliest end first.
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

// answered ends the time for which replica i is avoided.
func (r *replicas) answered(i int, c class) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.avoid[c][i] = time.Time{}
}

// failed makes replica i the last one for a while: for requests of this class if it was slow or overloaded,
// for all classes if it is unreachable.
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

// avoidServer makes the replicas on a server the last ones for a while, for all requests.
func (r *replicas) avoidServer(server string) {
	for i := range r.all {
		if r.all[i].Server == server {
			r.failed(i, ordering, errHangs)
		}
	}
}

// avoidServer makes the replicas on a server that hangs the last ones for a while, in all partitions.
// Otherwise each partition would wait for the server.
func avoidServer(partitions []*partition, server string) {
	for _, p := range partitions {
		p.replicas.Load().avoidServer(server)
	}
}
