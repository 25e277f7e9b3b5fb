package primcast

import (
	"slices"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// Reconfiguration. The members of a group are those of an epoch, its roster; a new epoch may have another
// process in a place (multicast.Replacement), so that the change is ordered with all else by the
// change of the primary. Two rules make it safe:
//
//	R1  a candidate needs promises from a quorum of the roster of E_max (line 65);
//	R2  an epoch is active once a quorum has accepted it, not counting who is new in it (line 76).
//
// By R2 a quorum of the old roster knows of the new epoch, and any later candidate, even one that has
// heard nothing, meets one of it and learns the roster; by R1 it then asks that one. Quorums are
// counted among the members of the latest roster known: whoever is in an older one too
// counts for both, and who is new says nothing in earlier epochs.

// Members gives the members of a group, as far as this process knows; nil if there is none. The caller owns it.
func (c *Core) Members(g multicast.GroupID) []multicast.ProcessID {
	if c.groups[g] == nil {
		return nil
	}
	return c.groups[g].ids()
}

// ids gives the members' ids.
func (g *group) ids() []multicast.ProcessID {
	ids := make([]multicast.ProcessID, len(g.members))
	for i, q := range g.members {
		ids[i] = q.id
	}
	return ids
}

// peer gives what is known of a process, from now on.
func (c *Core) peer(id multicast.ProcessID) *peer {
	q := c.peers[id]
	if q == nil {
		q = &peer{id: id, member: -1}
		c.peers[id] = q
		c.order = append(c.order, q)
	}
	return q
}

// seat makes the members of g those of an epoch.
func (c *Core) seat(g *group, e Epoch, ids []multicast.ProcessID) {
	g.roster = e
	for i, id := range ids {
		old := g.members[i]
		if old.id == id {
			continue
		}
		old.member = -1
		q := c.peer(id)
		q.group, q.member = g, i
		g.members[i] = q
		for _, s := range c.outbox.sent {
			if at := slices.Index(s.Dest, g.id); at >= 0 {
				s.has[at] &^= 1 << i
			}
		}
		if q.linked {
			c.startLink(q)
		}
	}
	g.clocksChanged = true
}

// seatable reports whether ids can be the members of g.
func (c *Core) seatable(g *group, ids []multicast.ProcessID) bool {
	if len(ids) != len(g.members) {
		return false
	}
	for i, id := range ids {
		q := c.peers[id]
		if id == 0 || slices.Contains(ids[:i], id) || q != nil && q.group != nil && q.group != g {
			return false
		}
	}
	return true
}

// hearRoster: q, a member of a group, tells of its members, before it acknowledges anything in an epoch with them.
func (c *Core) hearRoster(q *peer, p *packet) {
	if q.group == nil && slices.Contains(p.roster, q.id) { // a new member tells of itself
		if q.group = c.groups[p.group]; q.group == nil {
			return
		}
	}
	g := q.group
	if g == nil || g.id != p.group || !c.seatable(g, p.roster) {
		c.stats.BadPackets++
	} else if p.epoch.Compare(g.roster) > 0 {
		c.seat(g, p.epoch, p.roster)
	}
}

// tellRoster tells q of the own group's members, if they are not those that all were configured with.
func (c *Core) tellRoster(q *peer) {
	if c.own.roster != (Epoch{}) && c.active() {
		q.frame = appendRoster(q.frame, c.own)
	}
}

// hearReplace: a member of the own group was asked to have another replaced.
func (c *Core) hearReplace(q *peer, r multicast.Replacement) {
	if q.group != c.own || q.member < 0 {
		c.stats.BadPackets++
		return
	}
	c.replaceMember(r)
}

// replaceMember takes in that a member is to be replaced; the primary does it.
func (c *Core) replaceMember(r multicast.Replacement) {
	if c.replaces(r) && !slices.Contains(c.replacements, r) {
		c.replacements = append(c.replacements, r)
		c.replaceAt = c.now
	}
}

// replaces reports whether there is something to do.
func (c *Core) replaces(r multicast.Replacement) bool {
	q := c.peers[r.Old]
	return q != nil && q.group == c.own && q.member >= 0 && r.New != 0 && (c.peers[r.New] == nil || c.peers[r.New].member < 0)
}

// pursueReplacements has the primary start an epoch with the new members, and others remind it.
func (c *Core) pursueReplacements(out *multicast.Output) {
	c.replacements = slices.DeleteFunc(c.replacements, func(r multicast.Replacement) bool { return !c.replaces(r) })
	if len(c.replacements) == 0 {
		return
	}
	if c.replaceAt > c.now {
		c.wake(out, c.replaceAt)
		return
	}
	c.replaceAt = c.now + c.config.SuspectAfter
	c.wake(out, c.replaceAt)
	switch leader := c.peers[c.current.Leader]; {
	case c.state == Primary && c.canReplace():
		c.startCampaign()
	case c.state == Follower:
		for _, r := range c.replacements {
			leader.frame = appendReplace(leader.frame, r)
		}
	}
}

// canReplace reports whether any is for another process than this one.
func (c *Core) canReplace() bool {
	return slices.ContainsFunc(c.replacements, func(r multicast.Replacement) bool { return r.Old != c.self.id })
}

// nextRoster gives the members of the epoch that this candidate starts.
func (c *Core) nextRoster() []multicast.ProcessID {
	ids := c.own.ids()
	for _, r := range c.replacements {
		if i := slices.Index(ids, r.Old); i >= 0 && r.Old != c.self.id && !slices.Contains(ids, r.New) {
			ids[i] = r.New
		}
	}
	return ids
}

// newcomers gives a bit for each place in which ids differ from the members of g.
func (g *group) newcomers(ids []multicast.ProcessID) (mask uint64) {
	for i, q := range g.members {
		if q.id != ids[i] {
			mask |= 1 << i
		}
	}
	return mask
}
