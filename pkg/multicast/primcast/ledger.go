package primcast

import (
	"slices"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// ledger is the known state of the T of a group: of the whole T of the own group, and of the entries of other
// groups that concern this process. Within an epoch T only grows (Lemma 2), so that a process acknowledges
// all of it by its length, and the newest ACK stands for all before it.
type ledger struct {
	epoch   Epoch         // of T; of the own group: E_cur
	entries []entry       // of another group: known and not decided, in their order
	known   uint64        // of another group: all entries up to here are known
	decided uint64        // a quorum has acknowledged all up to here
	fetchAt time.Duration // time to fetch from a member that is ahead; 0: none
	fetches int
	scratch []uint64 // for decideUpTo
}

// entry is ⟨E, m, ts⟩ at its index in the T of another group.
type entry struct {
	index   uint64
	ts      multicast.Timestamp
	message *message // nil: delivered and forgotten
}

// knownOf is the index up to which the entries of g that concern this process are known.
func (c *variables) knownOf(g *group) uint64 {
	if g == c.own {
		return c.known()
	}
	return g.known
}

// known is the index of the last proposal of the primary that is known here.
func (c *variables) known() uint64 { return c.t.last() + uint64(len(c.accepted)) }

// onEntry handles an entry of the T of q's group: lines 40-45 for the own group, lines 46-49 for others.
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

// continues reports whether an entry of q's T follows the known entries here, possibly in a new epoch.
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

// onUpTo: q has sent all entries that concern this process. This process covers the entries that q has
// forgotten, or is told that it is behind.
func (c *delivery) onUpTo(q *peer, p *upToPacket) {
	if q.group != c.own && q.group.leads(p.epoch) && c.continues(q, p.epoch, p.prev) {
		q.group.known = max(q.group.known, p.index)
		c.decideUpTo(q.group)
	}
}

// turn follows another group into an epoch. Entries that a quorum acknowledged are in its T too (Lemma 3),
// the others need not be.
func (c *variables) turn(g *group, e Epoch) {
	for _, x := range g.entries {
		c.unmention(x.message)
	}
	g.entries, g.known, g.epoch, g.front = g.entries[:0], g.decided, e, front{}
	c.enterClocks(g)
}

// unmention deletes a message of which only the id remains.
func (c *variables) unmention(m *message) {
	if m == nil {
		return
	}
	m.mentions--
	if m.mentions == 0 && !m.started && m.index == 0 && len(m.locals) == 0 {
		delete(c.messages, m.ID)
	}
}

// isAhead reports whether q's T has entries that are unknown here, and can be fetched from q.
func (c *variables) isAhead(q *peer) bool {
	switch order := q.acked.Compare(q.group.epoch); {
	case order < 0, order > 0 && q.group == c.own:
		return false // the own group's T comes with NEW-STATE then
	case order > 0:
		return true
	}
	return q.last > c.knownOf(q.group)
}

// expectEntries: q's ACK covers entries that are unknown here. The primary has sent them before, so they are
// lost; from another member, the primary's entries are perhaps on the way.
func (c *variables) expectEntries(q *peer) {
	if q.id == q.acked.Leader {
		c.gap(q)
	} else if q.group.fetchAt == 0 {
		q.group.fetchAt = c.now + c.config.FetchAfter
	}
}

// gap: a part of q's T is missing here; it is requested from q, once.
func (c *variables) gap(q *peer) {
	if q.fetching || q == c.self {
		return
	}
	c.stats.Gaps++
	q.fetching, q.requestStep = true, c.checked.steps
	q.frame = (&fetchLogPacket{epoch: q.group.epoch, known: c.knownOf(q.group), decided: q.group.decided}).append(q.frame)
}

// onFetchLog answers q with the entries of T that q does not know; content goes to the own group only, other
// groups have it from the sender.
func (c *Core) onFetchLog(q *peer, p *fetchLogPacket) {
	if p.epoch.Compare(c.current) > 0 {
		return // q knows more
	}
	from := p.decided // decided there, and so the same here
	if p.epoch == c.current {
		from = p.known
		if c.state == Candidate && q.group == c.own {
			c.oracle.progressed(c.now) // a long T needs many round trips to the members that have promised
		}
	}
	c.stream(q, from)
	q.speak = true
}

// stream sends q the entries of T after from that concern it: at least one, and others while there is room. A
// peer that is still behind then requests more.
func (c *variables) stream(q *peer, from uint64) {
	q.tellBehind()
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

// onAck handles r-deliver(⟨ACK, m, h, E, ts, q⟩) for all of T at q, up to a length, and
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
		c.heardActive(q, p.epoch)
	}
	q.acked, q.length, q.last = p.epoch, p.length, p.last
	q.fetching = q.fetching && q.requestStep == c.checked.steps // no answer yet to a request of this step
	if g != c.own && p.epoch.Compare(g.epoch) > 0 && p.last <= g.decided {
		c.turn(g, p.epoch) // no later entry concerns this process
	}
	if c.isAhead(q) {
		c.expectEntries(q)
	}
	c.raiseClock(q, epochClock{epoch: p.epoch, ts: p.ts, last: p.last})
	c.hearFront(q, p)
	c.dismiss()
	c.decideUpTo(g)
}

// decideUpTo advances the part of the T of g that a quorum of one epoch acknowledges (R3).
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

// decideOwn decides the proposals of the own group's primary, up to an index that is known here.
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

// leads reports whether e is an epoch of g.
func (g *group) leads(e Epoch) bool {
	return slices.ContainsFunc(g.members(), func(q *peer) bool { return q.id == e.Leader })
}
