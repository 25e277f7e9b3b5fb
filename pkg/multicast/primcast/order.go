package primcast

import (
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// front is the front that a member of a group sent: the timestamp up to which it knows all proposals of the
// group (the primary: its clock; others: the limit of lines 28 and 29), and the position below which it then
// had delivered all messages that do not come to this group too. Position zero: all.
type front struct {
	ts       multicast.Timestamp
	position multicast.Position
}

// passed reports whether all messages that precede m in the group, and that this process does not deliver
// itself, were delivered.
func (f *front) passed(at multicast.Position) bool {
	return f.ts >= at.Final && (f.position == multicast.Position{} || f.position.Compare(at) > 0)
}

// hearFront takes in the front of a member. The primary sends it in time; the others send it on request, so
// that no process waits for a primary that is gone.
func (c *system) hearFront(q *peer, p *ackPacket) {
	f := &q.group.front
	if q.group == c.own || !p.hasFront || p.epoch != q.group.epoch || p.front.ts < f.ts {
		return
	}
	if none := (multicast.Position{}); p.front.position == none || f.position != none && p.front.position.Compare(f.position) >= 0 || p.front.ts > f.ts {
		*f = p.front
	}
}

// askOthers: the next delivery waits for other groups. They are pinged periodically: a primary of theirs may
// be gone, and all may have delivered m there.
func (c *delivery) askOthers(out *multicast.Output) {
	if !c.ordered || !c.active() || len(c.plain.pending) == 0 || !c.plain.pending[0].decided || c.plain.pending[0].bound > c.own.limit {
		c.askAt = 0
		return
	}
	if c.askAt == 0 {
		c.askAt = c.now + c.config.SuspectAfter/pingsPerSuspicion
	}
	if c.askAt <= c.now {
		c.askAt = c.now + c.config.SuspectAfter/pingsPerSuspicion
		for _, id := range c.plain.pending[0].Dest {
			for _, q := range c.groups[id].members() {
				if q.group != c.own {
					q.frame = (&pingPacket{}).append(q.frame)
				}
			}
		}
	}
	wake(out, c.askAt)
}

// allReady reports whether at each other destination group no more message can come before m, and the
// messages before it have been delivered, there or here.
func (c *system) allReady(m *message) bool {
	for _, id := range m.Dest {
		g := c.groups[id]
		if g == c.own {
			continue
		}
		g.updateLimit()
		if m.bound > g.quorumClock || !g.front.passed(m.position()) {
			return false
		}
	}
	return true
}

// isPast reports whether the timestamp of m, if it requests the order by clocks, is past at all processes.
func (c *system) isPast(m *message, out *multicast.Output) bool {
	if m.Order != multicast.AtomicGlobal || c.config.ClockError == 0 {
		return true
	}
	wait := time.Duration(m.bound)*time.Microsecond + 2*c.config.ClockError - time.Duration(c.wall)
	if wait < 0 {
		return true
	}
	wake(out, c.now+wait+1)
	return false
}

// moved: m may wait at other destinations for an event here. They are informed at the end of the step.
func (c *delivery) moved(m *message) {
	if m.Order != multicast.AtomicGlobal || len(m.Dest) < 2 || c.config.ClockError > 0 {
		return
	}
	c.ordered = true
	for _, id := range m.Dest {
		if g := c.groups[id]; g != c.own {
			g.listens = true
			if at := m.position(); at.Compare(g.awaited) > 0 {
				g.awaited = at
			}
		}
	}
}

// speakFront informs the groups that listen, and those that wait for the own group's front to pass.
func (c *delivery) speakFront() {
	if !c.ordered {
		return
	}
	for _, id := range c.groupIDs {
		g := c.groups[id]
		if g == c.own || g.awaited == (multicast.Position{}) {
			continue
		}
		next := front{ts: c.own.limit, position: c.frontFor(id)}
		if c.state == Primary {
			next.ts = c.clock
		}
		if g.listens || c.state == Primary && next.position != g.frontSent.position && !g.frontSent.passed(g.awaited) {
			for _, q := range g.members() {
				q.speak = true
			}
		}
		g.listens, g.frontSent = false, next
	}
}

// frontFor is the lowest position that a pending message that does not go to g may take; zero: there is none.
func (c *delivery) frontFor(g multicast.GroupID) multicast.Position {
	var lowest multicast.Position
	if m := c.plain.pending.lowest(0, func(m *message) bool { return !m.To(g) }, nil); m != nil {
		lowest = m.position()
	}
	return lowest
}
