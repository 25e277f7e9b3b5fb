package primcast

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// sent is an own message to other groups only, until all their processes have START. Own messages that also
// go to the own group are in M.
type sent struct {
	own
	class *class
	has   []uint64 // for each destination group, one bit for each member that has START
	open  bool     // in some destination group no quorum has START
}

// own is a message of this process with the numbers of its predecessors: for each destination group, the
// number of the last own message to it.
type own struct {
	multicast.Message
	prevs []uint64
}

// outbox holds the multicasts of this process.
type outbox struct {
	sent    map[multicast.MessageID]*sent
	lastSeq uint64
	packAt  time.Duration // time at which the messages leave that are held for packing; 0: there are none
	next    int           // index of the class that sends first in the next step
}

// sending holds the multicasts of this process in a class.
type sending struct {
	held  []own // messages that wait for the window, or for others to be packed with
	open  int   // number of messages on the way
	bytes int   // bytes of the packets of messages on the way
}

// opened counts a message that is sent, closed one that its destinations have.
func (s *sending) opened(m *multicast.Message) { s.open, s.bytes = s.open+1, s.bytes+packetSize(m) }

func (s *sending) closed(m *multicast.Message) { s.open, s.bytes = s.open-1, s.bytes-packetSize(m) }

// windowOpen reports whether the windows of a class have room for another message.
func (c *system) windowOpen(x *class) bool {
	return x.open < c.config.Window && x.bytes < c.config.WindowBytes
}

// accept takes messages of the application. It sends them after the packing delay, as far as the windows
// permit, and about one frame in each step.
func (c *delivery) accept(proposed []multicast.Message, out *multicast.Output) {
	for i := range proposed {
		c.hold(&proposed[i])
	}
	o := &c.outbox
	if c.config.PackDelay > 0 && slices.ContainsFunc(c.classes, func(x *class) bool { return len(x.held) > 0 }) {
		if o.packAt == 0 {
			o.packAt = c.now + c.config.PackDelay
		}
		if o.packAt > c.now {
			wake(out, o.packAt)
			return
		}
		o.packAt = 0
	}
	size := 0
	for i := range c.classes {
		at := (o.next + i) % len(c.classes)
		x, n := c.classes[at], 0
		for ; n < len(x.held) && c.windowOpen(x) && size < c.config.MaxFrame; n++ {
			size += packetSize(&x.held[n].Message)
			c.multicast(x, x.held[n])
		}
		x.held = slices.Delete(x.held, 0, n)
		if size >= c.config.MaxFrame {
			o.next = at + 1 // the other classes have their turn before this one
			break
		}
	}
}

// sendMore requests another step at once if deliveries have opened a window, or if this step has sent as much
// as a frame holds.
func (c *delivery) sendMore(out *multicast.Output) {
	for _, x := range c.classes {
		if c.outbox.packAt == 0 && len(x.held) > 0 && c.windowOpen(x) {
			wake(out, c.now)
		}
	}
}

// hold takes one message. Its number is the last one in all its destination groups from now on, even if
// messages of other classes with higher numbers leave earlier.
func (c *delivery) hold(m *multicast.Message) {
	if m.Validate() != nil || m.ID.Sender != c.self.id || m.ID.Seq > maxNumber || m.After >= maxNumber || !c.offers(m) {
		c.stats.Refused++
		return
	}
	if m.ID.Seq <= c.outbox.lastSeq {
		c.stats.Repeated++
		return
	}
	c.outbox.lastSeq = m.ID.Seq
	prevs := make([]uint64, len(m.Dest))
	for i, id := range m.Dest {
		g := c.groups[id]
		prevs[i], g.lastSeq = g.lastSeq, m.ID.Seq
	}
	x := c.classOf(m.Dest)
	x.held = append(x.held, own{*m, prevs})
}

// multicast implements a-multicast(m) (lines 31-32).
func (c *delivery) multicast(x *class, m own) {
	x.opened(&m.Message)
	for i, id := range m.Dest {
		for _, q := range c.groups[id].members() {
			if q != c.self {
				q.sendStart(&m.Message, m.prevs[i])
			}
		}
	}
	if i := slices.Index(m.Dest, c.own.id); i >= 0 {
		y := c.newMessage(m.ID)
		y.own, y.prevs = true, m.prevs
		c.begun(y, &m.Message, m.prevs[i])
		return
	}
	c.outbox.sent[m.ID] = &sent{own: m, class: x, has: make([]uint64, len(m.Dest)), open: true}
}

// offers reports whether the core can order m: all its destinations are groups, and the core supports the
// requested order.
func (c *system) offers(m *multicast.Message) bool {
	return c.allExist(m.Dest) && (!c.config.Classes || m.Order == multicast.Acyclic)
}

// allExist reports whether all of dest are groups.
func (c *system) allExist(dest []multicast.GroupID) bool {
	return !slices.ContainsFunc(dest, func(g multicast.GroupID) bool { return c.groups[g] == nil })
}

func (q *peer) sendStart(m *multicast.Message, prev uint64) {
	q.replaceEarly((&startPacket{message: *m, prev: prev}).append(grow(q.frame, m)))
}

// onHave handles HAVE: q, a process of another group, has m.
func (c *delivery) onHave(q *peer, id multicast.MessageID) {
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
		quorums, all = quorums && has >= g.majority(), all && has == len(g.members())
	}
	if quorums && s.open {
		s.open = false
		s.class.closed(&s.Message)
	}
	if all {
		delete(c.outbox.sent, id)
	}
}

// again is an own message that a process may lack.
type again struct {
	*multicast.Message
	prev   uint64
	logged bool
}

// unheard returns the own messages from a number on that q may lack, in order. A member of the own group gets
// the messages in T together with T (stream).
func (c *delivery) unheard(q *peer, from uint64) (all []again) {
	for _, s := range c.outbox.sent {
		i := slices.Index(s.Dest, q.group.id)
		if s.ID.Seq >= from && i >= 0 && s.has[i]&(1<<q.member) == 0 {
			all = append(all, again{&s.Message, s.prevs[i], false})
		}
	}
	for _, m := range c.messages {
		i := slices.Index(m.Dest, q.group.id)
		if m.own && m.ID.Seq >= from && i >= 0 && (!m.logged || q.group != c.own && m.position().Compare(q.covered.Of(m.class.name)) > 0) {
			all = append(all, again{&m.Message, m.prevs[i], m.logged})
		}
	}
	slices.SortFunc(all, func(a, b again) int { return cmp.Compare(a.ID.Seq, b.ID.Seq) })
	return all
}

// resend sends q again the own messages from a number on that it may lack, in order. If they do not fit into
// the frame, it stores the number at which resendRest continues. q fetches the messages in T that do not fit,
// because other processes name them.
func (c *delivery) resend(q *peer, from uint64) {
	q.resume = 0
	for _, s := range c.unheard(q, from) {
		switch {
		case s.logged && (from > 1 || !c.room(q)):
		case c.room(q):
			q.sendStart(s.Message, s.prev)
		default:
			q.resume = s.ID.Seq
			return
		}
	}
}

// resendRest continues resends of earlier steps.
func (c *delivery) resendRest(out *multicast.Output) {
	for _, q := range c.order {
		if q.resume != 0 && q.member >= 0 && c.room(q) {
			c.resend(q, q.resume)
		}
		if q.resume != 0 && q.member >= 0 {
			wake(out, c.now)
		}
	}
}
