package primcast

import (
	"slices"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// ledger is the T of a group as this process knows it: the whole T of the own group, and of another group's T
// the entries that concern this process. Within an epoch T only grows (Lemma 2). So a process acknowledges
// all of T by its length, and its newest ACK replaces its earlier ones.
type ledger struct {
	epoch   Epoch         // the epoch of T; in the own group E_cur
	entries []entry       // only of another group: the known entries that are not decided, ascending
	known   uint64        // only of another group: all entries up to this index are known
	decided uint64        // a quorum has acknowledged all entries up to this index
	fetchAt time.Duration // time of the fetch of entries that a member has and this process lacks; 0: none
	fetches int
	scratch []uint64 // buffer of decideUpTo
}

// entry is an entry ⟨E, m, ts⟩ of another group's T, with its index.
type entry struct {
	index   uint64
	ts      multicast.Timestamp
	message *message // nil: this process has delivered and forgotten it
}

// knownOf returns the index up to which this process knows the entries of g that concern it.
func (c *variables) knownOf(g *group) uint64 {
	if g == c.own {
		return c.known()
	}
	return g.known
}

// known returns the index of the last proposal of the own primary that this process knows.
func (c *variables) known() uint64 { return c.t.last() + uint64(len(c.accepted)) }

// onEntry handles an entry of the T of q's group: lines 40-45 for the own group, lines 46-49 for another one.
func (c *Core) onEntry(q *peer, p *entryPacket) {
	if !q.group.leads(p.epoch) {
		c.stats.BadPackets++
		return
	}
	if q.group == c.own {
		c.ownEntry(q, p)
		return
	}
	g := q.group
	if !c.continues(q, p.epoch, p.prev) || p.index <= g.known {
		return
	}
	m := c.learn(p.id, g)
	if m != nil {
		m.mentions++
	}
	g.entries = append(g.entries, entry{index: p.index, ts: p.ts, message: m})
	g.known = p.index
	c.clock = max(c.clock, p.ts) // lines 48-49; line 50 is acknowledge
	if m != nil {
		c.moved(m)
	}
	c.decideUpTo(g)
}

// continues reports whether an entry, whose predecessor has the index prev, follows the known entries of q's
// group, possibly in a new epoch.
func (c *variables) continues(q *peer, e Epoch, prev uint64) bool {
	g := q.group
	order := e.Compare(g.epoch)
	if order < 0 {
		return false
	}
	if order > 0 && prev > g.decided || order == 0 && prev > g.known {
		c.gap(q)
		return false
	}
	if order > 0 {
		c.turn(g, e)
	}
	return true
}

// onUpTo handles the end of an answer of q to fetchLogPacket. If q has forgotten entries that concern this
// process, this process covers them, or q informs it that it is behind.
func (c *delivery) onUpTo(q *peer, p *upToPacket) {
	if q.group != c.own && q.group.leads(p.epoch) && c.continues(q, p.epoch, p.prev) {
		q.group.known = max(q.group.known, p.index)
		c.decideUpTo(q.group)
	}
}

// turn moves the ledger of another group to an epoch. Entries that a quorum has acknowledged are in the T of
// that epoch, too (Lemma 3). Other entries may not be, and are dropped.
func (c *variables) turn(g *group, e Epoch) {
	for _, x := range g.entries {
		c.unmention(x.message)
	}
	g.entries, g.known, g.epoch, g.front = g.entries[:0], g.decided, e, front{}
	c.enterClocks(g)
}

// unmention removes one mention of m. It deletes m if no ledger names m and only its id is known.
func (c *variables) unmention(m *message) {
	if m == nil {
		return
	}
	m.mentions--
	if m.mentions == 0 && !m.started && m.index == 0 && len(m.locals) == 0 {
		delete(c.messages, m.ID)
	}
}

// isAhead reports whether q's T has entries that this process lacks and can fetch from q.
func (c *variables) isAhead(q *peer) bool {
	switch order := q.acked.Compare(q.group.epoch); {
	case order < 0, order > 0 && q.group == c.own:
		return false // then NEW-STATE brings the T of the own group
	case order > 0:
		return true
	}
	return q.last > c.knownOf(q.group)
}

// expectEntries handles an ACK of q for entries that this process lacks. If q is the primary, it has sent
// them before the ACK, so they are lost and are fetched at once. If q is another member, the primary's
// entries may be on the way, and are fetched later.
func (c *variables) expectEntries(q *peer) {
	if q.id == q.acked.Leader {
		c.gap(q)
	} else if q.group.fetchAt == 0 {
		q.group.fetchAt = c.now + c.config.FetchAfter
	}
}

// gap requests the missing part of q's T from q, unless a request is on the way.
func (c *variables) gap(q *peer) {
	if q.fetching || q == c.self {
		return
	}
	c.stats.Gaps++
	q.fetching, q.requestStep = true, c.checked.steps
	q.frame = (&fetchLogPacket{epoch: q.group.epoch, known: c.knownOf(q.group), decided: q.group.decided}).append(q.frame)
}

// onFetchLog answers a request of q with the entries of T that q lacks. For the own group, content is sent
// with them; other groups get content from the sender.
func (c *Core) onFetchLog(q *peer, p *fetchLogPacket) {
	if p.epoch.Compare(c.current) > 0 {
		return // q knows more
	}
	from := p.decided // q knows these to be decided, so they are the same here
	if p.epoch == c.current {
		from = p.known
		if c.state == Candidate && q.group == c.own {
			c.oracle.progressed(c.now) // a long T needs many round trips
		}
	}
	c.stream(q, from)
	q.speak = true
}

// stream sends q the entries of T after from that concern q: at least one, and more while there is room in
// the frame. q requests the rest.
func (c *variables) stream(q *peer, from uint64) {
	q.sendForgotten()
	prev := from
	for m := range c.t.after(from) {
		if !m.To(q.group.id) {
			continue
		}
		if prev > from && !c.room(q) {
			return
		}
		if q.group == c.own {
			q.sendStart(&m.Message, m.prev)
		}
		q.frame = m.entry(c.current, prev).append(q.frame)
		prev = m.index
	}
	if last := q.group.lastOwn; q.group != c.own && last >= prev {
		q.frame = (&upToPacket{epoch: c.current, index: last, prev: prev}).append(q.frame)
	}
}

// onAck handles r-deliver(⟨ACK, m, h, E, ts, q⟩) for all entries of q's T up to a length, and
// r-deliver(⟨BUMP, E, ts, q⟩): lines 40-41, 46-47, 51-52.
func (c *Core) onAck(q *peer, p *ackPacket) {
	g := q.group
	if !g.leads(p.epoch) {
		c.stats.BadPackets++
		return
	}
	if p.epoch.Compare(q.acked) < 0 {
		return
	}
	if g == c.own {
		c.receiveActive(q, p.epoch)
	}
	q.acked, q.length, q.last = p.epoch, p.length, p.last
	q.fetching = q.fetching && q.requestStep == c.checked.steps // false, unless the request was made in this step
	if g != c.own && p.epoch.Compare(g.epoch) > 0 && p.last <= g.decided {
		c.turn(g, p.epoch) // then no later entry of the old epoch concerns this process
	}
	if c.isAhead(q) {
		c.expectEntries(q)
	}
	c.raiseClock(q, epochClock{epoch: p.epoch, ts: p.ts, last: p.last})
	c.receiveFront(q, p)
	c.dismiss()
	c.decideUpTo(g)
}

// decideUpTo decides the entries of the T of g that a quorum has acknowledged in one epoch (R3).
func (c *delivery) decideUpTo(g *group) {
	if !g.counts() {
		return
	}
	g.scratch = g.scratch[:0]
	for _, q := range g.members() {
		if q.acked == g.epoch {
			g.scratch = append(g.scratch, q.length)
		}
	}
	if len(g.scratch) < g.majority() {
		return
	}
	slices.Sort(g.scratch)
	upTo := min(g.scratch[len(g.scratch)-g.majority()], c.knownOf(g))
	if upTo <= g.decided {
		return
	}
	if g == c.own {
		c.decideOwn(upTo)
	}
	n := 0
	for ; n < len(g.entries) && g.entries[n].index <= upTo; n++ {
		if x := &g.entries[n]; x.message != nil {
			x.message.mentions--
			c.decide(x.message, g, x.ts)
		}
	}
	g.entries = slices.Delete(g.entries, 0, n)
	g.decided = upTo
}

// decideOwn decides the entries of the own T up to an index.
func (c *delivery) decideOwn(upTo uint64) {
	for _, s := range c.t.slotsAfter(c.own.decided) {
		if s.index > upTo {
			return
		}
		if s.message != nil {
			c.decide(s.message, c.own, s.message.ts)
		}
	}
	for _, m := range c.accepted {
		if m.index > c.own.decided && m.index <= upTo {
			c.decide(m, c.own, m.ts)
		}
	}
}

// leads reports whether the leader of epoch e is a member of g.
func (g *group) leads(e Epoch) bool {
	return slices.ContainsFunc(g.members(), func(q *peer) bool { return q.id == e.Leader })
}
