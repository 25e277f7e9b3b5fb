package primcast

import (
	"slices"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// oracle is the leader oracle (DESIGN 4.1). A process that waits for its primary, for a message to be
// delivered or for an epoch to begin, watches it: it PINGs the group, so that a primary that has nothing to
// say answers and others watch too. A primary that is silent for SuspectAfter is
// suspected, and the group is told (SILENT). Only when a quorum follows no working
// primary does the first of them in the order of members start an epoch. So a process that alone hears
// nothing unseats nobody, and a group in which nothing waits says nothing.
type oracle struct {
	leaderAt   time.Duration
	watchSince time.Duration // -1: the primary is not watched
	watchUntil time.Duration
	nextPing   time.Duration
	lostSince  time.Duration // a member follows an epoch that came to nothing; 0: none does
	jitter     time.Duration
	backoff    int
	random     uint64
}

const (
	pingsPerSuspicion = 4
	maxBackoff        = 3 // a campaign that fails is repeated up to 2^3 times as late
)

// waits reports whether this process waits for its primary.
func (c *Core) waits() bool {
	return c.waiting > 0 || c.unproposed > 0 || !c.active() || len(c.replacements) > 0
}

// watches reports whether this process, or another not long ago, waits for the primary.
func (c *Core) watches() bool { return c.waits() || c.watchUntil > c.now }

// silence is for how long the primary, or the change to it, has not moved.
func (c *Core) silence() time.Duration {
	since := max(c.watchSince, c.leaderAt)
	if !c.active() {
		since = max(c.stateSince, c.progress)
	}
	return c.now - since
}

// watch is the oracle's turn.
func (c *Core) watch(out *multicast.Output) {
	if len(c.own.members) == 1 && len(c.own.before) == 0 || !c.own.elects(c.self) {
		return
	}
	if c.state == Primary {
		c.bringBack(out)
		return
	}
	if !c.watches() {
		c.watchSince = -1
		return
	}
	if c.watchSince < 0 {
		c.watchSince = c.now
		c.nextPing = c.now + c.config.SuspectAfter/pingsPerSuspicion
	}
	silence := c.silence()
	suspects := silence >= c.config.SuspectAfter
	if c.nextPing <= c.now {
		c.nextPing = c.now + c.config.SuspectAfter/pingsPerSuspicion
		c.relay()
		for _, q := range c.own.electors() {
			switch {
			case q == c.self:
			case suspects:
				q.frame = appendEpochPacket(q.frame, kindSilent, c.promised)
			case silence >= c.config.SuspectAfter/pingsPerSuspicion && (c.waits() || q.id == c.promised.Leader):
				q.frame = append(q.frame, byte(kindPing))
			}
		}
	}
	c.wake(out, c.nextPing)
	if !suspects {
		return
	}
	c.self.silent = c.now
	if c.self.member < 0 {
		return // another one leads
	}
	if wait := c.patience() - silence; wait > 0 {
		c.wake(out, c.now+wait)
	} else if c.quorumSilent() {
		c.startCampaign()
		c.backoff = min(c.backoff+1, maxBackoff)
		c.draw()
	}
}

// relay gives the primary messages that it may not have, since their sender crashed before it sent them
// to all: what was not proposed from one ping to the next.
func (c *Core) relay() {
	if c.unproposed == 0 || !c.active() {
		return
	}
	var stale []*message
	for _, m := range c.messages {
		if m.started && m.index == 0 {
			if m.stale {
				stale = append(stale, m)
			}
			m.stale = true
		}
	}
	slices.SortFunc(stale, func(a, b *message) int { return a.ID.Compare(b.ID) })
	leader := c.peers[c.current.Leader]
	for ; len(stale) > 0 && c.room(leader); stale = stale[1:] {
		c.sendStart(leader, &stale[0].Message, stale[0].prev)
	}
}

// patience is how long a primary may be silent before this process wants to be it.
func (c *Core) patience() time.Duration {
	rank := c.self.member
	if leader := c.peers[c.promised.Leader]; leader != nil && leader.member < rank {
		rank--
	}
	return (c.config.SuspectAfter + time.Duration(rank)*c.config.SuspectAfter/2 + c.jitter) << c.backoff
}

// draw makes the next jitter, up to half a step between two ranks (splitmix64).
func (c *Core) draw() {
	c.random += 0x9e3779b97f4a7c15
	z := c.random
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	c.jitter = time.Duration(z % uint64(c.config.SuspectAfter/4+1))
}

// quorumSilent reports whether a quorum has said not long ago that it follows no working primary. A new
// member may not know yet that it is one.
func (c *Core) quorumSilent() bool {
	silent := func(q *peer) bool { return q.silent != 0 && c.now-q.silent <= c.config.SuspectAfter }
	return hasQuorum(c.own.members, silent) || hasQuorum(c.own.settled(), silent)
}

// onPing: q waits for the primary, or a process of another group for what this one has not said.
func (c *Core) onPing(q *peer) {
	c.watchUntil = c.now + 2*c.config.SuspectAfter
	q.speak = true
}

// onSilent: q hears nothing from the leader of the epoch it has promised to.
func (c *Core) onSilent(q *peer, e Epoch) {
	if q.group != c.own {
		c.stats.BadPackets++
		return
	}
	c.highest = maxEpoch(c.highest, e)
	q.silent, q.forgone = max(c.now, 1), e
	if e.Compare(c.promised) < 0 { // it has not heard of what it could follow
		c.tellRoster(q, c.own)
		if c.promised.Leader == c.self.id {
			q.frame = appendNewEpoch(q.frame, c.promised, c.own.roster())
		}
	}
	c.watchUntil = c.now + 2*c.config.SuspectAfter
	q.speak = true
}

// bringBack is for a member that has promised to an epoch that came to nothing: it can take no part until
// there is a higher one. The primary that works starts it.
func (c *Core) bringBack(out *multicast.Output) {
	var lost *peer
	for _, q := range c.own.members {
		if q.silent != 0 && c.now-q.silent <= c.config.SuspectAfter && q.forgone.Compare(c.current) > 0 {
			lost = q
		}
	}
	switch {
	case lost == nil:
		c.lostSince = 0
	case c.lostSince == 0:
		c.lostSince = max(c.now, 1)
		c.wake(out, c.now+2*c.config.SuspectAfter)
	case c.now-c.lostSince >= 2*c.config.SuspectAfter:
		c.lostSince = 0
		c.startCampaign()
	default:
		c.wake(out, c.lostSince+2*c.config.SuspectAfter)
	}
}

// hearLeader notes signs of life of the primary of the present epoch, and who follows one again.
func (c *Core) hearLeader(q *peer, p *packet) {
	if q.group != c.own || q == c.self {
		return
	}
	if q.id == c.current.Leader && p.epoch == c.current && (p.kind == kindAck || p.kind == kindEntry) {
		c.leaderAt = c.now
	}
	if p.kind == kindAck && p.epoch == c.promised {
		q.silent = 0
	}
}
