package primcast

import (
	"slices"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// ack is when r-deliver(⟨ACK, m, h, E, ts, q⟩), lines 40-50.
func (c *Core) ack(q *peer, p *packet) {
	id := p.message.ID
	if c.peers[id.Sender] == nil || c.peers[p.epoch.Leader] == nil || c.peers[p.epoch.Leader].group != q.group {
		c.stats.BadPackets++
		return
	}
	c.have(q, id)
	if q.group == c.own {
		c.ackOwn(q, p)
	} else if m := c.learn(id); m != nil {
		c.count(m, q, p)             // line 47
		c.clock = max(c.clock, p.ts) // lines 48-49; line 50 is sayClock
	}
}

// ackOwn is lines 40-45.
func (c *Core) ackOwn(q *peer, p *packet) {
	isNew := q == c.leader() && p.epoch == c.current && p.index > c.known() // line 42
	if isNew && (c.state != Follower || p.index != c.known()+1) {
		c.stats.Gaps++
		return
	}
	m := c.learn(p.message.ID)
	if isNew {
		if m == nil || m.index != 0 {
			invariant.Check(false, "message %v is proposed again, as entry %d of T", p.message.ID, p.index)
		}
		m.epoch, m.ts, m.index = p.epoch, p.ts, p.index
		c.accepted = append(c.accepted, m)
		c.pend(m)
		c.follow()
	}
	c.heard(q, p.epoch, p.ts)
	if m != nil {
		c.count(m, q, p) // line 41
	}
}

// known is the index of the last proposal of the primary that is known here.
func (c *Core) known() uint64 { return c.last + uint64(len(c.accepted)) }

// follow is lines 43-45 for the proposals, in order, whose content is here.
func (c *Core) follow() {
	n := 0
	for n < len(c.accepted) && c.accepted[n].started {
		c.append(c.accepted[n])
		n++
	}
	c.accepted = slices.Delete(c.accepted, 0, n)
}

// learn gives the message that an ACK speaks of; nil if it was delivered and is
// forgotten. Line 47 adds START(m) to M here; we only expect it (fetch.go).
func (c *Core) learn(id multicast.MessageID) *message {
	m := c.messages[id]
	if m == nil && !c.done.has(id) {
		m = c.newMessage(id)
		c.expect(id)
	}
	return m
}

// count puts an ACK into M (lines 41, 47).
func (c *Core) count(m *message, q *peer, p *packet) {
	if !m.decided && m.count(q, p.epoch, p.ts) {
		c.learned(m)
	}
}

// learned updates the place of m after a local timestamp was decided or START came.
func (c *Core) learned(m *message) {
	if m.decided {
		return
	}
	bound := m.bound
	for i := range m.tallies {
		if t := &m.tallies[i]; t.decided() && m.To(t.group.id) {
			bound = max(bound, t.ts)
		}
	}
	final := m.finalTS()
	m.decided = final != 0
	c.raise(m, max(bound, final))
}

// raise lifts the lower bound of m's position.
func (c *Core) raise(m *message, bound multicast.Timestamp) {
	if bound == m.bound {
		return
	}
	m.bound = bound
	if m.index != 0 {
		c.pending.raised(m)
	}
}
