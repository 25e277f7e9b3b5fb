package paxos

import (
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// tellAfter is how long news of deliveries waits for a frame to ride on.
const tellAfter = 100 * time.Millisecond

// maxFree is how many forgotten messages are kept for reuse.
const maxFree = 1 << 12

// peerDelivered, at a leader: a member has delivered all up to a position, or the group of another leader
// has.
func (c *Member) peerDelivered(q *peer, at multicast.Position) bool {
	if !c.leads || q.group != c.own && q.index != 0 {
		return false
	}
	into := &q.delivered
	if q.group != c.own {
		into = &q.group.delivered
	}
	if at.Compare(*into) > 0 {
		*into, c.news = at, true
	}
	return true
}

// forget: the leader says that all up to a position is delivered by all its destinations.
func (c *Member) forget(q *peer, at multicast.Position) bool {
	if q != c.own.leader() || c.leads || at.Compare(c.self.delivered) > 0 {
		return false
	}
	for m := c.oldest(); m != nil && m.position().Compare(at) <= 0; m = c.oldest() {
		c.drop(m)
	}
	return true
}

// drop forgets the oldest message delivered here.
func (c *Member) drop(m *Message) {
	c.unforgot.Pop()
	delete(m.sender.messages, m.ID.Seq)
	c.kept--
	*m = Message{}
	if len(c.free) < maxFree {
		c.free = append(c.free, m)
	}
}

// forgetDelivered forgets, at a leader, the messages that all destinations have delivered. It owes the
// followers that news, and the other leaders how far the own group is.
func (c *Member) forgetDelivered() {
	if !c.leads || !c.news {
		return
	}
	c.news = false
	c.own.delivered = c.self.delivered
	for _, q := range c.own.members[1:] {
		if q.delivered.Compare(c.own.delivered) < 0 {
			c.own.delivered = q.delivered
		}
	}
	for _, g := range c.all {
		if g != c.own && g.told.Compare(c.own.delivered) < 0 && g.told.Compare(g.shared) < 0 {
			g.leader().owed = true
		}
	}
	before := c.forgot
	for m := c.oldest(); m != nil && m.deliveredByAll(); m = c.oldest() {
		c.forgot = m.position()
		c.drop(m)
	}
	if c.forgot != before {
		for _, q := range c.own.members {
			q.owed = true
		}
	}
}

// tell adds the news that a receiver is owed to its frame of this step. News that was owed for too long goes
// in a frame of its own.
func (c *Member) tell(now time.Duration) {
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
		p := c.owedTo(q)
		q.Frame = p.append(q.Frame)
	}
	switch {
	case !left:
		c.tellAt = 0
	case c.tellAt == 0:
		c.tellAt = now + tellAfter
	}
	c.out.Wake = c.tellAt
}

// owedTo says how far we are, or everybody is.
func (c *Member) owedTo(q *peer) packet {
	switch {
	case q.group != c.own:
		q.group.told = c.own.delivered
		return told(kindDelivered, c.own.delivered)
	case c.leads:
		return told(kindForget, c.forgot)
	default:
		return told(kindDelivered, c.self.delivered)
	}
}

// oldest returns the message that was delivered first of those that may not be delivered everywhere, or nil.
func (c *Member) oldest() *Message {
	if first := c.unforgot.First(); first != nil {
		return *first
	}
	return nil
}
