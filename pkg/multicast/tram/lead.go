package tram

import (
	"slices"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/lane"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// member is a member of the group as a leader or a candidate sees it. The process itself is one, too.
type member struct {
	id   multicast.ProcessID
	lane *lane.Lane
	// asked is the timestamp that the member was asked to grant (propose).
	asked uint32
	// The rest belongs to the timestamp term.
	term         uint32
	loss         uint32 // its latest loss when the term began
	reading      bool
	image        []byte // its log, when it had granted term
	posted, done uint64 // entries written
	told         bool
	commit, trim uint64 // words written
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

// commitMark marks writes of the header.
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
		m.reading, m.posted, m.told, m.commit, m.trim = false, m.done, false, 0, 0
	}
}

// begin starts a term. Nothing is known of the entries of the member.
func (m *member) begin(ts, loss uint32) {
	*m = member{id: m.id, lane: m.lane, asked: m.asked, term: ts, loss: loss}
}

// granted reports whether a member lets this process write its log, and how much it had applied at least.
func (c *Core) granted(m *member) (applied uint64, ok bool) {
	if m.id == c.cfg.Self {
		return c.ledger.applied, c.promised == c.ts
	}
	n := &c.peers[m.id].heard
	switch {
	case m.loss != c.lossOf(m.id):
		return n.applied, false // what it has granted before it lost its memory is void
	case c.ts == timestamp(1, 0):
		return n.applied, n.promised <= c.ts // all have granted the first leader's
	}
	return n.applied, n.promised == c.ts && n.promisedTo == c.cfg.Life
}

// lead begins to lead with the timestamp c.ts and the entries of the ledger.
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

// rule is a turn of the leader (Algorithm 2): it finds new messages, orders them, and delivers them.
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
		c.tell(m)
	}
}

// order takes the next messages of all inputs: Algorithm 2, finding a message and ordering it.
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

// take orders the next message of a source, if there is one and there is room.
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
			return false // the child does not take the entries that it has
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

// next gives the entry of a source that comes next behind a prefix, if it is there: the first one of a new
// life of a client, or the one after the last.
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

// input gives the entry of a source with an index, if it is there. The parent's members have a ring each,
// with the same entries: a member that is replaced as a leader cannot overwrite the entries of its successor.
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

// replicate writes the log of a member that has granted: Algorithm 2, ordering; Algorithm 4, replicating. A
// slot is used again when the member has applied its entry.
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

// decide finds the entries that a quorum holds. Completions of a queue are in order, so done counts a prefix.
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

// held is up to where a member holds the log for a leader: in mode sync durably, as it says itself. Its
// memory is lost with its power.
func (c *Core) held(m *member) uint64 {
	if c.cfg.Sync {
		return min(c.peers[m.id].heard.stored, c.ledger.last())
	}
	return m.done
}

// tell writes the words of a member. The first is the commit word: its log is decided up to there. It never
// covers an entry that was not posted to the member before, so that the entries are there when the word is.
// The second word is how much of the log nobody needs any more. The third is where the log ended when this
// leader began, plus 1: a member that has lost its memory knows everything again if it holds that much.
func (c *Core) tell(m *member) {
	applied, ok := c.granted(m)
	behind := applied < c.ledger.base
	teach := c.isLost(m) && !m.told
	if !ok || m.posted == 0 && !teach && !behind {
		return
	}
	commit, trim := min(c.decided, m.posted), c.ledger.base
	news := commit > m.commit || trim >= m.trim+uint64(c.cfg.Slots/4) || behind && trim > m.trim
	if !news && !teach || !m.lane.Ready() {
		return
	}
	m.told, m.commit, m.trim = true, max(commit, m.commit), trim
	words := le.AppendUint64(le.AppendUint64(le.AppendUint64(nil, m.commit), trim), c.start+1)
	m.lane.Post(fabric.Op{Data: words, Notify: true}, commitMark, m.term)
}

// forget drops the entries that all members have applied, and more if there are too many.
func (c *Core) forget() {
	l := &c.ledger
	least := l.applied
	for _, m := range c.members {
		if m.id != c.cfg.Self {
			least = min(least, c.peers[m.id].heard.covered)
		}
	}
	if waiting := uint64(c.cfg.Keep - c.cfg.Slots); l.applied > waiting {
		least = max(least, l.applied-waiting)
	}
	l.trim(min(least, c.covered))
}

// apply consumes the next decided entry: it is delivered here if the group is a destination, and goes to the
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

// forward writes into the inputs of the children: Algorithm 2, forwarding; Algorithm 5, re-replicating. A
// follower does so, in rings of its own, when a child has not taken for a while the entries that the follower
// knows to be decided: the leader may have stopped before it had forwarded.
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
