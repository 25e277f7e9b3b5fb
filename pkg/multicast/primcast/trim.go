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
	isBelow := func(m *message) bool { return m.position().Compare(p) <= 0 }
	if len(c.pending) > 0 && isBelow(c.pending[0]) || slices.ContainsFunc(c.unnoted, isBelow) {
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
	if q.member >= 0 {
		c.coveredUpTo(q.group, q.group.coveredBy(len(q.group.members)))
	}
}

// coveredBy is up to where that many members cover all.
func (g *group) coveredBy(count int) multicast.Position {
	var array [maxMembers]multicast.Position
	covered := array[:0]
	for _, q := range g.members {
		covered = append(covered, q.covered)
	}
	slices.SortFunc(covered, multicast.Position.Compare)
	return covered[len(covered)-count]
}

// coveredUpTo lets go of what the group does not need.
func (c *Core) coveredUpTo(g *group, p multicast.Position) {
	if p.Compare(g.covered) <= 0 {
		return
	}
	g.covered = p
	n := 0
	for ; n < len(g.kept) && g.kept[n].position().Compare(p) <= 0; n++ {
		m := g.kept[n]
		if m.keepers--; m.keepers == 0 {
			c.forget(m)
		}
	}
	clear(g.kept[:n])
	g.kept = g.kept[n:]
}

// keep holds a delivered message until all its destination groups cover it. Deliveries ascend, so that each
// group's come off in order; with Conflicts some wait for an earlier one.
func (c *Core) keep(m *message) {
	for _, id := range m.Dest {
		if g := c.groups[id]; m.position().Compare(g.covered) > 0 {
			g.kept = append(g.kept, m)
			m.keepers++
		}
	}
	if m.keepers == 0 {
		c.forget(m)
	}
}

// forget drops a message that nobody needs any more.
func (c *Core) forget(m *message) {
	for _, id := range m.Dest {
		g := c.groups[id]
		g.lastGone = max(g.lastGone, m.index)
		if m.position().Compare(g.forgotten) > 0 {
			g.forgotten = m.position()
		}
	}
	delete(c.messages, m.ID)
	c.t.forget(m.index)
	c.dropEntry(m)
}
