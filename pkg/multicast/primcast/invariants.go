package primcast

import (
	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// checked is the state at the last check.
type checked struct {
	steps uint64
	clock multicast.Timestamp
	safe  multicast.Timestamp
}

// check checks the invariants of doc.go that can be checked after each step at constant cost. I2, I3 and I6
// are checked at the code that could break them: sequence.append, deliver and decide. The arguments of a
// frequent Check are inside a branch, so that they are allocated only for a violation.
func (c *delivery) check(safe multicast.Timestamp) {
	if c.clock < c.checked.clock || c.current.Compare(c.promised) > 0 || safe < c.checked.safe {
		invariant.Broken("the clock went from %d to %d (I1), or the safe timestamp from %d to %d (I7), or E_cur %v is after E_prom %v (I4)",
			c.checked.clock, c.clock, c.checked.safe, safe, c.current, c.promised)
	}
	c.checked.steps++
	c.checked.clock, c.checked.safe = c.clock, safe
	if c.checked.steps%uint64(c.config.AuditEvery) == 0 {
		c.audit()
	}
}

// audit checks the invariants of every message. It skips a process that has retired.
func (c *delivery) audit() {
	if c.state == Retired {
		return
	}
	for _, q := range c.own.members() {
		invariant.Check(q.clockSent <= c.log.restartsAt(), "process %d was told clock %d, a restart would begin at %d (I1)", q.id, q.clockSent, c.log.restartsAt())
	}
	entries, waiting, unproposed, kept := 0, 0, 0, 0
	for id, m := range c.messages {
		invariant.Check(m.ID == id, "message %v is kept as %v", m.ID, id)
		if m.logged {
			entries++
			invariant.Check(m.started && m.index != 0 && m.index <= c.t.last() && c.t.at(m.index) == m, "message %v is entry %d of T, which ends at %d (I2)", id, m.index, c.t.last())
		}
		if m.started && m.index == 0 {
			unproposed++
		}
		if m.index != 0 && !m.delivered {
			waiting++
			q := *c.queueOf(m)
			invariant.Check(m.slot < len(q) && q[m.slot] == m, "message %v is not in its place among the pending ones", id)
			parent := q[max(0, m.slot-1)/2]
			invariant.Check(parent.position().Compare(m.position()) <= 0, "message %v is pending after %v", parent.ID, id)
			invariant.Check(m.bound >= m.ts, "message %v is bounded by %d and proposed at %d", id, m.bound, m.ts)
		}
		if m.delivered {
			kept += packetSize(&m.Message)
		}
		invariant.Check((m.class == nil) == (c.plain == nil && !m.started), "message %v has started: %v, and is of class %v", id, m.started, m.class)
		invariant.Check(!m.delivered || m.logged && m.decided && c.done.has(id), "message %v is delivered and not in T or D (I5)", id)
	}
	invariant.Check(entries == c.t.entries(), "T has %d entries, %d were counted", entries, c.t.entries())
	queued := len(c.unknown)
	for _, x := range c.classes {
		queued += len(x.pending)
	}
	invariant.Check(kept == c.keptBytes, "%d bytes are kept, %d were counted", kept, c.keptBytes)
	invariant.Check(waiting == queued, "%d messages are proposed and not delivered, %d are pending", waiting, queued)
	invariant.Check(waiting == c.waiting, "%d messages are proposed and not delivered, %d were counted", waiting, c.waiting)
	invariant.Check(unproposed == c.unproposed, "%d messages are not proposed, %d were counted", unproposed, c.unproposed)
	for i, m := range c.accepted {
		invariant.Check(m.index == c.t.last()+uint64(i)+1, "proposal %d waits in place %d after entry %d (I2)", m.index, i, c.t.last())
	}
}
