package tram

import (
	"github.com/globalfs/globalfs/pkg/fabric"
)

// grant is Algorithm 2, checking permissions: the member that asks for the highest timestamp gets the right
// to write the log. The right of the previous leader is revoked before.
func (c *Core) grant() {
	for _, m := range c.members {
		p := c.peers[m.id]
		ask := p.heard.ask
		if m.id == c.cfg.Self {
			ask = m.asked
		} else if p.heard.askFor != c.lossOf(c.cfg.Self) {
			continue // it was chosen before this process lost its memory
		} else if p.life < c.lossOf(m.id) {
			continue // of an earlier life: another node has the seat (L6)
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
		c.oracle.heard(c.now)
		if c.ts < ask {
			c.stepDown()
		}
	}
}

// canRead reports whether a candidate finds all entries in this member's log that it has not applied and this
// member has: otherwise it could not lead, and the right is not worth the leader that it would take it from.
func (c *durable) canRead(m *member) bool {
	applied := c.peers[m.id].heard.applied
	if m.id == c.cfg.Self || applied >= c.ledger.applied {
		return true
	}
	_, _, ok := unseal(c.slot(logRegion, headerSize, applied+1), applied+1)
	return ok
}

// stepDown makes a follower.
func (c *Core) stepDown() {
	if c.role == leader {
		c.ledger.cut()
	}
	c.role = follower
}

// maxRound is the last round of a timestamp.
const maxRound = 1<<24 - 1

// stand begins an attempt to lead: Algorithm 3, proposing a timestamp.
func (c *Core) stand() {
	highest := max(c.promised, c.ts, timestamp(1, 0)) // the first one was given to all
	for _, m := range c.members {
		n := &c.peers[m.id].heard
		highest = max(highest, n.promised, n.ask)
	}
	if round(highest) >= maxRound {
		c.stats.Malformed++ // a member has made it up: there are not so many attempts
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

// campaign goes on with an attempt: Algorithm 3, waiting for replies, and Algorithm 4, reading remote logs.
//
// A member is asked only when nothing that this process has posted to its log can land any more. Otherwise,
// writes left over from an earlier term would land with the new right, over entries of a leader in between.
func (c *Core) campaign() {
	if c.role == follower {
		return
	}
	for _, m := range c.members {
		if c.role == follower {
			return // a higher timestamp of another member came in between
		}
		if m.asked != c.ts && c.ts != timestamp(1, 0) {
			if m.lane.Settled() {
				m.asked = c.ts
				c.grant() // this process itself grants at once
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

// mayLead reports whether the logs of enough members were read: of a quorum that remembers, or of all
// members.
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

// catchUp is Algorithm 4: the logs of a quorum, none of which an earlier leader can write any more, hold
// every entry that may be decided. For each slot the entry with the highest timestamp is written again by
// rule. The first slot without an entry ends the log, and so does an entry that does not follow those before:
// neither it nor anything behind can be decided (package documentation, G4).
func (c *Core) catchUp() {
	images := c.images()
	c.lead()
	l := &c.ledger
	need := l.applied
	for _, m := range c.members {
		if _, ok := c.granted(m); ok {
			need = max(need, c.peers[m.id].heard.applied)
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
		c.stepDown() // a member has applied entries that no log holds any more: that member must lead
		return
	}
	c.stats.Led++
}

// images gives the logs that were read, and forgets them.
func (c *Core) images() (all [][]byte) {
	for _, m := range c.members {
		if m.image != nil {
			all = append(all, m.image)
			m.image = nil
		}
	}
	return all
}

// highestEntry gives the entry of a slot with the highest timestamp, or nil.
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

// follow applies the entries that the leader has written and declared decided: Algorithm 2, followers'
// delivery. A commit word takes the place of the next entry, so that an idle group delivers.
func (c *Core) follow() {
	if c.role == leader {
		return
	}
	var words [16]byte
	c.memory[logRegion].Load(0, words[:])
	commit, trim := le.Uint64(words[:]), le.Uint64(words[8:])
	l := &c.ledger
	if trim > l.applied && c.promised != 0 {
		c.behind = max(c.behind, trim)
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

// watch is the oracle: a member that has seen work wait without progress for too long stands, one after the
// other. Nothing is sent while nothing waits.
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

// outbid reports whether some member has granted a higher timestamp than this process has asked for.
func (c *Core) outbid() bool {
	for _, m := range c.members {
		if c.peers[m.id].heard.promised > c.ts {
			return true
		}
	}
	return false
}

// watchGrants looks after the members that have granted the right to another candidate, which may have come
// to nothing: a leader without a quorum is a follower, and one with a quorum asks again with a higher
// timestamp.
func (c *Core) watchGrants() {
	refused := 0
	for _, m := range c.members {
		if c.peers[m.id].heard.promised > c.ts || m.loss != c.lossOf(m.id) {
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

// waits reports whether there is work for a leader: an input that is not ordered, or an entry of the log that
// is not decided.
func (c *Core) waits() bool {
	l := &c.ledger
	switch {
	case c.behind > l.applied:
		return false // it cannot lead
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

// uneven reports whether another member has applied more, or lacks entries and cannot lead itself.
func (c *Core) uneven() bool {
	for _, m := range c.members {
		n := &c.peers[m.id].heard
		if m.id != c.cfg.Self && (n.applied > c.ledger.applied || n.ask > c.promised && !c.canRead(m)) {
			return true
		}
	}
	return false
}
