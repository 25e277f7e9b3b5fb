package paxos

import (
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// multicast sends START to all destinations.
func (c *Member) multicast(m *multicast.Message) {
	to := c.routes.To(m.Dest)
	if m.ID.Sender != c.self.id || m.Order != multicast.Acyclic || to == nil || m.ID.Seq > maxNumber || m.After > maxNumber {
		c.stats.Refused++
		return
	}
	if m.ID.Seq <= c.self.high {
		c.stats.Repeated++
		return
	}
	p := packet{kind: kindStart, id: m.ID, ts: m.After, route: to.encoded, payload: m.Payload}
	for _, g := range to.groups {
		for _, q := range g.members {
			if q != c.self {
				q.Frame = p.append(q.Frame)
			}
		}
	}
	if !to.own {
		c.self.high = m.ID.Seq
		return
	}
	c.start(c.self, &p)
}

// start takes the content of a message in.
func (c *Member) start(q *peer, p *packet) bool {
	to := c.routes.Find(p.route)
	if to == nil || !to.own || p.id.Sender != q.id || p.id.Seq <= q.high {
		return false
	}
	m := c.known(p.id)
	q.high = p.id.Seq // I3
	m.Dest, m.Payload, m.After, m.route = to.dest, p.payload, p.ts, to
	c.rules.Start(m)
	return true
}

// hear takes in a timestamp of another group. Whoever says HARD second may find the message delivered and
// forgotten.
func (c *Member) hear(q *peer, p *packet) bool {
	if c.peers[p.id.Sender] == nil || q.group == c.own || p.kind == Soft && q != q.group.leader() {
		return false
	}
	if m := c.known(p.id); m != nil {
		c.rules.Hear(q.group, m, p.kind, p.ts)
		return true
	}
	return p.kind == Hard
}

// known gives a message that is known or may still come; nil if it was forgotten.
func (c *Member) known(id multicast.MessageID) *Message {
	sender := c.peers[id.Sender]
	if sender == nil {
		return nil
	}
	if m := sender.messages[id.Seq]; m != nil {
		return m
	}
	if id.Seq <= sender.high {
		return nil
	}
	m := c.fresh()
	m.ID, m.sender = id, sender
	sender.messages[id.Seq] = m
	c.kept++
	return m
}

func (c *Member) fresh() *Message {
	n := len(c.free)
	if n == 0 {
		return &Message{}
	}
	m := c.free[n-1]
	c.free = c.free[:n-1]
	return m
}

// learn carries out the decided commands.
func (c *Member) learn() {
	for batch := c.log.Next(); batch != nil; batch = c.log.Next() {
		r := varint.NewReader(batch)
		for r.Len() > 0 {
			var p packet
			if p.read(r); r.Err() != nil || !c.decided(&p) {
				c.stats.Malformed++
				break
			}
		}
	}
}

// decided carries out a command; false if it cannot be.
func (c *Member) decided(p *packet) bool {
	m := c.known(p.id)
	if m == nil || m.delivered || m.Assigned() == (p.kind == Assign) {
		return false
	}
	switch p.kind {
	case Assign:
		c.clock = max(c.clock, p.ts) + 1
		m.bound, p.ts = c.clock, c.clock
		c.pending.Push(m)
	case SyncSoft, Final:
		c.clock = max(c.clock, p.ts)
	default:
		return false
	}
	c.rules.Decide(m, p.kind, p.ts)
	return true
}

// seal, at a leader, sends the proposals of this step; false if there are none.
func (c *Member) seal() bool {
	instance, batch := c.log.Seal()
	if instance == 0 {
		return false
	}
	p := packet{kind: kindAccept, number: instance, payload: batch}
	for _, q := range c.own.members[1:] {
		q.Frame = p.append(q.Frame)
	}
	return true
}

// sayAccepted, at a follower, tells the members the instances that it has accepted in this step.
func (c *Member) sayAccepted() {
	upTo := c.log.Tell()
	if upTo == 0 {
		return
	}
	p := packet{kind: kindAccepted, number: upTo}
	for _, q := range c.own.members {
		if q != c.self {
			q.Frame = p.append(q.Frame)
		}
	}
}

// deliver hands over each message that is final and before all others that have a local timestamp.
func (c *Member) deliver() {
	for len(c.pending) > 0 && c.pending[0].final && c.pending[0].Started() {
		m := c.pending.Pop()
		c.out.Deliveries = append(c.out.Deliveries, multicast.Delivery{Message: m.Message, Final: m.bound})
		m.delivered = true
		c.self.delivered = m.position()
		*c.unforgot.Push() = m
		for _, g := range m.route.groups {
			g.shared = m.position()
		}
		c.own.leader().owed = true
		c.news = true
	}
}

// Leads reports whether this process leads its group.
func (c *Member) Leads() bool { return c.leads }

// Group returns the own group.
func (c *Member) Group() *Group { return c.own }

// Propose, at a leader, proposes a command; ts is After for Assign.
func (c *Member) Propose(command Kind, m *Message, ts multicast.Timestamp) {
	p := packet{kind: command, id: m.ID, ts: ts}
	c.command = p.append(c.command[:0])
	c.log.Propose(c.command)
}

// TellLeaders sends a timestamp of m to the leaders of its other destination groups.
func (c *Member) TellLeaders(kind Kind, m *Message, ts multicast.Timestamp) {
	p := packet{kind: kind, id: m.ID, ts: ts}
	for _, g := range m.route.groups {
		if g != c.own {
			q := g.leader()
			q.Frame = p.append(q.Frame)
		}
	}
}

// TellCounterparts sends a timestamp of m to the processes of its other destination groups that have the same
// place among their members as this one.
func (c *Member) TellCounterparts(kind Kind, m *Message, ts multicast.Timestamp) {
	p := packet{kind: kind, id: m.ID, ts: ts}
	for _, g := range m.route.groups {
		if g != c.own && c.self.index < len(g.members) {
			q := g.members[c.self.index]
			q.Frame = p.append(q.Frame)
		}
	}
}

// TellAll sends a timestamp of m to all processes of its other destination groups.
func (c *Member) TellAll(kind Kind, m *Message, ts multicast.Timestamp) {
	p := packet{kind: kind, id: m.ID, ts: ts}
	for _, g := range m.route.groups {
		if g == c.own {
			continue
		}
		for _, q := range g.members {
			q.Frame = p.append(q.Frame)
		}
	}
}

// Commit makes the final timestamp of m known, which has a local one that is not higher. The group's clock
// must be at or above it. A violation of this comes from bad packets and is counted.
func (c *Member) Commit(m *Message, ts multicast.Timestamp) {
	if m.final || !m.Assigned() || ts < m.bound || ts > c.clock {
		c.stats.Malformed++
		return
	}
	m.bound, m.final = ts, true
	c.pending.Fix(m.slot)
}
