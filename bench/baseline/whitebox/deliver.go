package whitebox

import "github.com/globalfs/globalfs/pkg/multicast"

// deliverCommitted is the end of the fourth step, at a leader.
func (c *Core) deliverCommitted() {
	for len(c.pending) > 0 && c.pending[0].committed {
		m := c.pending.Pop()
		p := packet{kind: kindDeliver, id: m.ID, ts: m.final}
		for _, q := range c.own.members {
			if q != c.self {
				q.Frame = p.append(q.Frame)
			}
		}
		c.delivered(m)
	}
}

// deliver is the fifth step, at a follower.
func (c *Core) deliver(q *peer, p *packet) bool {
	m := c.messages[p.id]
	if c.leads || q != c.own.leader || m == nil || m.delivered || p.position().Compare(c.self.delivered) <= 0 {
		return false
	}
	if m.votes[m.route.own].local == 0 || p.ts < m.final {
		return false
	}
	m.bound, m.final = p.ts, p.ts
	c.clock = max(c.clock, p.ts) // I1
	c.safe = p.ts - 1
	c.delivered(m)
	return true
}

// delivered hands m over and notes the processes that are to hear of it.
func (c *Core) delivered(m *message) {
	c.out.Deliveries = append(c.out.Deliveries, multicast.Delivery{Message: m.Message, Final: m.final})
	m.delivered = true
	c.self.delivered = m.position()
	*c.unforgot.Push() = m
	for _, g := range m.route.groups {
		g.leader.owed = true
	}
	c.news = true
}
