package primcast

import (
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// onStart handles START(m) from its sender, or from another process on request (lines 33-34).
func (c *delivery) onStart(q *peer, p *startPacket) {
	if !p.message.To(c.own.id) || !c.offers(&p.message) {
		c.stats.BadPackets++
		return
	}
	m := c.messages[p.message.ID]
	switch {
	case m == nil && c.done.has(p.message.ID) || m != nil && m.logged:
		if sender := c.peers[p.message.ID.Sender]; sender == q && !p.message.To(q.group.id) {
			q.frame = (&havePacket{p.message.ID}).append(q.frame)
		}
	case m == nil:
		c.begun(c.newMessage(p.message.ID), &p.message, p.prev)
	case !m.started:
		c.begun(m, &p.message, p.prev)
	case m.prev == 0:
		m.prev = p.prev
	}
}

// begun adds START(m) to M.
func (c *delivery) begun(m *message, start *multicast.Message, prev uint64) {
	isProposed := m.index != 0
	if isProposed {
		c.unqueue(m) // its class is known now
	}
	m.Message, m.class, m.started, m.prev = *start, c.classOf(start.Dest), true, prev
	if isProposed {
		c.requeue(m)
		c.follow()
	} else {
		c.unproposed++
		c.fresh = append(c.fresh, m)
	}
	c.learned(m)
	c.moved(m)
}

func (c *delivery) newMessage(id multicast.MessageID) *message {
	m := &message{Message: multicast.Message{ID: id}, class: c.plain}
	c.messages[id] = m
	return m
}

// proposable reports whether the primary of g may propose m (lines 24-25).
func (m *message) proposable(g multicast.GroupID) bool {
	return m.started && m.index == 0 && m.localTS(g) == 0
}

// propose makes the primary propose messages (lines 35-39), with the lower bound that the sender may give (T
// 4.4.2) and the hybrid clock (T 4.4.1). It proposes about one frame of messages in a step, which also bounds
// the records of the step.
func (c *delivery) propose(out *multicast.Output) {
	c.beginOverlap()
	n := 0
	for size := 0; n < len(c.fresh) && size < c.config.MaxFrame; n++ {
		m := c.fresh[n]
		if c.state != Primary || !m.proposable(c.own.id) {
			continue
		}
		c.clock = max(c.clock, m.After, c.realClock()) + 1 // line 37
		m.ts, m.index = c.clock, c.t.last()+1
		size += packetSize(&m.Message)
		c.unproposed--
		c.pend(m)
		c.append(m)
	}
	c.fresh = slices.Delete(c.fresh, 0, n)
	if len(c.fresh) > 0 {
		wake(out, c.now)
	}
}

// realClock returns a timestamp one microsecond before the wall clock; 0 without the hybrid clock.
func (c *system) realClock() multicast.Timestamp {
	if !c.config.HybridClock || c.wall <= 0 {
		return 0
	}
	return multicast.Timestamp(c.wall/int64(time.Microsecond)) - 1
}

// append appends m to T, durably, and sends the entry to all of m.dest (lines 38-39 and 43-45).
func (c *variables) append(m *message) {
	c.t.append(m)
	c.log.entry(m)
	c.clock = max(c.clock, m.ts) // line 44
	for _, id := range m.Dest {
		g := c.groups[id]
		prev := g.lastOwn
		g.lastOwn = m.index
		for _, q := range g.members() {
			q.speak = q.speak || g != c.own // acknowledge does this for the own group
			if c.state == Primary && q != c.self {
				c.sendProposal(q, m.entry(c.current, prev))
			}
		}
	}
	c.sendHave(m)
}

// sendHave informs the sender of m, if it is in another group and so gets no ACK for m, that m is in T.
func (c *system) sendHave(m *message) {
	if sender := c.peers[m.ID.Sender]; sender != nil && sender.group != nil && !m.To(sender.group.id) {
		sender.frame = (&havePacket{m.ID}).append(sender.frame)
	}
}

// ownEntry handles the next proposal of the primary, or an entry that follows NEW-STATE (lines 40-45).
func (c *Core) ownEntry(q *peer, p *entryPacket) {
	if c.incoming.takes(q, p.epoch) {
		c.stage(p)
		return
	}
	if p.epoch != c.current || p.index <= c.known() {
		return // it may be from the T with which the epoch begins, and then it does not prove that the epoch is active
	}
	c.receiveActive(q, p.epoch)
	if c.state != Follower { // line 42
		return
	}
	if p.index != c.known()+1 {
		c.gap(q)
		return
	}
	m := c.learn(p.id, c.own)
	if m == nil || m.index != 0 {
		invariant.Broken("message %v is proposed again, as entry %d of T", p.id, p.index)
	}
	if m.started {
		c.unproposed--
	}
	m.ts, m.index = p.ts, p.index
	c.accepted = append(c.accepted, m)
	c.pend(m)
	c.follow()
	c.decideUpTo(c.own)
}

// follow appends proposals of the primary to T, in order, up to the first whose content is missing (lines
// 43-45).
func (c *variables) follow() {
	if c.state != Follower {
		return
	}
	n := 0
	for n < len(c.accepted) && c.accepted[n].started {
		c.append(c.accepted[n])
		n++
	}
	c.accepted = slices.Delete(c.accepted, 0, n)
}

// learn returns the message that an entry of the log of g (T in the algorithm) names; nil if this process has
// delivered and forgotten it. Line 47 of the algorithm adds START(m), the content, to the known messages (M)
// here. This code waits for START(m) from the sender, and fetches it later if it has not come (fetch.go).
func (c *delivery) learn(id multicast.MessageID, g *group) *message {
	m := c.messages[id]
	if m == nil && !c.done.has(id) {
		m = c.newMessage(id)
		c.expect(id)
	}
	if m != nil {
		m.namedIn = g
	}
	return m
}
