package tram

import (
	"slices"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/lane"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// member is a member of the group as a leader or a candidate sees it. The process itself is a member, too.
type member struct {
	id   multicast.ProcessID
	lane *lane.Lane
	// requested is the timestamp that the member was last requested to grant (note.ask).
	requested uint32
	// The other fields are valid for the timestamp term.
	term         uint32
	loss         uint32 // its latest loss when the term began
	reading      bool
	image        []byte // its log, read after it had granted term
	posted, done uint64 // entries up to these numbers were posted, were written
	informed     bool   // writeHeader was called in the term
	commit, trim uint64 // words that were written (writeHeader)
}

func (c *site) newMember(p multicast.ProcessID) *member {
	m := &member{id: p}
	m.lane = c.lanes.New(c.peers[p].node, logRegion, m)
	return m
}

func (c *Core) memberOf(p multicast.ProcessID) *member {
	for _, m := range c.members {
		if m.id == p {
			return m
		}
	}
	return nil
}

// commitMark is the mark of writes of the header.
const commitMark = 0

func (m *member) Landed(f lane.Flight, d *fabric.Completion) {
	switch {
	case f.Term != m.term:
	case f.Kind == fabric.Read:
		m.reading, m.image = false, d.Data
	case f.Mark != commitMark:
		m.done = max(m.done, f.Mark)
	}
}

func (m *member) Failed(f lane.Flight) {
	if f.Term == m.term {
		m.reading, m.posted, m.informed, m.commit, m.trim = false, m.done, false, 0, 0
	}
}

// begin starts a term: nothing is known of the entries that the member holds.
func (m *member) begin(ts, loss uint32) {
	*m = member{id: m.id, lane: m.lane, requested: m.requested, term: ts, loss: loss}
}

// granted reports whether a member lets this process write its log, and how many entries it has applied at
// least.
func (c *Core) granted(m *member) (applied uint64, ok bool) {
	if m.id == c.cfg.Self {
		return c.ledger.applied, c.promised == c.ts
	}
	n := &c.peers[m.id].received
	switch {
	case m.loss != c.lossOf(m.id):
		return n.applied, false // it has lost its memory since, so the grant is void (L4)
	case c.ts == timestamp(1, 0):
		return n.applied, n.promised <= c.ts // the first leader needs no grant
	}
	return n.applied, n.promised == c.ts && n.promisedTo == c.cfg.Life
}

// lead starts to lead with timestamp c.ts and the entries of the ledger.
func (c *Core) lead() {
	c.role, c.decided, c.start = leader, c.ledger.applied, c.ledger.applied
	c.ledger.tail = c.ledger.state.clone()
	for _, m := range c.members {
		if m.term != c.ts {
			m.begin(c.ts, c.lossOf(m.id))
		}
		m.image = nil
	}
}

// rule is the part of a step of a leader (Algorithm 2): it finds new messages, orders them, and delivers
// them.
func (c *Core) rule() {
	if c.role != leader {
		return
	}
	c.order()
	for _, m := range c.members {
		c.replicate(m)
	}
	c.decide()
	for c.ledger.applied < c.decided {
		c.apply(c.ledger.at(c.ledger.applied + 1))
	}
	c.forget()
	for _, m := range c.members {
		c.writeHeader(m)
	}
}

// order orders the next messages of all inputs (Algorithm 2, finding a message and ordering it).
func (c *Core) order() {
	for more := true; more; {
		more = false
		for _, p := range c.ids {
			more = c.take(p) || more
		}
		if c.group.parent != nil {
			more = c.take(0) || more
		}
	}
}

// take orders the next message of a source. It reports false if there is none, or no room for it.
func (c *Core) take(from multicast.ProcessID) bool {
	l := &c.ledger
	if l.tail.sealed || l.last() >= c.decided+uint64(c.cfg.Slots) || len(l.entries) >= c.cfg.Keep {
		return false
	}
	index, m, ok := c.next(l.tail, from)
	if !ok {
		return false
	}
	e := &entry{from: from, index: index, children: c.childPositions(l.tail, m.Dest), message: m}
	for _, p := range e.children {
		if f := c.child(p.group); p.index > f.taken+uint64(c.cfg.Keep) {
			return false // the child does not order the entries that it has
		}
	}
	e.encode(l.last() + 1)
	if len(e.slot) > c.cfg.SlotSize {
		c.stats.Malformed++
		return false
	}
	l.push(e)
	return true
}

// next returns the entry of a source that comes next after a prefix of the log: the one after the last, or
// the first one of a new life of a client. ok is false if it has not arrived.
func (c *site) next(p *positions, from multicast.ProcessID) (index uint64, m multicast.Message, ok bool) {
	index = p.ordered(from) + 1
	if from != 0 {
		if first := firstOf(c.peers[from].life); first > index {
			if m, ok = c.input(from, first); ok {
				return first, m, true
			}
		}
	}
	m, ok = c.input(from, index)
	return index, m, ok
}

// input returns the entry of a source with an index, if it has arrived. Each member of the parent has its own
// ring with the same entries, so that a former leader cannot overwrite entries of its successor.
func (c *site) input(from multicast.ProcessID, index uint64) (m multicast.Message, ok bool) {
	rings := []fabric.RegionID{regionOf(clientRegion, from)}
	if from == 0 {
		rings = rings[:0]
		for _, p := range c.group.parent.Members {
			rings = append(rings, regionOf(parentRegion, p))
		}
	}
	for _, id := range rings {
		content, _, landed := unseal(c.slot(id, 0, index), index)
		if !landed {
			continue
		}
		if m, ok = decodeMessage(content); ok && c.acceptable(from, &m) {
			return m, true
		}
	}
	return m, false
}

func (c *Core) child(id multicast.GroupID) *flow {
	for _, f := range c.children {
		if f.to.ID == id {
			return f
		}
	}
	invariant.Broken("group %d is no child of group %d", id, c.group.ID)
	return nil
}

// replicate writes entries into the log of a member that has granted the right (Algorithm 2, ordering;
// Algorithm 4, replicating). A slot is free again when the member has applied its entry.
func (c *Core) replicate(m *member) {
	l := &c.ledger
	applied, ok := c.granted(m)
	if !ok || applied < l.base {
		return
	}
	applied = min(applied, l.last())
	m.done = max(m.done, applied)
	m.posted = max(m.posted, m.done)
	end := min(l.last(), applied+uint64(c.cfg.Slots))
	if m.posted >= end || !m.lane.Ready() {
		return
	}
	for m.posted < end {
		m.posted++
		slot := stamped(l.at(m.posted).slot, c.ts)
		m.lane.Post(fabric.Op{At: headerSize + c.cfg.place(m.posted), Data: slot, Notify: true}, m.posted, m.term)
	}
}

// decide finds the entries that a quorum holds. Completions of a queue come in order, so done counts a
// prefix.
func (c *Core) decide() {
	var done []uint64
	for _, m := range c.members {
		if _, ok := c.granted(m); ok && !c.isLost(m) {
			done = append(done, c.held(m))
		}
	}
	if quorum := c.group.Quorum(); len(done) >= quorum {
		slices.Sort(done)
		c.decided = max(c.decided, done[len(done)-quorum])
	}
}

// held returns the number up to which a member holds the log for the leader. In mode sync only entries on its
// disk count, as the member reports them, because a loss of power takes its memory.
func (c *Core) held(m *member) uint64 {
	if c.cfg.Sync {
		return min(c.peers[m.id].received.stored, c.ledger.last())
	}
	return m.done
}

// writeHeader writes the three words of the header of a member's log. The first is the commit word: the log
// is decided up to there. It covers only entries that were posted to the member before, so the entries are
// visible when the word is. The second is the number up to which no member needs the log any more. The
// third is the end of the log when this leader began, plus 1: a member that has lost its memory remembers
// again if it holds that much (L3).
func (c *Core) writeHeader(m *member) {
	applied, ok := c.granted(m)
	behind := applied < c.ledger.base
	teach := c.isLost(m) && !m.informed
	if !ok || m.posted == 0 && !teach && !behind {
		return
	}
	commit, trim := min(c.decided, m.posted), c.ledger.base
	news := commit > m.commit || trim >= m.trim+uint64(c.cfg.Slots/4) || behind && trim > m.trim
	if !news && !teach || !m.lane.Ready() {
		return
	}
	m.informed, m.commit, m.trim = true, max(commit, m.commit), trim
	words := le.AppendUint64(le.AppendUint64(le.AppendUint64(nil, m.commit), trim), c.start+1)
	m.lane.Post(fabric.Op{Data: words, Notify: true}, commitMark, m.term)
}

// forget drops entries that all members have applied. Beyond Config.Keep it also drops others.
func (c *Core) forget() {
	l := &c.ledger
	least := l.applied
	for _, m := range c.members {
		if m.id != c.cfg.Self {
			least = min(least, c.peers[m.id].received.covered)
		}
	}
	if waiting := uint64(c.cfg.Keep - c.cfg.Slots); l.applied > waiting {
		least = max(least, l.applied-waiting)
	}
	l.trim(min(least, c.covered))
}

// apply consumes the next decided entry: it delivers it if the group is a destination, and queues it for the
// children.
func (c *Core) apply(e *entry) {
	l := &c.ledger
	l.applied++
	l.state.add(e)
	c.secure(l.applied, e)
	if e.message.To(c.group.ID) && (l.applied > c.skip || c.cfg.Redeliver) && !c.mute {
		if l.applied > c.skip {
			c.delivered = multicast.Position{Final: multicast.Timestamp(l.applied), ID: e.message.ID}
		}
		d := multicast.Delivery{Message: e.message, Final: multicast.Timestamp(l.applied)}
		d.Order = multicast.Acyclic
		c.out.Deliveries = append(c.out.Deliveries, d)
	}
	for _, p := range e.children {
		c.child(p.group).add(p.index, &e.message, c.now)
	}
	c.oracle.progressed(c.now)
}

// forward writes entries into the inputs of the children (Algorithm 2, forwarding; Algorithm 5,
// re-replicating). The leader does it. A follower does it in its own rings, for decided entries that a child
// has not ordered for a while, because the leader may have stopped before it had forwarded them.
func (c *Core) forward() {
	for _, f := range c.children {
		switch {
		case len(f.entries) == 0:
			continue
		case c.role == leader, c.helped[f] > f.taken:
		case c.now < f.since+c.cfg.SuspectAfter:
			c.lanes.WakeAt(f.since + c.cfg.SuspectAfter)
			continue
		default:
			c.stats.Helped++
			c.helped[f] = f.last()
		}
		c.pump(f)
	}
}
