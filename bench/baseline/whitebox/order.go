package whitebox

import (
	"math/bits"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// message is the state of a message until all its destinations have delivered it.
type message struct {
	multicast.Message
	route   *route
	votes   []vote              // by group of route
	few     [4]vote             // the memory of votes, usually
	missing int                 // groups of which no ACCEPT has come
	waiting int                 // groups without a quorum of acks
	bound   multicast.Timestamp // at a leader, I2; 0: MULTICAST has not come
	final   multicast.Timestamp // once nothing is missing
	slot    int                 // in pending

	committed, delivered bool
}

// vote is the state of one destination group of a message.
type vote struct {
	local multicast.Timestamp // 0: not known
	acks  uint64              // a bit a member; only leaders count
}

func (m *message) position() multicast.Position {
	return multicast.Position{Final: m.bound, ID: m.ID}
}

// Before implements heap.Item.
func (m *message) Before(other *message) bool { return m.position().Compare(other.position()) < 0 }

// Moved implements heap.Item.
func (m *message) Moved(to int) { m.slot = to }

// multicast is the first step, at the sender.
func (c *Core) multicast(m *multicast.Message) {
	if m.ID.Sender != c.self.id {
		c.broken("proposes", m.ID)
	}
	r := c.routes.To(m.Dest)
	if r == nil || m.Order != multicast.Acyclic || m.ID.Seq > maxNumber || m.After > maxNumber {
		c.stats.Refused++
		return
	}
	if m.ID.Seq <= c.sequence {
		c.stats.Repeated++
		return
	}
	c.sequence = m.ID.Seq
	p := packet{kind: kindMulticast, id: m.ID, route: r.encoded, after: m.After, payload: m.Payload}
	for _, g := range r.groups {
		c.send(g.leader, &p)
	}
}

// send gives a packet to a process, to this one at once.
func (c *Core) send(q *peer, p *packet) {
	if q == c.self {
		if !c.handle(q, p) {
			c.broken("says to itself what cannot be of", p.id)
		}
		return
	}
	q.Frame = p.append(q.Frame)
}

// start is the second step, at a leader: MULTICAST of m came from its sender.
func (c *Core) start(q *peer, p *packet) bool {
	if !c.leads || p.id.Sender != q.id || p.id.Seq <= q.high {
		return false
	}
	m := c.known(p)
	if m == nil {
		return false
	}
	q.high = p.id.Seq
	c.clock = max(c.clock, m.After) + 1 // After: T 4.4.2
	m.bound = c.clock
	c.pending.Push(m)
	accept := packet{kind: kindAccept, id: m.ID, route: m.route.encoded, after: m.After, payload: m.Payload, ts: c.clock}
	for _, g := range m.route.groups {
		for _, q := range g.members {
			if q != c.self {
				q.Frame = accept.append(q.Frame)
			}
		}
	}
	c.vote(m, m.route.own, c.clock)
	return true
}

// known gives the message that a packet has the content of, a new one if need be; nil if it cannot be for
// this process.
func (c *Core) known(p *packet) *message {
	if m := c.messages[p.id]; m != nil {
		return m
	}
	r := c.routes.Find(p.route)
	if r == nil || r.own < 0 || c.peers[p.id.Sender] == nil {
		return nil
	}
	m := c.newMessage()
	m.Message = multicast.Message{ID: p.id, Dest: r.dest, After: p.after, Payload: p.payload}
	n := len(r.groups)
	m.route, m.missing, m.waiting = r, n, n
	if m.votes = m.few[:min(n, len(m.few))]; n > len(m.few) {
		m.votes = make([]vote, n)
	}
	c.messages[p.id] = m
	return m
}

// newMessage takes a message that was forgotten, or makes one.
func (c *Core) newMessage() *message {
	last := len(c.free) - 1
	if last < 0 {
		return &message{}
	}
	m := c.free[last]
	c.free = c.free[:last]
	return m
}

// accept is the third step: ACCEPT of m came from the leader of one of its groups.
func (c *Core) accept(q *peer, p *packet) bool {
	if q != q.group.leader || q == c.self {
		return false
	}
	sender := c.peers[p.id.Sender]
	if sender == nil {
		return false
	}
	if !c.leads && p.id.Seq <= sender.high && c.messages[p.id] == nil {
		return q.group != c.own // forgotten (I3)
	}
	m := c.known(p)
	if m == nil {
		return false
	}
	i := m.route.index(q.group)
	if i < 0 || m.votes[i].local != 0 {
		return false
	}
	if q.group == c.own {
		sender.high = max(sender.high, p.id.Seq)
	}
	c.vote(m, i, p.ts)
	return true
}

// vote takes the local timestamp of the group at an index. The last one makes this process ack, unless it has
// delivered m already (I4).
func (c *Core) vote(m *message, index int, local multicast.Timestamp) {
	m.votes[index].local = local
	m.final = max(m.final, local)
	if m.missing--; m.missing > 0 {
		return
	}
	c.clock = max(c.clock, m.final) // I1
	if m.delivered {
		return
	}
	ack := packet{kind: kindAck, id: m.ID}
	for _, g := range m.route.groups {
		if g.leader != c.self {
			g.leader.Frame = ack.append(g.leader.Frame)
		}
	}
	if c.leads {
		c.count(m, m.route.own, c.self)
	}
}

// ack is the fourth step, at a leader: ACCEPT_ACK came.
func (c *Core) ack(q *peer, id multicast.MessageID) bool {
	m := c.messages[id]
	if m == nil || m.bound == 0 {
		return false // q has our ACCEPT, and has not delivered it (I4)
	}
	i := m.route.index(q.group)
	if i < 0 {
		return false
	}
	c.count(m, i, q)
	return true
}

// count takes the ack of q, of the group at an index, and commits m when it is the last one needed.
func (c *Core) count(m *message, index int, q *peer) {
	v := &m.votes[index]
	if v.acks&q.bit != 0 {
		return
	}
	v.acks |= q.bit
	if bits.OnesCount64(v.acks) == q.group.quorum {
		m.waiting--
	}
	if m.waiting == 0 && m.missing == 0 && !m.committed {
		if m.final < m.bound || m.final > c.clock {
			c.broken("commits against I1 or I2", m.ID)
		}
		m.committed, m.bound = true, m.final
		c.pending.Fix(m.slot)
	}
}

// broken panics: an invariant does not hold. It is called only then, since the arguments of
// invariant.Check would be allocated each time.
func (c *Core) broken(what string, id multicast.MessageID) {
	invariant.Broken("process %d %s message %v", c.self.id, what, id)
}
