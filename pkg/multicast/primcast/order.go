package primcast

import (
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// front is the progress of a group, as a member has sent it. The member knows all proposals of the group up
// to a timestamp: for the primary this is its clock, for others the limit of lines 28 and 29. Below the
// position it has delivered all messages that do not come to the receiver's group; the zero position means
// all messages.
type front struct {
	ts       multicast.Timestamp
	position multicast.Position
}

// passed reports whether the group has delivered all messages that precede position at and do not come to
// this process.
func (f *front) passed(at multicast.Position) bool {
	return f.ts >= at.Final && (f.position == multicast.Position{} || f.position.Compare(at) > 0)
}

// receiveFront takes the front of a member. The primary sends its front without a request. The others send
// theirs on request, so that no process waits for a primary that has crashed.
func (c *system) receiveFront(q *peer, p *ackPacket) {
	f := &q.group.front
	if q.group == c.own || !p.hasFront || p.epoch != q.group.epoch || p.front.ts < f.ts {
		return
	}
	if none := (multicast.Position{}); p.front.position == none || f.position != none && p.front.position.Compare(f.position) >= 0 || p.front.ts > f.ts {
		*f = p.front
	}
}

// askOthers pings the groups that hold back the next delivery, periodically. Their primary may have crashed,
// and their members may have nothing to send because they have delivered m.
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

// allReady reports whether no further message can come before m at any other destination group, and all
// messages before m were delivered, there or here.
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

// isPast reports whether the timestamp of m is past at all processes, if m requests the order by clocks
// (Config.ClockError).
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

// moved records that processes of other destinations of m may wait for the state of this process. They get it
// at the end of the step.
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

// speakFront sends the state of this process to the groups that listen, and to those that wait for the front
// of the own group.
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

// frontFor returns the lowest position of a pending message that does not go to g; zero: there is none.
func (c *delivery) frontFor(g multicast.GroupID) multicast.Position {
	var lowest multicast.Position
	if m := c.plain.pending.lowest(0, func(m *message) bool { return !m.To(g) }, nil); m != nil {
		lowest = m.position()
	}
	return lowest
}
