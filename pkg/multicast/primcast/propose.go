package primcast

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// sent is an own message to other groups only, of which some destination process may not have
// START yet. Those to the own group too are in M.
type sent struct {
	multicast.Message
	prevs []uint64 // for each destination group, the number sent to it before
	has   []uint64 // for each destination group, a bit for each member that has it
	open  bool     // in some group, no quorum has it
}

// outbox is what this process multicasts.
type outbox struct {
	sent    map[multicast.MessageID]*sent
	lastSeq uint64
	open    int                 // own messages that are on the way
	bytes   int                 // of their packets
	held    []multicast.Message // they wait until fewer are on the way, or for others to be packed with
	packAt  time.Duration       // when what is held for packing leaves; 0: nothing is
}

// windowOpen reports whether more own messages may be on the way.
func (c *Core) windowOpen() bool {
	return c.outbox.open < c.config.Window && c.outbox.bytes < c.config.WindowBytes
}

// opened notes that an own message is on the way, closed that it is not any more.
func (o *outbox) opened(m *multicast.Message) { o.open, o.bytes = o.open+1, o.bytes+packetSize(m) }

func (o *outbox) closed(m *multicast.Message) { o.open, o.bytes = o.open-1, o.bytes-packetSize(m) }

// accept takes in what the application multicasts, within the window, after the packing delay, and of that about a frame
// in each step.
func (c *Core) accept(proposed []multicast.Message, out *multicast.Output) {
	o := &c.outbox
	o.held = append(o.held, proposed...)
	if c.config.PackDelay > 0 && len(o.held) > 0 {
		if o.packAt == 0 {
			o.packAt = c.now + c.config.PackDelay
		}
		if o.packAt > c.now {
			c.wake(out, o.packAt)
			return
		}
		o.packAt = 0
	}
	n := 0
	for size := 0; n < len(o.held) && c.windowOpen() && size < c.config.MaxFrame; n++ {
		size += packetSize(&o.held[n])
		c.multicast(&o.held[n])
	}
	o.held = slices.Delete(o.held, 0, n)
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
	c.outbox.opened(m)
	prevs := make([]uint64, len(m.Dest))
	for i, id := range m.Dest {
		g := c.groups[id]
		prevs[i], g.lastSeq = g.lastSeq, m.ID.Seq
		for _, q := range g.members {
			if q != c.self {
				c.sendStart(q, m, prevs[i])
			}
		}
	}
	if i := slices.Index(m.Dest, c.own.id); i >= 0 {
		x := c.newMessage(m.ID)
		x.own, x.prevs = true, prevs
		c.begun(x, m, prevs[i])
		return
	}
	s := &sent{Message: *m, prevs: prevs, has: make([]uint64, len(m.Dest)), open: true}
	c.outbox.sent[m.ID] = s
}

// allExist reports whether all of dest are groups.
func (c *Core) allExist(dest []multicast.GroupID) bool {
	return !slices.ContainsFunc(dest, func(g multicast.GroupID) bool { return c.groups[g] == nil })
}

func (c *Core) sendStart(q *peer, m *multicast.Message, prev uint64) {
	q.frame = appendStart(grow(q.frame, m), m, prev)
}

// have notes that q, which is not in the own group, has m.
func (c *Core) have(q *peer, id multicast.MessageID) {
	s := c.outbox.sent[id]
	if s == nil {
		return
	}
	i := slices.Index(s.Dest, q.group.id)
	if i < 0 || q.member < 0 {
		c.stats.BadPackets++
		return
	}
	s.has[i] |= 1 << q.member
	quorums, all := true, true
	for i, id := range s.Dest {
		g, has := c.groups[id], bits.OnesCount64(s.has[i])
		quorums, all = quorums && has >= g.quorum, all && has == len(g.members)
	}
	if quorums && s.open {
		s.open = false
		c.outbox.closed(&s.Message)
	}
	if all {
		delete(c.outbox.sent, id)
	}
}

// again is an own message that a process may not have.
type again struct {
	*multicast.Message
	prev   uint64
	logged bool
}

// unheard lists, in order, the own messages from a number on that q may not have. A member of the own group gets what
// is in T together with T (stream).
func (c *Core) unheard(q *peer, from uint64) (all []again) {
	for _, s := range c.outbox.sent {
		i := slices.Index(s.Dest, q.group.id)
		if s.ID.Seq >= from && i >= 0 && s.has[i]&(1<<q.member) == 0 {
			all = append(all, again{&s.Message, s.prevs[i], false})
		}
	}
	for _, m := range c.messages {
		i := slices.Index(m.Dest, q.group.id)
		if m.own && m.ID.Seq >= from && i >= 0 && (!m.logged || q.group != c.own && m.position().Compare(q.covered) > 0) {
			all = append(all, again{&m.Message, m.prevs[i], m.logged})
		}
	}
	slices.SortFunc(all, func(a, b again) int { return cmp.Compare(a.ID.Seq, b.ID.Seq) })
	return all
}

// resend sends q again, in order, the own messages from a number on that it may not have, and remembers where it must go on in
// the next step. What is in T and too much for the first frame q fetches: it hears of it from others.
func (c *Core) resend(q *peer, from uint64) {
	q.resume = 0
	for _, s := range c.unheard(q, from) {
		switch {
		case s.logged && (from > 1 || !c.room(q)):
		case c.room(q):
			c.sendStart(q, s.Message, s.prev)
		default:
			q.resume = s.ID.Seq
			return
		}
	}
}

// resendRest goes on with what was too much for earlier steps.
func (c *Core) resendRest(out *multicast.Output) {
	for _, q := range c.order {
		if q.resume != 0 && q.member >= 0 && c.room(q) {
			c.resend(q, q.resume)
		}
		if q.resume != 0 && q.member >= 0 {
			c.wake(out, c.now)
		}
	}
}

// start is lines 33-34, for START(m) from its sender or from another that was asked for it.
func (c *Core) start(q *peer, p *packet) {
	if !p.message.To(c.own.id) || !c.allExist(p.message.Dest) {
		c.stats.BadPackets++
		return
	}
	m := c.messages[p.message.ID]
	switch {
	case m == nil && c.done.has(p.message.ID) || m != nil && m.logged:
		if sender := c.peers[p.message.ID.Sender]; sender == q && !p.message.To(q.group.id) {
			q.frame = appendHave(q.frame, p.message.ID)
		}
	case m == nil:
		c.begun(c.newMessage(p.message.ID), &p.message, p.prev)
	case !m.started:
		c.begun(m, &p.message, p.prev)
	case m.prev == 0:
		m.prev = p.prev
	}
}

// begun puts START(m) into M.
func (c *Core) begun(m *message, start *multicast.Message, prev uint64) {
	m.Message, m.started, m.prev = *start, true, prev
	if m.index == 0 {
		c.unproposed++
		c.fresh = append(c.fresh, m)
	} else {
		c.follow()
	}
	c.learned(m)
	c.moved(m)
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

// propose is lines 35-39, with the lower bound that the sender may give (T 4.4.2) and the hybrid
// clock (T 4.4.1).
//
// What it proposes in a step is about a frame: entries, and the records of T, are bounded with it.
func (c *Core) propose(out *multicast.Output) {
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
		c.wake(out, c.now)
	}
}

// realClock is a microsecond before the wall clock, or nothing if the clock is purely logical.
func (c *Core) realClock() multicast.Timestamp {
	if !c.config.HybridClock || c.wall <= 0 {
		return 0
	}
	return multicast.Timestamp(c.wall/int64(time.Microsecond)) - 1
}

// append is lines 38-39 and 43-45: m joins T, durably, and all of m.dest hears of it.
func (c *Core) append(m *message) {
	c.logEntry(m)
	c.clock = max(c.clock, m.ts) // line 44
	for _, id := range m.Dest {
		g := c.groups[id]
		prev := g.lastOwn
		g.lastOwn = m.index
		for _, q := range g.members {
			q.speak = true
			if c.state == Primary && q != c.self {
				q.frame = appendEntry(q.frame, c.current, prev, m)
			}
		}
	}
	c.sendHave(m)
}

// sendHave tells a sender that hears no ACK for m that it is in T.
func (c *Core) sendHave(m *message) {
	if sender := c.peers[m.ID.Sender]; sender != nil && sender.group != nil && !m.To(sender.group.id) {
		sender.frame = appendHave(sender.frame, m.ID)
	}
}

// ownEntry is lines 40-45: the primary's next proposal, or one of NEW-STATE.
func (c *Core) ownEntry(q *peer, p *packet) {
	if c.incoming.takes(q, p.epoch) {
		c.stage(p)
		return
	}
	if p.epoch != c.current {
		return
	}
	c.heardActive(q, p.epoch)
	if p.index <= c.known() || c.state != Follower { // line 42
		return
	}
	if p.index != c.known()+1 {
		c.gap(q)
		return
	}
	m := c.learn(p.message.ID, c.own)
	if m == nil || m.index != 0 {
		invariant.Check(false, "message %v is proposed again, as entry %d of T", p.message.ID, p.index)
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

// follow is lines 43-45 for the proposals, in order, whose content is here.
func (c *Core) follow() {
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

// learn gives the message that an entry in the T of g speaks of; nil if it was delivered and is
// forgotten. Line 47 adds START(m) to M here; we only expect it (fetch.go).
func (c *Core) learn(id multicast.MessageID, g *group) *message {
	m := c.messages[id]
	if m == nil && !c.done.has(id) {
		m = c.newMessage(id)
		c.expect(id)
	}
	if m != nil {
		m.told = g
	}
	return m
}
