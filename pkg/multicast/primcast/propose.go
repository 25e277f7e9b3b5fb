package primcast

import (
	"cmp"
	"slices"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// sent is an own message of which some destination process may not have START yet.
type sent struct {
	multicast.Message
	order   uint64   // of sending
	prev    []uint64 // for each destination group, the number sent to it before
	waiting []uint64 // for each destination group, a bit for each member that may not have it
}

// outbox is what this process multicasts.
type outbox struct {
	sent    map[multicast.MessageID]*sent
	count   uint64 // of messages so far
	lastSeq uint64
}

// multicast is a-multicast(m), lines 31-32.
func (c *Core) multicast(m *multicast.Message) {
	if m.Validate() != nil || m.ID.Sender != c.self.id || m.ID.Seq > maxNumber || m.After >= maxNumber || !c.allExist(m.Dest) {
		c.stats.Refused++
		return
	}
	if m.ID.Seq <= c.outbox.lastSeq {
		c.stats.Repeated++
		return
	}
	c.outbox.lastSeq = m.ID.Seq
	c.outbox.count++
	s := &sent{Message: *m, order: c.outbox.count, prev: make([]uint64, len(m.Dest)), waiting: make([]uint64, len(m.Dest))}
	c.outbox.sent[m.ID] = s
	for i, id := range m.Dest {
		g := c.groups[id]
		s.prev[i], g.lastSeq = g.lastSeq, m.ID.Seq
		for _, q := range g.members {
			s.waiting[i] |= 1 << q.member
			c.sendStart(q, m, s.prev[i])
		}
	}
}

// allExist reports whether all of dest are groups.
func (c *Core) allExist(dest []multicast.GroupID) bool {
	return !slices.ContainsFunc(dest, func(g multicast.GroupID) bool { return c.groups[g] == nil })
}

func (c *Core) sendStart(q *peer, m *multicast.Message, prev uint64) {
	q.frame = appendStart(grow(q.frame, m), m, prev)
}

// have notes that q has m: its ACK says so, or HAVE.
func (c *Core) have(q *peer, id multicast.MessageID) {
	s := c.outbox.sent[id]
	if s == nil {
		return
	}
	i := slices.Index(s.Dest, q.group.id)
	if i < 0 {
		c.stats.BadPackets++
		return
	}
	s.waiting[i] &^= 1 << q.member
	if !slices.ContainsFunc(s.waiting, func(w uint64) bool { return w != 0 }) {
		delete(c.outbox.sent, id)
	}
}

// resend sends q again, in order, the own messages that it may not have.
func (c *Core) resend(q *peer) {
	var again []*sent
	for _, s := range c.outbox.sent {
		if i := slices.Index(s.Dest, q.group.id); i >= 0 && s.waiting[i]&(1<<q.member) != 0 {
			again = append(again, s)
		}
	}
	slices.SortFunc(again, func(a, b *sent) int { return cmp.Compare(a.order, b.order) })
	for _, s := range again {
		c.sendStart(q, &s.Message, s.prev[slices.Index(s.Dest, q.group.id)])
	}
}

// start is lines 33-34, for START(m) from its sender or from another that was asked for it.
func (c *Core) start(q *peer, p *packet) {
	if !p.message.To(c.own.id) || !c.allExist(p.message.Dest) || c.peers[p.message.ID.Sender] == nil {
		c.stats.BadPackets++
		return
	}
	m := c.messages[p.message.ID]
	if m == nil && c.done.has(p.message.ID) || m != nil && m.logged {
		if q.id == p.message.ID.Sender {
			q.frame = appendHave(q.frame, p.message.ID)
		}
		return
	}
	if m == nil {
		m = c.newMessage(p.message.ID)
	} else if m.started {
		return
	}
	m.Message, m.started, m.prev = p.message, true, p.prev
	c.fresh = append(c.fresh, m)
	c.follow()
	c.learned(m)
}

func (c *Core) newMessage(id multicast.MessageID) *message {
	m := &message{Message: multicast.Message{ID: id}}
	c.messages[id] = m
	return m
}

// proposable is lines 24-25.
func (m *message) proposable(g multicast.GroupID) bool {
	return m.started && m.index == 0 && m.localTS(g) == 0
}

// propose is lines 35-39, with the lower bound that the sender may give (T 4.4.2).
func (c *Core) propose() {
	for _, m := range c.fresh {
		if c.state != Primary || !m.proposable(c.own.id) {
			continue
		}
		c.clock = max(c.clock, m.After) + 1 // line 37
		m.epoch, m.ts, m.index = c.current, c.clock, c.last+1
		c.pend(m)
		c.append(m)
	}
	clear(c.fresh)
	c.fresh = c.fresh[:0]
}

// append is lines 38-39 and 43-45: m joins T, durably, and is acknowledged.
func (c *Core) append(m *message) {
	c.logEntry(m)
	c.clock = max(c.clock, m.ts) // line 44
	for _, id := range m.Dest {
		for _, q := range c.groups[id].members {
			c.sendAck(q, m)
		}
	}
	if sender := c.peers[m.ID.Sender]; !m.To(sender.group.id) {
		sender.frame = appendHave(sender.frame, m.ID)
	}
}

// sendAck sends the own ACK for m, which is in T. It tells the own group the clock.
func (c *Core) sendAck(q *peer, m *message) {
	q.frame = appendAck(q.frame, m)
	if q.group == c.own {
		q.said = max(q.said, m.ts)
	}
}
