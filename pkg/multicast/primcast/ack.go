package primcast

import (
	"container/heap"
	"math/bits"
	"slices"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// clockStride is how far the recorded ceiling is ahead of the clock, so that not every BUMP needs a record.
const clockStride = 1 << 12

// onAck is lines 40-50.
func (c *Core) onAck(from multicast.ProcessID, a ack) {
	at := c.places[from]
	if !slices.Contains(a.dest, c.group.ID) || !slices.Contains(a.dest, at.group) {
		c.stats.Malformed++
		return
	}
	if m := c.lookup(a.id, a.dest); m != nil {
		c.count(m, at, &a)
	}
	if at.group != c.group.ID {
		c.bump(a.ts) // lines 48-50
		return
	}
	if from == a.epoch.Leader && a.epoch == c.current {
		c.queue = append(c.queue, said{ack: &a, ts: a.ts})
		c.advanceQueue()
		return
	}
	c.sawClock(at.member, a.epoch, a.ts)
}

// count puts an ACK into M and decides local-ts(m, h) with a quorum of one epoch
// (lines 9-11).
func (c *Core) count(m *entry, at place, a *ack) {
	i := slices.Index(m.Dest, at.group)
	if i < 0 {
		c.stats.Malformed++
		return
	}
	l := &m.locals[i]
	switch order := a.epoch.Compare(l.epoch); {
	case l.decided:
		invariant.Check(order != 0 || l.ts == a.ts, "message %v: local timestamp of group %d is %d, and %d is acknowledged in the same epoch", m.ID, at.group, l.ts, a.ts)
		return
	case order < 0 && l.ackers != 0:
		return
	case order > 0 || l.ackers == 0:
		*l = local{epoch: a.epoch, ts: a.ts}
	}
	invariant.Check(l.ts == a.ts, "message %v: group %d acknowledges %d and %d in one epoch", m.ID, at.group, l.ts, a.ts)
	l.ackers |= 1 << at.member
	if bits.OnesCount64(l.ackers) < c.groups[at.group].Quorum() {
		return
	}
	l.decided = true
	m.decided++
	c.decide(m)
}

// advanceQueue takes what the primary said, in its order (lines 42-45). Its ACK for a message without
// content waits for that, and all that it said later waits behind: its clock must not be
// believed before what it proposed below it is in T.
func (c *Core) advanceQueue() {
	n := 0
	for ; n < len(c.queue); n++ {
		s := c.queue[n]
		if s.ack != nil && !c.follow(s.ack) {
			break
		}
		if s.ts != 0 {
			c.sawClock(c.places[c.current.Leader].member, c.current, s.ts)
		}
	}
	c.queue = slices.Delete(c.queue, 0, n)
}

// follow appends what the primary proposed to T and acknowledges it; false if it has to wait for the
// content.
func (c *Core) follow(a *ack) bool {
	switch {
	case c.state != Follower || a.position < c.end():
		return true // our own, or again after the link started anew
	case a.position > c.end():
		c.stats.Gaps++
		return true
	}
	m := c.messages[a.id]
	if m == nil || !m.payload {
		return false
	}
	if m.proposed {
		c.stats.Malformed++
		return true
	}
	c.clock = max(c.clock, a.ts) // line 44
	c.append(m, a.ts)
	c.acknowledge(m)
	return true
}

// bump is lines 48-50: a remote timestamp moves the clock, and the group hears of it.
func (c *Core) bump(ts multicast.Timestamp) {
	if ts <= c.clock {
		return
	}
	c.clock = ts
	c.sayClock(c.group.Members)
}

// sayClock sends BUMP, whose clock must be durable first.
func (c *Core) sayClock(to []multicast.ProcessID) {
	if c.clock > c.ceiling {
		c.ceiling = c.clock + clockStride
		c.record(c.ceilingRecord())
	}
	for _, p := range to {
		c.send(p, func(b []byte) []byte {
			b = appendEpoch(append(b, kindBump), c.promised)
			return appendUint(b, uint64(c.clock))
		})
	}
}

// onBump is lines 51-52.
func (c *Core) onBump(from multicast.ProcessID, e Epoch, ts multicast.Timestamp) {
	at := c.places[from]
	if at.group != c.group.ID {
		c.stats.Malformed++
		return
	}
	if from == c.current.Leader {
		c.queue = append(c.queue, said{ts: ts})
		c.advanceQueue()
		return
	}
	c.sawClock(at.member, e, ts)
}

// sawClock raises min-clock of a member (lines 15-16).
func (c *Core) sawClock(member int, e Epoch, ts multicast.Timestamp) {
	if e.Compare(c.current) <= 0 {
		c.clocks[member] = max(c.clocks[member], ts)
	}
}

// quorumClock is lines 17-18.
func (c *Core) quorumClock() multicast.Timestamp {
	var sorted [maxMembers]multicast.Timestamp
	n := copy(sorted[:], c.clocks)
	slices.Sort(sorted[:n])
	return sorted[n-c.group.Quorum()]
}

// decide moves m in the order of pending messages by what is newly known of it (lines 12-14, 19-23).
func (c *Core) decide(m *entry) {
	for i := range m.locals {
		if m.locals[i].decided {
			m.bound = max(m.bound, m.locals[i].ts)
		}
	}
	if m.decided == len(m.Dest) {
		m.final = m.bound
	}
	if m.proposed && !m.delivered {
		heap.Fix(&c.pending, m.index)
	}
}
