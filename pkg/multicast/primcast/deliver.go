package primcast

import (
	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// pend puts m among the pending messages, with its proposal as the lower bound of its
// position until local timestamps are decided.
//
// This is min-ts (lines 19-23) as far as line 30 can tell. Line 30 compares min-ts(m') with a
// final-ts(m) for which lines 28 and 29 hold, so that final-ts(m) is below 1 + min-clock(leader)
// and below 1 + quorum-clock. Where the minimum of lines 21-23 is one of
// these two, the comparison is thus true; it stays true with line 21 in
// their place, which is then higher. So line 21 alone decides.
func (c *Core) pend(m *message) {
	m.bound = max(m.bound, m.ts)
	c.pending.push(m)
}

// deliver is lines 53-56. Line 30 lets only the lowest of the pending messages pass.
func (c *Core) deliver(out *multicast.Output) {
	c.updateLimit()
	for len(c.pending) > 0 {
		m := c.pending[0]
		if !m.decided || m.bound > c.limit { // lines 27-29
			return
		}
		invariant.Check(m.logged, "a message is delivered before it is in T (I5)")
		c.pending.pop()
		if at := m.position(); at.Compare(c.durable) > 0 {
			if at.Compare(c.delivered) <= 0 {
				invariant.Check(false, "%v is delivered after %v (I3)", at, c.delivered)
			}
			c.delivered = at
			out.Deliveries = append(out.Deliveries, multicast.Delivery{Message: m.Message, Final: m.bound})
		}
		if len(m.Dest) > 1 {
			c.unnoted = append(c.unnoted, m)
		}
		c.finish(m)
	}
}

// finish is line 55. What the message holds is kept until no process needs it (trim.go).
func (c *Core) finish(m *message) {
	m.delivered = true
	m.tallies = nil
	c.done.add(m.ID, m.prev)
	c.keep(m)
}

// safe is SAFE-TS (T 4.4.2). A message that is not pending yet gets a local timestamp here
// above min-clock(leader) or above quorum-clock; a pending one is not
// delivered below its bound.
func (c *Core) safe() multicast.Timestamp {
	if len(c.pending) > 0 {
		return min(c.limit, c.pending[0].bound-1)
	}
	return c.limit
}
