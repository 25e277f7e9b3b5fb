package primcast

import (
	"slices"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// clockStride is the distance of the ceiling in the log from a clock that is about to be sent: one record per
// stride of timestamps, and a restarted clock jumps by at most a stride. Hybrid timestamps are microseconds.
const (
	clockStride  = 1 << 12
	hybridStride = 1 << 20
)

// raiseClock raises min-clock(q), lines 15-16. The primary's clock counts once all its proposals up to it are
// known: line 22 needs that (I5).
func (c *variables) raiseClock(q *peer, s epochClock) {
	g := q.group
	if s.epoch.Compare(g.epoch) > 0 {
		q.later = s
		return
	}
	if q.id == g.epoch.Leader && s.last > c.knownOf(g) {
		return
	}
	if s.ts > q.clock {
		q.clock = s.ts
		g.clocksChanged = true
	}
}

// onBump handles r-deliver(⟨BUMP, E, ts, q⟩), lines 51-52, from a process that follows no primary.
func (c *Core) onBump(q *peer, p *bumpPacket) {
	if q.group != c.own {
		c.stats.BadPackets++
		return
	}
	c.highest = maxEpoch(c.highest, p.epoch)
	q.fetching = false
	c.raiseClock(q, epochClock{epoch: p.epoch, ts: p.ts, last: p.last})
}

// proposed is the known length of the T of E_prom: a primary that has restarted sends its clock before it is
// active again.
func (c *variables) proposed() uint64 {
	if c.current != c.promised {
		return 0
	}
	return c.t.last()
}

// enterClocks counts, in a new epoch of g, the clocks that were already sent in it.
func (c *variables) enterClocks(g *group) {
	g.clocksChanged = true
	for _, q := range g.members() {
		if later := q.later; later.ts != 0 {
			q.later = epochClock{}
			c.raiseClock(q, later)
		}
	}
}

// updateLimit computes quorum-clock (lines 17-18) and the limit of it and line 28, if the known members are
// those of the epoch (R3). Neither a new primary nor anything in its T is below an earlier limit: it has been
// in a quorum.
func (g *group) updateLimit() {
	if !g.clocksChanged || !g.counts() {
		return
	}
	g.clocksChanged = false
	var array [maxMembers]multicast.Timestamp
	clocks := array[:0]
	var leader multicast.Timestamp
	for _, q := range g.members() {
		clocks = append(clocks, q.clock)
		if q.id == g.epoch.Leader {
			leader = q.clock
		}
	}
	slices.Sort(clocks)
	g.quorumClock = clocks[len(clocks)-g.majority()]
	g.limit = max(g.limit, min(leader, g.quorumClock))
}

// laziness is the ratio of FetchAfter to the delay of an acknowledgement that its receiver does not need.
const laziness = 4

// isDue reports whether q must get the acknowledgement of this step, although q may not need it. It leaves
// with other packets for q, or a little later.
func (c *delivery) isDue(q *peer, out *multicast.Output) bool {
	if len(q.frame) > 0 || !c.canDecideWithout(q) {
		return true
	}
	if c.speakAt == 0 {
		c.speakAt = c.now + c.config.FetchAfter/laziness
	}
	if c.speakAt <= c.now {
		return true
	}
	wake(out, c.speakAt)
	return false
}

// canDecideWithout reports whether q decides without acknowledgements of this process: both follow the same
// primary, which is a quorum together with q (doc.go). There is at most one such process.
func (c *delivery) canDecideWithout(q *peer) bool {
	return c.state == Follower && q.group == c.own && q != c.self && q.id != c.current.Leader && c.own.majority() <= 2 && !c.own.isChanging()
}

// acknowledge is lines 39, 45 and 50 once a step, for all of T and the clock together. Waiting processes get
// it after the log has it.
func (c *delivery) acknowledge(out *multicast.Output) {
	c.speakFront()
	for _, q := range c.order {
		if c.own.elects(q) && (q.clockSent < c.clock || q.lengthSent < c.t.last()) {
			q.speak = q.speak || c.isDue(q, out)
		}
		if !q.speak || c.hasResigned() {
			continue
		}
		q.speak = false
		if c.canDecideWithout(q) {
			c.speakAt = 0
		}
		c.log.clock(c.clock)
		q.clockSent, q.lengthSent = c.clock, c.t.last()
		if c.isAmnesiac() {
			q.tellAmnesia(c)
			continue
		}
		if c.active() {
			q.frame = c.appendAck(q)
		} else if q.group == c.own {
			q.frame = (&bumpPacket{epoch: c.promised, ts: c.clock, last: c.proposed()}).append(q.frame)
		}
	}
}
