package primcast

import (
	"slices"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// clockStride is the distance by which the recorded ceiling is ahead of the clock: the log gets one record
// for each stride of timestamps, and a restarted clock jumps by at most a stride. With the hybrid clock,
// timestamps are microseconds, and hybridStride is about a second.
const (
	clockStride  = 1 << 12
	hybridStride = 1 << 20
)

// raiseClock raises min-clock(q) (lines 15-16). The clock of a primary counts only once this process knows
// all proposals up to it: line 22 relies on that (I5).
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

// onBump handles r-deliver(⟨BUMP, E, ts, q⟩) of a process that follows no primary (lines 51-52).
func (c *Core) onBump(q *peer, p *bumpPacket) {
	if q.group != c.own {
		c.stats.BadPackets++
		return
	}
	c.highest = maxEpoch(c.highest, p.epoch)
	q.fetching = false
	c.raiseClock(q, epochClock{epoch: p.epoch, ts: p.ts, last: p.last})
}

// proposed returns the length of T, if it is the T of E_prom, else 0. A primary that has restarted sends its
// clock with it before its epoch is known to be active again.
func (c *variables) proposed() uint64 {
	if c.current != c.promised {
		return 0
	}
	return c.t.last()
}

// enterClocks counts, after g has entered a new epoch, the clocks that members have sent in that epoch.
func (c *variables) enterClocks(g *group) {
	g.clocksChanged = true
	for _, q := range g.members() {
		if later := q.later; later.ts != 0 {
			q.later = epochClock{}
			c.raiseClock(q, later)
		}
	}
}

// updateLimit computes quorum-clock (lines 17-18), and the limit: the lower one of quorum-clock and the clock
// of the primary (line 28). It does so only if the known members are those of the epoch (R3). The limit never
// goes back: the proposals of a new primary, and the entries of its T, are above it unless they are known
// here, since the promises for its epoch contain a process of the quorum.
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

// laziness divides FetchAfter: the quotient is the delay of an acknowledgement that its receiver does not
// need.
const laziness = 4

// isDue reports whether q must get an acknowledgement in this step. An acknowledgement that q does not need
// waits for other packets to q, or for a short time.
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

// canDecideWithout reports whether q decides without acknowledgements of this process, because q and their
// common primary are a quorum (doc.go). This holds for at most one process.
func (c *delivery) canDecideWithout(q *peer) bool {
	return c.state == Follower && q.group == c.own && q != c.self && q.id != c.current.Leader && c.own.majority() <= 2 && !c.own.isChanging()
}

// acknowledge acknowledges all of T and sends the clock, once for each step (lines 39, 45 and 50). The
// acknowledgement leaves after the records of the step are durable.
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
			q.sendAmnesia(c)
			continue
		}
		if c.active() {
			q.frame = c.appendAck(q)
		} else if q.group == c.own {
			q.frame = (&bumpPacket{epoch: c.promised, ts: c.clock, last: c.proposed()}).append(q.frame)
		}
	}
}
