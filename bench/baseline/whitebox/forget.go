package whitebox

import (
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// peerDelivered: q has delivered all of its messages up to a position.
func (c *Core) peerDelivered(q *peer, p multicast.Position) bool {
	if p.Compare(q.delivered) > 0 {
		q.delivered, c.news = p, true
	}
	return c.leads
}

// forget: the leader says that all up to a position is delivered by all its destinations.
func (c *Core) forget(q *peer, p multicast.Position) bool {
	if q != c.own.leader || c.leads || p.Compare(c.self.delivered) > 0 {
		return false
	}
	for m := c.oldest(); m != nil && m.position().Compare(p) <= 0; m = c.oldest() {
		c.drop(m)
	}
	return true
}

// maxFree is how many forgotten messages are kept for reuse.
const maxFree = 1 << 12

// drop forgets the oldest message delivered here.
func (c *Core) drop(m *message) {
	c.unforgot.Pop()
	delete(c.messages, m.ID)
	*m = message{}
	if len(c.free) < maxFree {
		c.free = append(c.free, m)
	}
}

// forgetDelivered forgets, at a leader, the messages that all destinations have delivered, and owes the
// followers the news.
func (c *Core) forgetDelivered() {
	if !c.leads || !c.news {
		return
	}
	c.news = false
	for _, g := range c.groups { // in any order: each for itself
		g.delivered = g.members[0].delivered
		for _, q := range g.members[1:] {
			if q.delivered.Compare(g.delivered) < 0 {
				g.delivered = q.delivered
			}
		}
	}
	before := c.told
	for m := c.oldest(); m != nil && m.deliveredByAll(); m = c.oldest() {
		c.told = m.position()
		c.drop(m)
	}
	if c.told != before {
		for _, q := range c.own.members {
			q.owed = true
		}
	}
}

func (m *message) deliveredByAll() bool {
	at := m.position()
	for _, g := range m.route.groups {
		if g.delivered.Compare(at) < 0 {
			return false
		}
	}
	return true
}

// tell adds the news that a receiver is owed to its frame of this step. News that was owed for too long goes
// in a frame of its own.
func (c *Core) tell(now time.Duration) {
	due, left := c.tellAt != 0 && now >= c.tellAt, false
	c.self.owed = false
	for _, q := range c.order {
		if !q.owed {
			continue
		}
		if len(q.Frame) == 0 && !due {
			left = true
			continue
		}
		q.owed = false
		if q == q.group.leader {
			q.Frame = delivered(kindDelivered, c.self.delivered).append(q.Frame)
		} else {
			q.Frame = delivered(kindForget, c.told).append(q.Frame)
		}
	}
	switch {
	case !left:
		c.tellAt = 0
	case c.tellAt == 0:
		c.tellAt = now + tellAfter
	}
	c.out.Wake = c.tellAt
}

func delivered(k kind, p multicast.Position) *packet {
	return &packet{kind: k, id: p.ID, ts: p.Final}
}

// oldest returns the message that was delivered first of those that may not be delivered everywhere, or nil.
func (c *Core) oldest() *message {
	if first := c.unforgot.First(); first != nil {
		return *first
	}
	return nil
}
