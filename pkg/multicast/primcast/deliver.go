package primcast

import (
	"container/heap"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// pend puts m, now in T, among the pending ones. Its bound is the highest of its timestamp
// in T and the local timestamps decided. That is min-ts (lines 19-23) wherever it matters: line 30
// compares it with a final-ts that lines 28 and 29 have bounded by both clocks,
// and where line 22 or 23 is the smaller one, min-ts is above those clocks anyway.
func (c *Core) pend(m *entry) {
	m.bound = max(m.bound, m.ts)
	heap.Push(&c.pending, m)
	c.decide(m)
}

// limit is the highest final timestamp that can be delivered now (lines 28, 29).
func (c *Core) limit() multicast.Timestamp {
	return min(c.clocks[c.places[c.current.Leader].member], c.quorumClock())
}

// deliver is lines 53-56. The pending message with the lowest bound is the only one that line 30 lets
// pass.
func (c *Core) deliver() {
	limit := c.limit()
	for len(c.pending) > 0 {
		m := c.pending[0]
		if m.final == 0 || m.final > limit {
			return
		}
		heap.Pop(&c.pending)
		m.delivered = true
		c.finals = append(c.finals, final{position: m.position, ts: m.final})
		at := multicast.Position{Final: m.final, ID: m.ID}
		if at.Compare(c.delivered) <= 0 {
			continue // delivered before the restart
		}
		c.delivered = at
		c.out.Deliveries = append(c.out.Deliveries, multicast.Delivery{Message: m.Message, Final: m.final})
	}
}

// safe is SAFE-TS (T 4.4.2): nothing at or below it will be delivered any more.
func (c *Core) safe() multicast.Timestamp {
	safe := c.limit()
	if len(c.pending) > 0 {
		safe = min(safe, c.pending[0].bound-1)
	}
	return safe
}

// checkInvariants is the cheap part of what must hold after a step.
func (c *Core) checkInvariants() {
	invariant.Check(c.current.Compare(c.promised) <= 0, "E_cur %v is above E_prom %v", c.current, c.promised)
	for i := 1; i < len(c.out.Deliveries); i++ {
		a, b := c.out.Deliveries[i-1].Position(), c.out.Deliveries[i].Position()
		invariant.Check(a.Compare(b) < 0, "delivered %v after %v", b, a)
	}
}
