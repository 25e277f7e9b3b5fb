package primcast

import (
	"math/bits"
	"slices"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// peer returns the known state of a process; it creates the state for an unknown process.
func (c *system) peer(id multicast.ProcessID) *peer {
	q := c.peers[id]
	if q == nil {
		q = &peer{id: id, member: -1}
		c.peers[id] = q
		c.order = append(c.order, q)
	}
	return q
}

// seatable reports whether r is a valid roster of g.
func (c *system) seatable(g *group, r roster) bool {
	if len(r.ids) == 0 || len(r.ids) > maxMembers || len(r.before) > maxMembers {
		return false
	}
	for _, ids := range [][]multicast.ProcessID{r.ids, r.before} {
		for i, id := range ids {
			q := c.peers[id]
			if id == 0 || slices.Contains(ids[:i], id) || q != nil && q.group != nil && q.group != g {
				return false
			}
		}
	}
	return true
}

// learnRoster takes a roster of g from another process or of a new epoch, if it is newer than the known one.
func (c *Core) learnRoster(g *group, r roster) {
	if !c.seatable(g, r) {
		return
	}
	if !g.learns(&r) {
		return
	}
	c.seat(g, r)
	if g == c.own {
		c.log.members(c.own.roster(), c.state == Retired)
	}
}

// settle drops the members before the last change (B of roster.go), because the present epoch is active.
func (c *Core) settle() {
	if c.own.seatedIn() == c.current {
		r := c.own.roster()
		r.before = nil
		c.learnRoster(c.own, r)
	}
}

// seat makes r the roster of g, and updates all state that depends on the members.
func (c *Core) seat(g *group, r roster) {
	was, settled := g.members(), g.settled()
	for _, q := range was {
		q.member = -1
	}
	var members, before []*peer
	for i, id := range r.ids {
		q := c.peer(id)
		q.group, q.member, q.left = g, i, false
		members = append(members, q)
	}
	for _, id := range r.before {
		q := c.peer(id)
		q.group = g
		before = append(before, q)
	}
	g.seat(r, members, before)
	if !g.isChanging() {
		for _, q := range settled {
			q.left = q.member < 0
		}
		c.seated = c.seated || g.elects(c.self)
	}
	c.moveSeats(g, was)
}

// moveSeats updates the state of processes and messages after a change of the members of g.
func (c *delivery) moveSeats(g *group, was []*peer) {
	if slices.Equal(was, g.members()) {
		return
	}
	g.clocksChanged = true
	for _, s := range c.outbox.sent {
		at := slices.Index(s.Dest, g.id)
		if at < 0 {
			continue
		}
		var has uint64
		for old := s.has[at]; old != 0; old &= old - 1 {
			if q := was[bits.TrailingZeros64(old)]; q.member >= 0 {
				has |= 1 << q.member
			}
		}
		s.has[at] = has
	}
	for _, q := range g.members() {
		if q.linked && !slices.Contains(was, q) {
			c.startLink(q)
		}
	}
}

// admit reports whether a packet of q is to be handled. A process that is in no group gets the roster, since
// it may not know that it was replaced.
func (c *system) admit(q *peer, p anyPacket) bool {
	switch p := p.(type) {
	case *newEpochPacket:
		if q.group == nil && slices.Contains(p.roster.ids, q.id) && c.seatable(c.own, p.roster) {
			q.group = c.own // q takes part in a change of which this process does not know
		}
	case *rosterPacket:
		return true
	}
	if q.group == nil {
		c.stats.Strangers++
		c.inform(q, c.own)
		return false
	}
	if !q.group.elects(q) {
		c.inform(q, q.group)
	}
	return true
}

// inform sends q the members of g, at most once in a step.
func (c *system) inform(q *peer, g *group) {
	if step := c.checked.steps + 1; q.informed != step {
		q.informed = step
		q.sendRoster(g)
	}
}

// sendRoster sends q the members of g, if they differ from the configuration.
func (q *peer) sendRoster(g *group) {
	if g.from() != (Epoch{}) && !g.isChanging() {
		q.frame = (&rosterPacket{group: g.id, roster: g.roster(), known: g.isKnown()}).append(q.frame)
	}
}

// dismiss informs processes that have left the group, once each quorum of the members knows it (R4).
func (c *Core) dismiss() {
	if c.dismissed == c.own.from() || !c.own.isKnown() {
		return
	}
	c.dismissed = c.own.from()
	for _, q := range c.order {
		if q.linked && q.group == c.own && !c.own.elects(q) {
			q.sendRoster(c.own)
		}
	}
}

// onRoster handles the members of a group from q. A process sends its own roster before its first
// acknowledgement in an epoch with that roster.
func (c *Core) onRoster(q *peer, p *rosterPacket) {
	g := c.groups[p.group]
	if g != nil && q.group == nil && slices.Contains(p.roster.ids, q.id) {
		q.group = g // a new member sends the roster of its own group
	}
	if g == nil || q.group == nil || len(p.roster.before) > 0 || !c.seatable(g, p.roster) {
		c.stats.BadPackets++
		return
	}
	c.learnRoster(g, p.roster)
	if g != c.own {
		return
	}
	c.highest = maxEpoch(c.highest, p.roster.latest)
	if p.known && c.seated && !g.elects(c.self) && !slices.Contains(p.roster.ids, c.self.id) {
		c.retire()
	}
}

// retire ends the role of this process in its group, durably.
func (c *variables) retire() {
	c.state = Retired
	c.log.members(c.own.roster(), c.state == Retired)
}

// rest is the step of a process that has retired.
func (c *Core) rest(out *multicast.Output) {
	for _, q := range c.order {
		q.frame, q.early = nil, 0
	}
	c.flushLog(out)
	out.Safe, out.Retired = c.checked.safe, true
}

// onReplace handles a request for a change of the members, which a member of the own group has received.
func (c *Core) onReplace(q *peer, r multicast.Replacement) {
	if q.group != c.own || q.member < 0 {
		c.stats.BadPackets++
		return
	}
	c.replaceMember(r)
	if r.Old == q.id && q.id == c.current.Leader && c.state == Follower && c.canDo(r) {
		c.startCampaign() // the primary cannot lead an epoch that it has left
	}
}

// replaceMember records a request for a change of the members. The primary executes it.
func (c *Core) replaceMember(r multicast.Replacement) {
	if c.changes(r) && !slices.Contains(c.replacements, r) {
		c.replacements = append(c.replacements, r)
		c.replaceAt = c.now
	}
}

// changes reports whether r is possible and not done: a member leaves, or a process joins that was never a
// member.
func (c *system) changes(r multicast.Replacement) bool {
	leaves, joins := c.peers[r.Old], c.peers[r.New]
	switch {
	case r.Old == 0 && (r.New == 0 || len(c.own.members()) == maxMembers):
		return false
	case r.Old != 0 && (leaves == nil || leaves.group != c.own || leaves.member < 0 || len(c.own.members()) == 1):
		return false
	}
	return r.New == 0 || joins == nil || joins.group == nil || joins.group == c.own && joins.member < 0 && !joins.left
}

// pursueReplacements makes the primary start an epoch with the requested members. Other members remind the
// primary of the request.
func (c *Core) pursueReplacements(out *multicast.Output) {
	if !c.own.isChanging() { // else the last change may still fail
		c.replacements = slices.DeleteFunc(c.replacements, func(r multicast.Replacement) bool { return !c.changes(r) })
	}
	if len(c.replacements) == 0 {
		return
	}
	if c.replaceAt > c.now {
		wake(out, c.replaceAt)
		return
	}
	c.replaceAt = c.now + c.config.SuspectAfter
	wake(out, c.replaceAt)
	c.seekNew()
	switch leader := c.peers[c.current.Leader]; {
	case c.state == Primary && slices.ContainsFunc(c.replacements, c.canDo):
		c.startCampaign()
	case c.state == Primary:
		c.handOver()
	case c.state == Follower:
		for _, r := range c.replacements {
			leader.frame = (&replacePacket{r}).append(leader.frame)
		}
	}
}

// seekNew sends to processes that are to join, because a link starts only when one end sends.
func (c *Core) seekNew() {
	for _, r := range c.replacements {
		if r.New == 0 {
			continue
		}
		if q := c.peer(r.New); !q.linked {
			q.frame = (&pingPacket{}).append(q.frame)
		}
	}
}

// handOver asks another member, in turn, to lead the epoch that replaces this process, which is the primary.
func (c *Core) handOver() {
	others := len(c.own.members()) - 1
	for _, r := range c.replacements {
		if r.Old == c.self.id && others > 0 {
			c.handedOver++
			q := c.own.members()[(c.self.member+1+c.handedOver%others)%(others+1)]
			q.frame = (&replacePacket{r}).append(q.frame)
		}
	}
}

// canDo reports whether this process can lead the epoch with change r: it stays a member, and the new process
// runs.
func (c *system) canDo(r multicast.Replacement) bool {
	return c.changes(r) && r.Old != c.self.id && (r.New == 0 || c.peers[r.New] != nil && c.peers[r.New].linked)
}

// nextRoster returns the roster of the epoch for which this candidate campaigns (R1).
func (c *Core) nextRoster() roster {
	next := c.own.roster()
	next.latest = c.promised
	if i := slices.IndexFunc(c.replacements, c.canDo); i >= 0 && len(next.before) == 0 {
		next.since, next.before = c.promised, next.ids
		next.ids = changeMembers(next.ids, c.replacements[i])
	}
	return next
}

// changeMembers returns the members ids after the change r.
func changeMembers(ids []multicast.ProcessID, r multicast.Replacement) []multicast.ProcessID {
	ids = slices.Clone(ids)
	i := slices.Index(ids, r.Old)
	switch {
	case r.Old == 0:
		return append(ids, r.New)
	case r.New == 0:
		return slices.Delete(ids, i, i+1)
	}
	ids[i] = r.New
	return ids
}
