package heron

import (
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

type phase uint8

const (
	gathering phase = iota // phase 2
	fetching               // phase 3, before the values have come
	leaving                // phase 4
)

// request is the request that this process executes.
type request struct {
	delivery multicast.Delivery
	phase    phase
	before   map[multicast.GroupID]meeting // for each group of the request: the meeting before the request
	places   map[multicast.GroupID]uint64  // the places of the request in the logs of other groups
	values   map[ObjectID][]byte           // the values of remote objects
	fetches  []*fetch
	response []byte
	since    time.Duration // the phase has begun
	quorumAt time.Duration // when a quorum of each group had executed the request
}

// enter informs all processes of the request's groups that this process has reached the request (lines 8 and
// 9).
func (c *Core) enter(d multicast.Delivery) {
	r := &request{
		delivery: d, since: c.now, before: map[multicast.GroupID]meeting{}, places: map[multicast.GroupID]uint64{},
		values: map[ObjectID][]byte{},
	}
	for _, h := range d.Dest {
		old := c.meetings[h]
		r.before[h] = old
		c.meetings[h] = meeting{count: old.count + 1, place: uint64(d.Final)}
	}
	c.current = r
	c.stats.Shared++
}

// enterPhase begins the next phase of the current request, and adds the time of the one before to a count.
func (c *Core) enterPhase(next phase, spent *time.Duration) {
	*spent += c.now - c.current.since
	c.current.phase, c.current.since = next, c.now
}

// learn keeps the places of the request that other processes have reported.
func (c *Core) learn(r *request) {
	for _, h := range r.delivery.Dest {
		if _, ok := r.places[h]; ok || h == c.group.ID {
			continue
		}
		for _, id := range c.groups[h].Members {
			if m := c.meetingOf(c.peers[id]); m.count == c.meetings[h].count {
				r.places[h] = m.place
			}
		}
	}
}

// gathered waits for a quorum of each group (lines 10 and 11), and begins to read.
func (c *Core) gathered() bool {
	r := c.current
	c.learn(r)
	for _, h := range r.delivery.Dest {
		if quorum, _ := c.reached(c.groups[h], c.meetings[h].count, false); !quorum {
			return false
		}
	}
	c.enterPhase(fetching, &c.stats.Gathering)
	c.begin(r)
	return true
}

// fetched waits for the values of remote objects, and executes (lines 12 to 16).
func (c *Core) fetched() bool {
	r := c.current
	c.learn(r)
	if !c.fetchAll(r) {
		return false
	}
	c.execute()
	for _, h := range r.delivery.Dest {
		m := c.meetings[h]
		m.executed = true
		c.meetings[h] = m
	}
	c.enterPhase(leaving, &c.stats.Fetching)
	return true
}

// left waits until a quorum of each group has executed the request (lines 17 to 20), and a little longer for
// the others.
func (c *Core) left() bool {
	r := c.current
	everyone := true
	for _, h := range r.delivery.Dest {
		quorum, all := c.reached(c.groups[h], c.meetings[h].count, true)
		if !quorum {
			return false
		}
		everyone = everyone && all
	}
	if r.quorumAt == 0 {
		r.quorumAt = max(c.now, 1)
		if !everyone {
			c.stats.Delayed++
		}
	}
	if !everyone && c.cfg.Patience > 0 && !c.wakeAfter(r.quorumAt, c.cfg.Patience) {
		return false
	}
	c.stats.DelayedBy += c.now - min(c.now, r.quorumAt)
	c.stats.Leaving += c.now - r.since
	c.finish()
	return true
}
