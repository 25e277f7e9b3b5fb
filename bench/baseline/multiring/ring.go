package multiring

import (
	"github.com/globalfs/globalfs/pkg/multicast"

	"github.com/globalfs/globalfs/bench/baseline/queues"
)

// ring is a ring as one of its members sees it.
type ring struct {
	rank     uint8
	members  int
	index    int   // of this process; the coordinator has 0
	next     *peer // along the ring; nil if there is nobody else
	previous *peer
	quorum   int

	accepted uint64             // slots voted for here: all below
	decided  uint64             // slots known to be decided: all below
	said     uint64             // the part of decided that was passed on
	values   queues.FIFO[value] // in the order of their slots
	proposed queues.FIFO[proposal]
}

// proposal is a message that waits for a slot at the coordinator.
type proposal struct {
	packet
	route *route
}

// maxStep is how many bytes of values a coordinator puts into slots in one step, or one value if that is
// larger. A process sends a frame on when it has all of it. Without this bound, the values that many clients
// propose at once would go around as one frame, with all links but one idle.
const maxStep = 16 << 10

// newRing places a process on a ring; nil if it is no member.
func newRing(rank uint8, members []*peer, self *peer) *ring {
	n := len(members)
	for i, q := range members {
		if q == self {
			r := &ring{rank: rank, members: n, index: i, quorum: n/2 + 1}
			if n > 1 {
				r.next, r.previous = members[(i+1)%n], members[(i+n-1)%n]
			}
			return r
		}
	}
	return nil
}

// take votes for slots that came along the ring, or that the coordinator has just filled, and sends them on.
func (r *ring) take(slots uint64, packet []byte) {
	r.accepted += slots
	if r.index+1 >= r.quorum {
		r.decided = r.accepted
	}
	if r.index+1 < r.members {
		r.next.Frame = append(r.next.Frame, packet...)
	}
}

// pass tells the next member the decisions that it does not know by its own vote.
func (r *ring) pass() {
	if r.said == r.decided || r.next == nil || (r.index+1)%r.members+1 >= r.quorum {
		return
	}
	r.said = r.decided
	p := packet{kind: kindDecided, rank: r.rank, slot: r.decided}
	r.next.Frame = p.append(r.next.Frame)
}

// ringOf gives the ring of this process that a packet is about, if it came along it.
func (c *Core) ringOf(q *peer, p *packet) *ring {
	r := c.group
	if p.rank == globalRank {
		r = c.global
	}
	if r == nil || r.previous != q {
		return nil
	}
	return r
}

// propose takes in a message, at the coordinator of its ring.
func (c *Core) propose(q *peer, p *packet) bool {
	x := c.routes.Find(p.route)
	if x == nil || x.coordinator != c.self || q.id != p.id.Sender || p.id.Seq <= q.high {
		return false
	}
	r := c.group
	if x.rank == globalRank {
		r = c.global
	}
	if c.merge.after(r.rank, p.after) > maxSlot {
		return false
	}
	q.high = p.id.Seq
	*r.proposed.Push() = proposal{*p, x}
	return true
}

// order gives slots to the proposed values; false if some of it is left for the next step.
func (c *Core) order(r *ring) bool {
	size := 0
	for next := r.proposed.First(); next != nil; next = r.proposed.First() {
		if size > 0 && size+len(next.payload) > maxStep {
			return false
		}
		if at := c.merge.after(r.rank, next.after); at > r.accepted {
			c.skipTo(r, at)
		}
		p := next.packet
		p.kind, p.rank, p.slot = kindValue, r.rank, r.accepted
		c.scratch = p.append(c.scratch[:0])
		size += len(c.scratch)
		c.keep(r, next.route, &p)
		r.take(1, c.scratch)
		r.proposed.Pop()
	}
	return true
}

// value takes in a value that came along a ring.
func (c *Core) value(q *peer, p *packet, encoded []byte) bool {
	r, x := c.ringOf(q, p), c.routes.Find(p.route)
	if r == nil || x == nil || x.rank != r.rank || r.index == 0 || p.slot != r.accepted || p.slot >= maxSlot {
		return false
	}
	c.keep(r, x, p)
	r.take(1, encoded)
	return true
}

// keep holds a value until its delivery, if it is for this process.
func (c *Core) keep(r *ring, x *route, p *packet) {
	if !x.own {
		return
	}
	v := r.values.Push()
	v.Message = multicast.Message{ID: p.id, Dest: x.dest, After: p.after, Payload: p.payload}
	v.final = c.merge.final(r.rank, p.slot)
}

// skipTo fills slots up to one that stays free, at the coordinator.
func (c *Core) skipTo(r *ring, slot uint64) {
	p := packet{kind: kindSkip, rank: r.rank, slot: r.accepted, count: slot - r.accepted}
	c.scratch = p.append(c.scratch[:0])
	r.take(p.count, c.scratch)
}

// skip takes in a skip that came along a ring.
func (c *Core) skip(q *peer, p *packet, encoded []byte) bool {
	r := c.ringOf(q, p)
	if r == nil || r.index == 0 || p.slot != r.accepted || p.count > maxSlot-p.slot {
		return false
	}
	r.take(p.count, encoded)
	return true
}

// decide takes in a decision that came along a ring.
func (c *Core) decide(q *peer, p *packet) bool {
	r := c.ringOf(q, p)
	if r == nil || r.index+1 >= r.quorum || p.slot > r.accepted || p.slot < r.decided {
		return false
	}
	r.decided = p.slot
	return true
}
