package primcast

import (
	"slices"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// cover records the durable progress of the own state machine as coverage, which lets peers forget the
// messages. It leaves out the classes in which this process still needs peers: after a restart it needs ACKs,
// or final timestamps, for messages that are pending again. If the state machine is ahead of the log, only
// the part that the log contains is covered, because peers must keep the rest for T.
func (c *delivery) cover(p multicast.Progress) {
	c.log.finals()
	for _, at := range p {
		if held := c.held.Of(at.Class); at.Compare(held) > 0 {
			at.Position = held
		}
		if at.Compare(c.self.covered.Of(at.Class)) > 0 && c.concerns(at.Class, c.self) && !c.needs(at) {
			c.covers(c.self, at)
		}
	}
}

// needs reports whether this process, after a restart, may need other processes for the deliveries of a class
// up to a position.
func (c *delivery) needs(at multicast.ClassPosition) bool {
	return c.inDoubt(at) || c.log.lacksFinal(at)
}

// inDoubt reports whether T and D may lack a delivery of a class up to a position, or its final timestamp.
// All pending messages of a class come after the delivered ones; without classes a message to one group may
// be delivered before one to several.
func (c *delivery) inDoubt(at multicast.ClassPosition) bool {
	return at.Compare(c.held.Of(at.Class)) > 0 || c.plain != nil && c.mayCome(at.Class, at.Position)
}

// holds returns the positions up to which T and D contain all deliveries: those of the last delivery of each
// class, since the start of this process or before.
func (c *delivery) holds() multicast.Progress {
	all := slices.Clone(c.own.forgotten)
	for m := range c.t.all() {
		if m.settled {
			all.Advance(m.class.name, m.position())
		}
	}
	return all
}

// onCovered handles the information that the state machine of q is durable up to a position.
func (c *delivery) onCovered(q *peer, p *coveredPacket) {
	if !c.concerns(p.Class, q) {
		c.stats.BadPackets++
		return
	}
	c.covers(q, p.ClassPosition)
}

// covers records that the state machine of q is durable up to a position.
func (c *delivery) covers(q *peer, at multicast.ClassPosition) {
	if !q.covered.Advance(at.Class, at.Position) {
		return
	}
	if q == c.self {
		for _, other := range c.order {
			other.coverageNew = true
		}
	}
	if q.member >= 0 {
		c.coveredUpTo(q.group, at.Class, q.group.coveredBy(at.Class, len(q.group.members())))
	}
}

// sendCovered appends to the frame of q the own coverage of the messages that concern q.
func (c *system) sendCovered(q *peer) {
	if !q.coverageNew || q.group == nil {
		return
	}
	q.coverageNew = false
	for _, at := range c.self.covered {
		if at.Class.To(q.group.id) && q.coverageSent.Advance(at.Class, at.Position) {
			q.frame = (&coveredPacket{at}).append(q.frame)
		}
	}
}

// coveredBy returns the highest position up to which at least count members cover a class.
func (g *group) coveredBy(name multicast.Class, count int) multicast.Position {
	var array [maxMembers]multicast.Position
	covered := array[:0]
	for _, q := range g.members() {
		covered = append(covered, q.covered.Of(name))
	}
	slices.SortFunc(covered, multicast.Position.Compare)
	return covered[len(covered)-count]
}

// coveredUpTo forgets the messages of a class up to p, which g does not need any more, if no other group
// needs them.
func (c *delivery) coveredUpTo(g *group, name multicast.Class, p multicast.Position) {
	x := c.find(name)
	if !g.covered.Advance(name, p) || x == nil {
		return
	}
	kept, n := x.kept[g], 0
	for ; n < len(kept) && kept[n].position().Compare(p) <= 0; n++ {
		m := kept[n]
		if m.keepers--; m.keepers == 0 {
			c.keptBytes -= packetSize(&m.Message)
			c.forget(m)
		}
	}
	clear(kept[:n])
	x.kept[g] = kept[n:]
}

// keep stores a delivered message until all its destination groups cover it. Deliveries of a class ascend, so
// messages are released in order; with Conflicts a message may be released later than possible.
func (c *delivery) keep(m *message) {
	for _, id := range m.Dest {
		if g := c.groups[id]; m.position().Compare(g.covered.Of(m.class.name)) > 0 {
			m.class.kept[g] = append(m.class.kept[g], m)
			m.keepers++
		}
	}
	if m.keepers == 0 {
		c.forget(m)
		return
	}
	c.keptBytes += packetSize(&m.Message)
}

// forget removes a message that no process needs.
func (c *variables) forget(m *message) {
	for _, id := range m.Dest {
		g := c.groups[id]
		g.lastGone = max(g.lastGone, m.index)
		g.forgotten.Advance(m.class.name, m.position())
	}
	delete(c.messages, m.ID)
	c.t.forget(m.index)
}
