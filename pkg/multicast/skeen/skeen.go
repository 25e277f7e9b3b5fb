package skeen

import (
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Acknowledge is when a process acknowledges a message of several groups that asks for atomic global order.
type Acknowledge uint8

const (
	// Never: no message may ask for it.
	Never Acknowledge = iota
	// Decided: when its final timestamp is known. This is Algorithm 4 as printed. It does not keep atomic
	// global order, and exists to demonstrate that.
	Decided
	// InOrder: when, in addition, each message that precedes it at this process and asks is acknowledged by
	// all its destinations, or has all destinations of this message.
	InOrder
)

// Config of one process.
type Config struct {
	Self        multicast.ProcessID
	Groups      []multicast.Group // all groups, of one process each
	Acknowledge Acknowledge       // the same at all processes
}

// Stats counts the input that was dropped.
type Stats struct {
	Malformed uint64 // frames with malformed or impossible content
	Repeated  uint64 // messages that had come before
}

// pending is a message that is not delivered yet: an element of local \ del, or a message of which only a
// LOCAL-TS has arrived.
type pending struct {
	id    multicast.MessageID
	start *multicast.Message // nil until START has come
	from  map[multicast.ProcessID]multicast.Timestamp
	bound multicast.Timestamp // local[m], then final[m]
	final bool

	acked    []multicast.ProcessID // the processes that have acknowledged it
	ackedOwn bool                  // this process has sent its ACK
}

func (p *pending) position() multicast.Position {
	return multicast.Position{Final: p.bound, ID: p.id}
}

// Core is one process. It is not safe for concurrent use.
type Core struct {
	self    multicast.ProcessID
	group   multicast.GroupID
	process map[multicast.GroupID]multicast.ProcessID
	when    Acknowledge

	clock   multicast.Timestamp // line 1
	pending map[multicast.MessageID]*pending
	local   []*pending                     // those with a local timestamp, lines 2-3 without line 5
	high    map[multicast.ProcessID]uint64 // I3

	frames outbox
	stats  Stats
}

var _ multicast.Core = (*Core)(nil)

// New makes a process.
func New(cfg Config) (*Core, error) {
	c := &Core{
		self:    cfg.Self,
		when:    cfg.Acknowledge,
		process: map[multicast.GroupID]multicast.ProcessID{},
		pending: map[multicast.MessageID]*pending{},
		high:    map[multicast.ProcessID]uint64{},
	}
	if cfg.Acknowledge > InOrder {
		return nil, fmt.Errorf("skeen: Acknowledge: %d is unknown: use Never, Decided or InOrder", cfg.Acknowledge)
	}
	member := false
	for _, g := range cfg.Groups {
		if len(g.Members) != 1 {
			return nil, fmt.Errorf("skeen: Groups: group %d has %d members: use exactly 1", g.ID, len(g.Members))
		}
		c.process[g.ID] = g.Members[0]
		if g.Members[0] == cfg.Self {
			c.group, member = g.ID, true
		}
	}
	if !member {
		return nil, fmt.Errorf("skeen: Self: process %d is in none of the groups", cfg.Self)
	}
	return c, nil
}

// Replay implements multicast.Core: it always fails, as nothing is ever recorded.
func (c *Core) Replay([]byte) error {
	return fmt.Errorf("skeen: process %d cannot restart: the protocol tolerates no failures", c.self)
}

// Stats returns the counts so far.
func (c *Core) Stats() Stats { return c.stats }

// Pending returns the number of messages known and not delivered.
func (c *Core) Pending() int { return len(c.pending) }

// Step implements multicast.Core.
func (c *Core) Step(in *multicast.Input, out *multicast.Output) {
	for _, f := range in.Frames {
		if len(f.Data) > 0 && decode(f.Data, func(pkt packet) { c.handle(f.Peer, pkt) }) != nil {
			c.stats.Malformed++
		}
	}
	for i := range in.Proposed {
		c.multicast(&in.Proposed[i])
	}
	c.tryDeliver(out)
	out.Safe = c.safe()
	out.Frames = c.frames.flush(out.Frames)
}

// multicast sends the START of m to all destinations (lines 6-7).
func (c *Core) multicast(m *multicast.Message) {
	ok := m.Validate() == nil && m.ID.Sender == c.self && c.exist(m.Dest) && c.offers(m.Order)
	invariant.Check(ok, "process %d proposes message %v to %v with order %d", c.self, m.ID, m.Dest, m.Order)
	c.send(m.Dest, packet{id: m.ID, start: m})
}

// exist reports whether all groups of dest are known.
func (c *Core) exist(dest []multicast.GroupID) bool {
	return !slices.ContainsFunc(dest, func(g multicast.GroupID) bool { return c.process[g] == 0 })
}

func (c *Core) offers(o multicast.Order) bool { return o == multicast.Acyclic || c.when != Never }

func (c *Core) handle(from multicast.ProcessID, pkt packet) {
	switch {
	case pkt.start != nil:
		c.onStart(from, pkt.start)
	case pkt.ack:
		c.onAck(from, pkt.id)
	default:
		c.onLocalTS(from, pkt)
	}
}

// onStart handles a START: it gives the message a local timestamp (lines 8-11).
func (c *Core) onStart(from multicast.ProcessID, m *multicast.Message) {
	if from != m.ID.Sender || !m.To(c.group) || !c.exist(m.Dest) || !c.offers(m.Order) {
		c.stats.Malformed++
		return
	}
	if m.ID.Seq <= c.high[from] {
		c.stats.Repeated++
		return
	}
	c.high[from] = m.ID.Seq
	c.clock = max(c.clock, m.After) + 1 // line 9; After: T 4.4.2
	p := c.known(m.ID)
	p.start, p.bound = m, c.clock // line 10
	c.local = append(c.local, p)
	c.send(m.Dest, packet{id: m.ID, ts: c.clock}) // line 11
	c.decide(p)
}

// onLocalTS handles a LOCAL-TS (line 12), which can arrive before the START of its message. It cannot arrive
// for the first time after the delivery of the message, because the delivery needs the LOCAL-TS of every
// destination.
func (c *Core) onLocalTS(from multicast.ProcessID, pkt packet) {
	if c.pending[pkt.id] == nil && pkt.id.Seq <= c.high[pkt.id.Sender] {
		c.stats.Repeated++
		return
	}
	p := c.known(pkt.id)
	p.from[from] = pkt.ts
	c.decide(p)
}

func (c *Core) known(id multicast.MessageID) *pending {
	p := c.pending[id]
	if p == nil {
		p = &pending{id: id, from: map[multicast.ProcessID]multicast.Timestamp{}}
		c.pending[id] = p
	}
	return p
}

// decide computes the final timestamp of p once all local timestamps are known (lines 12-14).
func (c *Core) decide(p *pending) {
	if p.start == nil {
		return
	}
	var final multicast.Timestamp
	for _, g := range p.start.Dest {
		ts, ok := p.from[c.process[g]]
		if !ok {
			return
		}
		final = max(final, ts)
	}
	p.bound, p.final = final, true // line 13
	c.clock = max(c.clock, final)  // line 14
	if c.when == Decided && p.asks() {
		c.acknowledge(p)
	}
}

// tryDeliver delivers the messages for which three conditions hold (lines 20-26): the timestamp is final; the
// message precedes every other message of local, by bound and then by id; and all destinations have
// acknowledged the message, if it requests that.
func (c *Core) tryDeliver(out *multicast.Output) {
	slices.SortFunc(c.local, func(a, b *pending) int { return a.position().Compare(b.position()) })
	if c.when == InOrder {
		c.acknowledgeInOrder()
	}
	n := 0
	for ; n < len(c.local) && c.local[n].final; n++ {
		p := c.local[n]
		if p.asks() && !c.isAcked(p) {
			break
		}
		out.Deliveries = append(out.Deliveries, multicast.Delivery{Message: *p.start, Final: p.bound})
		delete(c.pending, p.id) // line 25
	}
	c.local = slices.Delete(c.local, 0, n)
}

// safe returns the highest timestamp with which no further message can be delivered.
func (c *Core) safe() multicast.Timestamp {
	if len(c.local) > 0 {
		return c.local[0].bound - 1
	}
	return c.clock
}

// send adds a message to the frames to all processes of the groups in dest.
func (c *Core) send(dest []multicast.GroupID, pkt packet) {
	for _, g := range dest {
		c.frames.add(c.process[g], pkt)
	}
}
