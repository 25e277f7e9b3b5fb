package primcast

import (
	"slices"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// pend adds m to the pending messages of its class. Until local timestamps are decided, the timestamp of its
// proposal is the lower bound of its position.
//
// This is min-ts (lines 19-23) as far as line 30 can tell. Line 30 compares min-ts(m') with a final-ts(m) for
// which lines 28 and 29 hold, so that final-ts(m) is below 1 + min-clock(leader) and below 1 + quorum-clock.
// If the minimum of lines 21-23 is one of these two, the comparison is thus true; it stays true with line 21
// in their place, which is then higher. So line 21 alone decides.
func (c *delivery) pend(m *message) {
	m.bound = max(m.bound, m.ts)
	c.requeue(m)
	c.moved(m)
}

// requeue adds m to the queue of its class.
func (c *delivery) requeue(m *message) {
	c.queueOf(m).push(m)
	c.waiting++
}

// unqueue removes m from its queue.
func (c *delivery) unqueue(m *message) {
	c.queueOf(m).remove(m)
	c.waiting--
}

// unpend removes a pending message whose proposal is not in the T of a new epoch.
func (c *delivery) unpend(m *message) {
	c.unqueue(m)
	m.index, m.ts, m.bound, m.decided = 0, 0, 0, false
	c.learned(m)
	if m.started {
		c.unproposed++
	} else if m.mentions == 0 && len(m.locals) == 0 {
		delete(c.messages, m.ID)
	} else {
		m.namedIn = c.namedBy(m)
	}
}

// deliver delivers messages (lines 53-56). By line 30 it delivers only the lowest of the pending messages of
// a class, or those that commute with all messages below them (T 4.4.3). A proposal without its content may
// be of any class.
func (c *delivery) deliver(out *multicast.Output) {
	if !c.active() {
		return // the T of an epoch without a quorum may be replaced
	}
	c.own.updateLimit()
	for _, x := range c.classes {
		for len(x.pending) > 0 && c.deliverable(x.pending[0]) && !c.mayBeAfterUnknown(x.pending[0]) && c.isPast(x.pending[0], out) {
			c.deliverOne(x.pending[0], out)
		}
	}
	if c.config.Conflicts != nil && len(c.plain.pending) > 1 {
		c.deliverCommuting(out)
	}
}

// mayBeAfterUnknown reports whether a proposal whose class is unknown may be ordered before m.
func (c *delivery) mayBeAfterUnknown(m *message) bool {
	return len(c.unknown) > 0 && c.unknown[0].position().Compare(m.position()) < 0
}

// deliverable reports whether lines 27-29 hold for m, and the condition of its requested order (order.go).
func (c *delivery) deliverable(m *message) bool {
	return m.decided && m.bound <= c.own.limit && (m.Order != multicast.AtomicGlobal || c.config.ClockError > 0 || c.allReady(m))
}

// deliverCommuting delivers messages that do not conflict with any pending message below them.
func (c *delivery) deliverCommuting(out *multicast.Output) {
	waiting := slices.SortedFunc(slices.Values(c.plain.pending), func(a, b *message) int {
		return a.position().Compare(b.position())
	})
	for i, m := range waiting {
		if !c.deliverable(m) || m.Order == multicast.AtomicGlobal {
			continue
		}
		if !slices.ContainsFunc(waiting[:i], func(other *message) bool {
			return !other.delivered && (!other.started || c.config.Conflicts(&other.Message, &m.Message))
		}) {
			c.deliverOne(m, out)
		}
	}
}

func (c *delivery) deliverOne(m *message, out *multicast.Output) {
	if !m.logged {
		invariant.Broken("message %v is delivered before it is in T (I5)", m.ID)
	}
	c.unqueue(m)
	if at, name := m.position(), m.class.name; at.Compare(c.config.Delivered.Of(name)) > 0 {
		if !c.delivered.Advance(name, at) && c.config.Conflicts == nil {
			invariant.Broken("%v is delivered after %v (I3)", at, c.delivered.Of(name))
		}
		out.Deliveries = append(out.Deliveries, multicast.Delivery{Message: m.Message, Final: m.bound})
	}
	if len(m.Dest) > 1 {
		c.log.delivered(m)
	}
	c.finish(m)
	c.moved(m)
}

// finish marks m as delivered (line 55). The content of m is kept until no process needs it (trim.go).
func (c *delivery) finish(m *message) {
	m.delivered, m.settled = true, true
	c.held.Advance(m.class.name, m.position())
	m.locals = nil
	if m.own {
		m.class.closed(&m.Message)
	}
	c.done.add(m.ID, m.prev)
	c.keep(m)
}
