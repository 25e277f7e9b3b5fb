package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// How long one replica is waited for before the next is asked too; it doubles with each round over all of
// them, so that retries do not bury a cluster that is merely slow.
const (
	firstPatience = 2 * time.Second
	maxPatience   = 16 * time.Second
)

// Pauses between rounds over all replicas; the actual one is between half of it and all.
const (
	firstPause = 50 * time.Millisecond
	maxPause   = 2 * time.Second
)

// How long a replica that failed, or that has too much to do, is asked last.
const (
	avoidFailed     = 10 * time.Second
	avoidOverloaded = time.Second
)

// class is what a request needs of a replica.
type class int

const (
	reading  class = iota // that it is as new as the client
	ordering              // that a quorum answers it
	classes
)

// route says in which order the replicas of a partition are asked. A replica whose quorum is out of
// reach still reads: where a network is cut, reads must not go to the far side because updates
// were tried.
type route struct {
	replicas []topology.Replica // the nearest first

	mu    sync.Mutex
	avoid [classes][]time.Time // GUARDED_BY mu; until when each one is asked last
}

// newRoute orders replicas by distance. Those equally far begin anywhere, so that the clients
// of a region spread over its replicas.
func newRoute(from topology.Region, replicas []topology.Replica) *route {
	mixed := slices.Clone(replicas)
	rand.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
	r := &route{replicas: topology.Nearest(from, mixed)}
	for c := range r.avoid {
		r.avoid[c] = make([]time.Time, len(mixed))
	}
	return r
}

// order gives indexes of replicas: the nearest first, those to avoid last, the one
// that failed longest ago first.
func (r *route) order(c class) []int {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	order := make([]int, len(r.replicas))
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
func (r *route) answered(i int, c class) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.avoid[c][i] = time.Time{}
}

// failed makes replica i one to ask last for a while: for requests of this class if it was slow or
// busy, for all if it cannot be reached.
func (r *route) failed(i int, c class, why error) {
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

// exchange asks the replicas of p, the nearest first, until one answers or ctx ends. build
// makes the request anew for each try. doubt: somebody may have begun to execute
// a try that got no answer.
func (c *Client) exchange(ctx context.Context, p *partition, class class, build func() ask.Request) (reply ask.Reply, doubt bool, err error) {
	patience, wait := firstPatience, firstPause
	for {
		route := p.route.Load()
		for _, i := range route.order(class) {
			if c.suspended.Load() {
				return ask.Reply{}, doubt, errSuspended
			}
			request := build()
			reply, err := c.try(ctx, route.replicas[i].Process, &request, patience)
			switch {
			case err == nil && reply.Status != ask.Overloaded:
				route.answered(i, class)
				return reply, doubt, nil
			case ctx.Err() != nil:
				return ask.Reply{}, true, ctx.Err()
			}
			route.failed(i, class, err)
			if err != nil {
				doubt = true
				c.events.logger.Debug("a replica does not answer: asking the next", "partition", p.id, "server", route.replicas[i].Server, "error", err)
			}
		}
		c.events.warn(fmt.Sprintf("partition %d", p.id),
			"no replica of a partition answers: trying on; check that its servers run and can be reached, and whether they are overloaded",
			"partition", p.id, "path", p.path)
		if err := pause.Between(ctx, wait/2, wait); err != nil {
			return ask.Reply{}, doubt, err
		}
		patience, wait = min(2*patience, maxPatience), min(2*wait, maxPause)
	}
}

// try asks one replica.
func (c *Client) try(ctx context.Context, to multicast.ProcessID, request *ask.Request, patience time.Duration) (ask.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answer, err := c.cfg.Caller.Call(ctx, to, request.Append(nil))
	if err != nil {
		return ask.Reply{}, err
	}
	reply, err := ask.DecodeReply(answer)
	if err != nil {
		return ask.Reply{}, err
	}
	c.vector.merge(reply.Vector)
	return reply, nil
}
