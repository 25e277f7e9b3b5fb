package primcast

import (
	"slices"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// cover says how far the own state machine is durable, if this process can do without what peers will
// then forget: it needs ACKs, of peers or from its log as final
// timestamps, for what is not delivered again yet after a restart.
func (c *Core) cover(p multicast.Position) {
	c.logFinals()
	if len(c.unnoted) > 0 && c.unnoted[0].position().Compare(p) <= 0 ||
		len(c.pending) > 0 && c.pending[0].position().Compare(p) <= 0 {
		return
	}
	c.covers(c.self, p)
}

// covers notes that the state machine of q is durable up to p.
func (c *Core) covers(q *peer, p multicast.Position) {
	if p.Compare(q.covered) <= 0 {
		return
	}
	q.covered = p
	g := q.group
	g.covered = slices.MinFunc(g.members, func(a, b *peer) int { return a.covered.Compare(b.covered) }).covered
	for len(g.kept) > 0 && g.kept[0].position().Compare(g.covered) <= 0 {
		c.keep(g.kept.pop())
	}
}

// keep puts a delivered message to one of its destination groups that does not cover it;
// if there is none, nobody needs it any more.
func (c *Core) keep(m *message) {
	for _, id := range m.Dest {
		if g := c.groups[id]; m.position().Compare(g.covered) > 0 {
			g.kept.push(m)
			return
		}
	}
	delete(c.messages, m.ID)
	delete(c.outbox.sent, m.ID)
	c.stats.Entries--
	c.log.live -= packetSize(&m.Message)
}
