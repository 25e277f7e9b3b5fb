package primcast

import (
	"slices"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// clockStride is how far the ceiling in the log is ahead of a clock that is about to be said:
// one record in so many timestamps, and a restarted clock jumps by at most that.
const clockStride = 1 << 12

// bump is when r-deliver(⟨BUMP, E, ts, q⟩), lines 51-52. What the primary says after a
// proposal that is not known here is not heard: line 22 needs all its proposals up to its
// clock (I5).
func (c *Core) bump(q *peer, p *packet) {
	if q.group != c.own {
		c.stats.BadPackets++
		return
	}
	if q == c.leader() && p.index > c.known() {
		c.stats.Gaps++
		return
	}
	c.heard(q, p.epoch, p.ts)
}

// heard raises min-clock(q), lines 15-16.
func (c *Core) heard(q *peer, e Epoch, ts multicast.Timestamp) {
	if e.Compare(c.current) <= 0 && ts > q.clock {
		q.clock = ts
		c.clocksChanged = true
	}
}

// sayClock is line 50, once a step: members of the own group that do not know the clock from an
// ACK are told it, after the log has it.
func (c *Core) sayClock() {
	for _, q := range c.own.members {
		if q.said >= c.clock {
			continue
		}
		q.said = c.clock
		q.frame = appendBump(q.frame, c.promised, c.clock, c.last)
		c.logClock()
	}
}

// updateLimit computes quorum-clock (lines 17-18) and what it and line 28 let pass.
func (c *Core) updateLimit() {
	if !c.clocksChanged {
		return
	}
	c.clocksChanged = false
	var array [maxMembers]multicast.Timestamp
	clocks := array[:0]
	for _, q := range c.own.members {
		clocks = append(clocks, q.clock)
	}
	slices.Sort(clocks)
	c.quorumClock = clocks[len(clocks)-c.own.quorum]
	c.limit = min(c.leader().clock, c.quorumClock)
}
