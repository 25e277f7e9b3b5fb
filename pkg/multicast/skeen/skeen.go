// Package skeen is Skeen's atomic multicast: thesis Algorithm 4 without the parts in gray. It is the
// smallest correct core, the worked example of package multicast.
//
// It tolerates no failures. A group is one process; links must never restart once they have
// started; nothing is recorded, so that a process that ends cannot come back: Replay
// always gives an error. Nor does it keep atomic global order (T 5.3.1, figure 5.3).
//
// A process gives each message a local timestamp from its logical clock and sends it to all
// destinations; the highest one is the final timestamp, and messages are delivered in the order of
// (final timestamp, id). Algorithm 4 breaks ties by partition, which
// makes timestamps pairs; ids do the same and are what package multicast orders by.
// Collision-free latency is two communication steps, failure-free latency four.
//
// Invariants:
//
//	I1  clock is at least every local timestamp given here and every final timestamp known here,
//	    so that what comes later is ordered behind both.
//	I2  the local timestamp of a message that is not delivered is a lower bound of its final
//	    timestamp: no other message is delivered that could be ordered behind it.
//	I3  high[s] is the highest number of sender s that was given a local timestamp; senders number
//	    their messages upwards and links are FIFO, so what is at or below it is not new.
package skeen

import (
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Config of one process.
type Config struct {
	Self   multicast.ProcessID
	Groups []multicast.Group // all groups, of one process each
}

// Stats counts what came in and was dropped.
type Stats struct {
	Malformed uint64 // frames, or what they say cannot be
	Repeated  uint64 // messages that had come before
}

// pending is a message that is not delivered: local \ del, or only LOCAL-TS of it has come.
type pending struct {
	id    multicast.MessageID
	start *multicast.Message // nil until START has come
	from  map[multicast.ProcessID]multicast.Timestamp
	bound multicast.Timestamp // local[m], then final[m]
	final bool
}

func (p *pending) position() multicast.Position {
	return multicast.Position{Final: p.bound, ID: p.id}
}

// Core is one process. It has one owner.
type Core struct {
	self    multicast.ProcessID
	group   multicast.GroupID
	process map[multicast.GroupID]multicast.ProcessID

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
		process: map[multicast.GroupID]multicast.ProcessID{},
		pending: map[multicast.MessageID]*pending{},
		high:    map[multicast.ProcessID]uint64{},
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

// Stats gives the counts so far.
func (c *Core) Stats() Stats { return c.stats }

// Pending is the number of messages known and not delivered.
func (c *Core) Pending() int { return len(c.pending) }

// Step implements multicast.Core.
func (c *Core) Step(in *multicast.Input, out *multicast.Output) {
	for _, f := range in.Frames {
		if len(f.Data) > 0 && decode(f.Data, func(s said) { c.handle(f.Peer, s) }) != nil {
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

// multicast is lines 6-7.
func (c *Core) multicast(m *multicast.Message) {
	ok := m.Validate() == nil && m.ID.Sender == c.self && c.exist(m.Dest)
	invariant.Check(ok, "process %d proposes message %v to %v", c.self, m.ID, m.Dest)
	c.send(m.Dest, said{id: m.ID, start: m})
}

// exist reports whether all groups of dest are known.
func (c *Core) exist(dest []multicast.GroupID) bool {
	return !slices.ContainsFunc(dest, func(g multicast.GroupID) bool { return c.process[g] == 0 })
}

func (c *Core) handle(from multicast.ProcessID, s said) {
	if s.start != nil {
		c.onStart(from, s.start)
	} else {
		c.onLocalTS(from, s)
	}
}

// onStart is lines 8-11.
func (c *Core) onStart(from multicast.ProcessID, m *multicast.Message) {
	if from != m.ID.Sender || !m.To(c.group) || !c.exist(m.Dest) {
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
	c.send(m.Dest, said{id: m.ID, ts: c.clock}) // line 11
	c.decide(p)
}

// onLocalTS is line 12. LOCAL-TS of a message may overtake its START, and never
// comes after its delivery, which needs it.
func (c *Core) onLocalTS(from multicast.ProcessID, s said) {
	if c.pending[s.id] == nil && s.id.Seq <= c.high[s.id.Sender] {
		c.stats.Repeated++
		return
	}
	p := c.known(s.id)
	p.from[from] = s.ts
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

// decide is lines 12-14.
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
}

// tryDeliver is lines 20-26: a message is delivered if it is final and ordered before the
// bound of every other one.
func (c *Core) tryDeliver(out *multicast.Output) {
	slices.SortFunc(c.local, func(a, b *pending) int { return a.position().Compare(b.position()) })
	n := 0
	for ; n < len(c.local) && c.local[n].final; n++ {
		p := c.local[n]
		out.Deliveries = append(out.Deliveries, multicast.Delivery{Message: *p.start, Final: p.bound})
		delete(c.pending, p.id) // line 25
	}
	c.local = slices.Delete(c.local, 0, n)
}

// safe is the highest timestamp that nothing will be delivered with any more.
func (c *Core) safe() multicast.Timestamp {
	if len(c.local) > 0 {
		return c.local[0].bound - 1
	}
	return c.clock
}

// send puts something into the frames to all processes of the groups in dest.
func (c *Core) send(dest []multicast.GroupID, s said) {
	for _, g := range dest {
		c.frames.add(c.process[g], s)
	}
}
