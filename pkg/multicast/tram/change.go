package tram

import (
	"github.com/globalfs/globalfs/pkg/fabric"
)

// grant implements Algorithm 2 (checking permissions). Of the members that ask, the one with the highest
// timestamp gets the right to write the log of this process. The right of the previous leader is revoked
// before.
func (c *Core) grant() {
	for _, m := range c.members {
		p := c.peers[m.id]
		ask := p.received.ask
		if m.id == c.cfg.Self {
			ask = m.requested
		} else if p.received.askFor != c.lossOf(c.cfg.Self) {
			continue // chosen before the candidate knew that this process lost its memory (L2)
		} else if p.life < c.lossOf(m.id) {
			continue // from an earlier life: another node has the seat (L6)
		}
		if ask <= c.promised || int(ask&0xff) >= len(c.members) || c.holder(ask) != m.id || !c.canRead(m) {
			continue
		}
		if old := c.holder(c.promised); old != m.id {
			c.out.Rights = append(c.out.Rights, fabric.Right{Region: logRegion, Peer: c.peers[old].node, Rights: fabric.Writable, Revoke: true})
		}
		c.out.Rights = append(c.out.Rights, fabric.Right{Region: logRegion, Peer: p.node, Rights: fabric.Writable})
		c.promised, c.promisedTo, c.stored = ask, p.life, c.ledger.applied
		c.vow()
		c.oracle.postpone(c.now)
		if c.ts < ask {
			c.stepDown()
		}
	}
}

// canRead reports whether the log of this member holds all entries that this member has applied and the
// candidate has not. Without them the candidate could not lead, and must not take the right of a working
// leader.
func (c *durable) canRead(m *member) bool {
	applied := c.peers[m.id].received.applied
	if m.id == c.cfg.Self || applied >= c.ledger.applied {
		return true
	}
	_, _, ok := unseal(c.slot(logRegion, headerSize, applied+1), applied+1)
	return ok
}

// stepDown makes this process a follower.
func (c *Core) stepDown() {
	if c.role == leader {
		c.ledger.cut()
	}
	c.role = follower
}

// maxRound is the highest round of a timestamp.
const maxRound = 1<<24 - 1

// stand begins an attempt to lead (Algorithm 3, proposing a timestamp).
func (c *Core) stand() {
	highest := max(c.promised, c.ts, timestamp(1, 0)) // all members follow the first timestamp from the start
	for _, m := range c.members {
		n := &c.peers[m.id].received
		highest = max(highest, n.promised, n.ask)
	}
	if round(highest) >= maxRound {
		c.stats.Malformed++ // a member has invented it: there are not so many attempts
		return
	}
	c.stepDown()
	c.ts = timestamp(round(highest)+1, c.index)
	c.role = candidate
	c.stats.Campaigns++
	for _, m := range c.members {
		m.begin(c.ts, c.lossOf(m.id))
	}
}

// campaign continues an attempt to lead: Algorithm 3, waiting for replies, and Algorithm 4, reading remote
// logs.
//
// It asks a member only when no earlier write to that member can be executed any more (G3). Otherwise a write
// of an earlier term could be executed with the new right and overwrite an entry of a leader in between.
func (c *Core) campaign() {
	if c.role == follower {
		return
	}
	for _, m := range c.members {
		if c.role == follower {
			return // a member with a higher timestamp was faster
		}
		if m.requested != c.ts && c.ts != timestamp(1, 0) {
			if m.lane.Settled() {
				m.requested = c.ts
				c.grant() // the own grant needs no note
			}
			continue
		}
		if _, ok := c.granted(m); !ok || c.role != candidate {
			continue
		}
		if m.image == nil && !m.reading && m.lane.Ready() {
			m.reading = true
			m.lane.Post(fabric.Op{Kind: fabric.Read, Length: headerSize + c.cfg.Slots*c.cfg.SlotSize}, 0, m.term)
		}
	}
	if c.role == candidate && c.promised == c.ts && c.mayLead() {
		c.catchUp()
	}
}

// mayLead reports whether enough logs were read: those of a quorum of members that remember, or those of all
// members (L1, L5).
func (c *Core) mayLead() bool {
	all, remember := 0, 0
	for _, m := range c.members {
		if _, ok := c.granted(m); !ok || m.image == nil {
			continue
		}
		if all++; !c.isLost(m) {
			remember++
		}
	}
	return remember >= c.group.Quorum() || all == len(c.members)
}

// catchUp implements Algorithm 4. No earlier leader can write the logs that were read, and they are those of
// a quorum, so they hold every entry that may be decided. For each slot, rule writes the entry with the
// highest timestamp again. The log ends at the first slot without an entry, and at an entry that does not
// follow the entries before it: neither that entry nor any later one can be decided (package documentation,
// G4).
func (c *Core) catchUp() {
	images := c.images()
	c.lead()
	l := &c.ledger
	need := l.applied
	for _, m := range c.members {
		if _, ok := c.granted(m); ok {
			need = max(need, c.peers[m.id].received.applied)
		}
	}
	for {
		e := c.highestEntry(images, l.last()+1)
		if e == nil {
			break
		}
		if !c.follows(l.tail, e) {
			c.stats.Dropped++
			break
		}
		l.push(e)
		c.stats.Adopted++
	}
	c.start = l.last()
	if l.last() < need {
		c.stepDown() // a member has applied entries that no log holds any more, so that member must lead
		return
	}
	c.stats.Led++
}

// images returns the logs that were read, and forgets them.
func (c *Core) images() (all [][]byte) {
	for _, m := range c.members {
		if m.image != nil {
			all = append(all, m.image)
			m.image = nil
		}
	}
	return all
}

// highestEntry returns the entry of slot n with the highest timestamp in any of the logs; nil if there is
// none.
func (c *Core) highestEntry(images [][]byte, n uint64) *entry {
	var best *entry
	highest := uint32(0)
	for _, image := range images {
		at := headerSize + c.cfg.place(n)
		if e, ts, ok := decodeEntry(image[at:at+c.cfg.SlotSize], n); ok && (best == nil || ts > highest) {
			best, highest = e, ts
		}
	}
	return best
}

// follow applies the decided entries that the leader has written (Algorithm 2, followers' delivery). The
// leader announces decided entries by a commit word, so an idle group delivers without a further entry.
func (c *Core) follow() {
	if c.role == leader {
		return
	}
	var words [16]byte
	c.memory[logRegion].Load(0, words[:])
	commit, trim := le.Uint64(words[:]), le.Uint64(words[8:])
	l := &c.ledger
	if trim > l.applied && c.promised != 0 {
		c.needsState = max(c.needsState, trim)
	}
	for l.applied < commit && len(l.entries) < c.cfg.Keep {
		n := l.applied + 1
		e, _, ok := decodeEntry(c.slot(logRegion, headerSize, n), n)
		if !ok || !c.follows(l.state, e) {
			break
		}
		l.push(e)
		c.apply(e)
	}
	if waiting := uint64(c.cfg.Keep - c.cfg.Slots); l.applied > waiting {
		trim = max(trim, l.applied-waiting)
	}
	l.trim(min(trim, c.covered))
}

// watch is the oracle of a step. A member whose work waits for too long without progress stands as a
// candidate; the members do so one after the other. Without waiting work nothing is sent.
func (c *Core) watch() {
	if c.role == leader {
		c.watchGrants()
		return
	}
	if !c.waits() {
		c.oracle.rest()
		return
	}
	n := len(c.members)
	rank := (c.index - int(c.promised&0xff) + n - 1) % n
	if due := c.oracle.due(c.now, rank); due > c.now {
		c.lanes.WakeAt(due)
		return
	}
	c.oracle.stood(c.now)
	if c.role == follower || c.promised > c.ts || c.outbid() {
		c.stand()
		c.campaign()
	}
	c.lanes.WakeAt(c.oracle.due(c.now, rank))
}

// outbid reports whether a member has granted a timestamp above that of this process' attempt.
func (c *Core) outbid() bool {
	for _, m := range c.members {
		if c.peers[m.id].received.promised > c.ts {
			return true
		}
	}
	return false
}

// watchGrants handles members that have granted the right to another candidate, whose attempt may have
// failed. A leader without a quorum becomes a follower. A leader with a quorum asks for a higher timestamp
// after a time, so that these members follow it again.
func (c *Core) watchGrants() {
	refused := 0
	for _, m := range c.members {
		if c.peers[m.id].received.promised > c.ts || m.loss != c.lossOf(m.id) {
			refused++
		}
	}
	switch {
	case refused == 0:
		c.oracle.rest()
	case len(c.members)-refused < c.group.Quorum():
		c.stepDown()
		c.watch()
	default:
		if due := c.oracle.due(c.now, 0); due > c.now {
			c.lanes.WakeAt(due)
			return
		}
		c.oracle.stood(c.now)
		c.stand()
		c.campaign()
	}
}

// waits reports whether work waits for a leader: an input that is not ordered, or an entry that is not
// decided.
func (c *Core) waits() bool {
	l := &c.ledger
	switch {
	case c.needsState > l.applied:
		return false // this process cannot lead
	case c.lost:
		return true
	case l.state.sealed:
		return c.uneven()
	}
	for _, p := range c.ids {
		if _, _, ok := c.next(l.state, p); ok {
			return true
		}
	}
	if c.group.parent != nil {
		if _, _, ok := c.next(l.state, 0); ok {
			return true
		}
	}
	_, _, ok := unseal(c.slot(logRegion, headerSize, l.applied+1), l.applied+1)
	return ok || c.uneven()
}

// uneven reports whether another member has applied more entries than this process, or lacks entries and
// cannot lead.
func (c *Core) uneven() bool {
	for _, m := range c.members {
		n := &c.peers[m.id].received
		if m.id != c.cfg.Self && (n.applied > c.ledger.applied || n.ask > c.promised && !c.canRead(m)) {
			return true
		}
	}
	return false
}
