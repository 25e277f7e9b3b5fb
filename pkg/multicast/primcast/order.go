package primcast

import (
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// front is what a member of a group said: up to which timestamp it knows all proposals of the group (the
// primary: its clock; others: what lines 28 and 29 let pass), and below which position it then had
// delivered all that does not come to this group too. Position zero: all.
type front struct {
	ts       multicast.Timestamp
	position multicast.Position
}

// passed reports whether what precedes m in the group, and this process does not deliver itself, was
// delivered.
func (f *front) passed(at multicast.Position) bool {
	return f.ts >= at.Final && (f.position == multicast.Position{} || f.position.Compare(at) > 0)
}

// hearFront takes in what a member says. The primary says it in time; the others when they are asked, so
// that nobody waits for a primary that is gone.
func (c *system) hearFront(q *peer, p *ackPacket) {
	f := &q.group.front
	if q.group == c.own || !p.hasFront || p.epoch != q.group.epoch || p.front.ts < f.ts {
		return
	}
	if none := (multicast.Position{}); p.front.position == none || f.position != none && p.front.position.Compare(f.position) >= 0 || p.front.ts > f.ts {
		*f = p.front
	}
}

// askOthers: what would be delivered next waits for other groups. They are asked now and then: a primary of
// theirs may be gone, and all may have delivered m there.
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

// allReady reports whether at each other destination group nothing can come before m any more, and what
// does has been delivered, there or here.
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

// isPast reports whether the timestamp of m, if it asks for the order by clocks, is past at all processes.
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

// moved: m may wait at other destinations for what has happened here. They are told at the end of the step.
func (c *delivery) moved(m *message) {
	if m.Order != multicast.AtomicGlobal || len(m.Dest) < 2 || c.config.ClockError > 0 {
		return
	}
	c.ordered = true
	for _, id := range m.Dest {
		if g := c.groups[id]; g != c.own {
			g.listens = true
			if at := m.position(); at.Compare(g.wanted) > 0 {
				g.wanted = at
			}
		}
	}
}

// speakFront tells the groups that listen, and those that wait for the own group's front to pass.
func (c *delivery) speakFront() {
	if !c.ordered {
		return
	}
	for _, id := range c.groupIDs {
		g := c.groups[id]
		if g == c.own || g.wanted == (multicast.Position{}) {
			continue
		}
		next := front{ts: c.own.limit, position: c.frontFor(id)}
		if c.state == Primary {
			next.ts = c.clock
		}
		if g.listens || c.state == Primary && next.position != g.frontSent.position && !g.frontSent.passed(g.wanted) {
			for _, q := range g.members() {
				q.speak = true
			}
		}
		g.listens, g.frontSent = false, next
	}
}

// frontFor is the lowest position that a pending message may take that does not go to g; zero: there is none.
func (c *delivery) frontFor(g multicast.GroupID) multicast.Position {
	var lowest multicast.Position
	if m := c.plain.pending.lowest(0, func(m *message) bool { return !m.To(g) }, nil); m != nil {
		lowest = m.position()
	}
	return lowest
}
