package primcast

import (
	"slices"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// class is the state of the messages to one set of destination groups; without Config.Classes, of all
// messages. The positions of a class are in values of multicast.Progress: delivery.delivered for the
// deliveries of this process, peer.covered and group.covered for durable state, group.forgotten for forgotten
// messages.
type class struct {
	name    multicast.Class
	pending queue                 // proposed and not delivered
	kept    map[*group][]*message // delivered, and not covered by a destination group, in their order
	safe    multicast.Timestamp   // the highest result of SafeOf
	sending
}

// class returns the class with a name, and makes it if necessary.
func (c *delivery) class(name multicast.Class) *class {
	x := c.named[name]
	if x == nil {
		x = &class{name: name, kept: map[*group][]*message{}, safe: c.emptySafe}
		c.named[name] = x
		c.classes = append(c.classes, x)
	}
	return x
}

// find returns the class with a name; nil if this process knows no message of it.
func (c *delivery) find(name multicast.Class) *class {
	if c.plain != nil && name == "" {
		return c.plain
	}
	return c.named[name]
}

// classOf returns the class of the messages to some groups.
func (c *delivery) classOf(dest []multicast.GroupID) *class {
	if c.plain != nil {
		return c.plain
	}
	return c.class(multicast.ClassOf(dest))
}

// concerns reports whether the messages of a class go both to q's group and to the own group.
func (c *delivery) concerns(name multicast.Class, q *peer) bool {
	if c.plain != nil {
		return name == ""
	}
	return name != "" && name.To(c.own.id) && name.To(q.group.id) && !slices.ContainsFunc(name.Groups(), func(g multicast.GroupID) bool { return c.groups[g] == nil })
}

// queueOf returns the queue in which m waits for its delivery. A proposal without its content may be of any
// class.
func (c *delivery) queueOf(m *message) *queue {
	if m.class == nil {
		return &c.unknown
	}
	return &m.class.pending
}

// mayCome reports whether a pending message of a class, or one of unknown class, may be delivered at a
// position up to p.
func (c *delivery) mayCome(name multicast.Class, p multicast.Position) bool {
	isBelow := func(q queue) bool { return len(q) > 0 && q[0].position().Compare(p) <= 0 }
	x := c.find(name)
	return isBelow(c.unknown) || x != nil && isBelow(x.pending)
}

// safe returns SAFE-TS (T 4.4.2) for all classes. A message that is not pending yet gets a local timestamp
// here above min-clock(leader) or above quorum-clock; a pending message is not delivered below its bound.
// Messages that were pending before an epoch that fails may be pending again after it.
func (c *delivery) safe() multicast.Timestamp {
	if !c.active() {
		return c.checked.safe
	}
	limit := c.unknown.below(c.own.limit)
	for _, x := range c.classes {
		limit = x.pending.below(limit)
	}
	return max(limit, c.checked.safe)
}

// SafeOf returns the value that Output.Safe has for one class: no message of the class at or below this
// timestamp will be delivered after the last step. It is not below Output.Safe, and does not go back.
func (c *Core) SafeOf(name multicast.Class) multicast.Timestamp {
	x, safe := c.find(name), &c.emptySafe
	if x != nil {
		safe = &x.safe
	}
	*safe = max(*safe, c.checked.safe)
	if c.active() {
		limit := c.unknown.below(c.own.limit)
		if x != nil {
			limit = x.pending.below(limit)
		}
		*safe = max(*safe, limit)
	}
	return *safe
}
