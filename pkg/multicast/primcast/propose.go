package primcast

import (
	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// multicast is a-multicast(m), lines 31-32.
func (c *Core) multicast(m *multicast.Message) {
	invariant.Check(m.Validate() == nil && m.ID.Sender == c.self, "process %d proposes message %v to %v", c.self, m.ID, m.Dest)
	for _, g := range m.Dest {
		invariant.Check(c.groups[g] != nil, "message %v to group %d, which does not exist", m.ID, g)
	}
	if n := len(c.outbox); n > 0 {
		invariant.Check(c.outbox[n-1].Seq < m.ID.Seq, "message %v after %v: numbers must grow", m.ID, c.outbox[n-1])
	}
	c.outbox = append(c.outbox, m.ID)
	if !m.To(c.group.ID) {
		own := *m
		c.foreign[m.ID] = &own
	} else {
		c.take(m)
	}
	c.sendDest(m.Dest, func(b []byte) []byte { return appendMessage(append(b, kindStart), m) })
}

// onStart is lines 33-39: START(m) joins M, and the primary proposes it.
func (c *Core) onStart(from multicast.ProcessID, m multicast.Message) {
	if from != m.ID.Sender || !m.To(c.group.ID) {
		c.stats.Malformed++
		return
	}
	if !c.take(&m) {
		return
	}
	c.advanceQueue()
	if known := c.messages[m.ID]; c.state == Primary && !known.proposed {
		c.propose(known)
	}
}

// onPayload is START without the right to be proposed: it comes out of the order of its sender's numbers.
func (c *Core) onPayload(_ multicast.ProcessID, m multicast.Message) {
	if m.To(c.group.ID) && c.take(&m) {
		c.advanceQueue()
	}
}

// take keeps the content of m in M; false if m is of the past. A sender's STARTs come in
// the order of its numbers and are proposed in that order, so that what is at or
// below the highest in T and not in M was in T and is forgotten.
func (c *Core) take(m *multicast.Message) bool {
	known := c.lookup(m.ID, m.Dest)
	if known == nil {
		return false
	}
	if !known.payload {
		known.payload = true
		known.Message = *m
	}
	return true
}

// lookup finds or makes the entry of M for a message; nil if it is of the past.
func (c *Core) lookup(id multicast.MessageID, dest []multicast.GroupID) *entry {
	if m := c.messages[id]; m != nil {
		return m
	}
	if id.Seq <= c.high[id.Sender] {
		return nil
	}
	m := &entry{Message: multicast.Message{ID: id, Dest: dest}, locals: make([]local, len(dest))}
	c.messages[id] = m
	return m
}

// propose is lines 36-39 for one message; with After, the final timestamp is higher than
// that (T 4.4.2).
func (c *Core) propose(m *entry) {
	c.clock = max(c.clock, m.After) + 1
	c.append(m, c.clock)
	c.acknowledge(m)
}

// append puts m at the end of T (lines 38, 43), durably.
func (c *Core) append(m *entry, ts multicast.Timestamp) {
	invariant.Check(!m.proposed && m.payload, "message %v is appended to T again or without its content", m.ID)
	c.insert(m, c.current, ts)
	c.record(c.entryRecord(m))
}

// insert is append without a record.
func (c *Core) insert(m *entry, e Epoch, ts multicast.Timestamp) {
	m.proposed, m.epoch, m.ts, m.position = true, e, ts, c.end()
	c.log = append(c.log, m)
	c.high[m.ID.Sender] = max(c.high[m.ID.Sender], m.ID.Seq)
	c.pend(m)
}

// end is the position after the last one of T.
func (c *Core) end() uint64 { return c.first + uint64(len(c.log)) }

// acknowledge sends the own ACK for m to m.dest (lines 39, 45).
func (c *Core) acknowledge(m *entry) {
	a := c.ackOf(m)
	c.sendDest(m.Dest, func(b []byte) []byte { return appendAck(append(b, kindAck), &a) })
}

func (c *Core) ackOf(m *entry) ack {
	return ack{id: m.ID, dest: m.Dest, epoch: m.epoch, ts: m.ts, position: m.position}
}
