package direct

import (
	"fmt"
	"slices"
	"strings"

	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Config of one process.
type Config struct {
	Self      multicast.ProcessID
	Groups    []multicast.Group  // all groups
	Delivered multicast.Progress // of the state machine, durable at the start
}

// Core is one process. It has one owner.
type Core struct {
	self   multicast.ProcessID
	group  multicast.GroupID // of self
	groups []multicast.Group // by their ids

	sent  uint64  // number of the newest proposal of this process
	lanes []*lane // of this process, by their classes

	delivered multicast.Progress // of each lane, also of other processes
	covered   multicast.Progress // the part of delivered that is durable

	frames  map[multicast.ProcessID][]byte // of this step
	dropped uint64                         // malformed frames, and messages out of their order
}

// Class returns the lane of a message: its destinations and its sender.
func Class(dest []multicast.GroupID, id multicast.MessageID) multicast.Class {
	sender := []multicast.GroupID{multicast.GroupID(id.Sender >> 16), multicast.GroupID(id.Sender)}
	return multicast.ClassOf(dest) + multicast.ClassOf(sender)
}

// senderBytes is the length of the sender in a class.
const senderBytes = 4

// senderOf returns the sender of a lane.
func senderOf(c multicast.Class) multicast.ProcessID {
	b := c[len(c)-senderBytes:]
	return multicast.ProcessID(b[0])<<24 | multicast.ProcessID(b[1])<<16 | multicast.ProcessID(b[2])<<8 | multicast.ProcessID(b[3])
}

// New returns a process. Replay brings a restarted one back to the messages that it keeps.
func New(cfg Config) (*Core, error) {
	c := &Core{
		self: cfg.Self, groups: cfg.Groups, delivered: slices.Clone(cfg.Delivered), covered: slices.Clone(cfg.Delivered),
		frames: map[multicast.ProcessID][]byte{},
	}
	for _, g := range cfg.Groups {
		if slices.Contains(g.Members, cfg.Self) {
			c.group = g.ID
			return c, nil
		}
	}
	return nil, fmt.Errorf("direct: Self: process %d is a member of none of the %d groups", cfg.Self, len(cfg.Groups))
}

// Leads implements order.Core. No process leads: every sender sends for itself.
func (c *Core) Leads() bool { return false }

// Members implements order.Core.
func (c *Core) Members(g multicast.GroupID) []multicast.ProcessID {
	if x := c.find(g); x != nil {
		return x.Members
	}
	return nil
}

func (c *Core) find(g multicast.GroupID) *multicast.Group {
	for i := range c.groups {
		if c.groups[i].ID == g {
			return &c.groups[i]
		}
	}
	return nil
}

// Dropped returns the number of malformed frames, and of messages that came out of their order.
func (c *Core) Dropped() uint64 { return c.dropped }

// Kept returns the number of messages that this process keeps for others.
func (c *Core) Kept() (count int) {
	for _, l := range c.lanes {
		count += len(l.kept)
	}
	return count
}

// Step implements multicast.Core.
func (c *Core) Step(in *multicast.Input, out *multicast.Output) {
	for _, f := range in.Frames {
		if len(f.Data) == 0 {
			c.repeat(f.Peer, out)
		} else if err := c.receive(f, out); err != nil {
			c.dropped++
		}
	}
	c.cover(in.Covered)
	for i := range in.Proposed {
		c.propose(&in.Proposed[i], out)
	}
	for _, g := range c.groups {
		for _, p := range g.Members {
			if data := c.frames[p]; data != nil {
				out.Frames = append(out.Frames, multicast.Frame{Peer: p, Data: data})
			}
		}
	}
	clear(c.frames)
}

// propose records a message, and sends it to all members of its destinations.
func (c *Core) propose(m *multicast.Message, out *multicast.Output) {
	if m.Validate() != nil || m.ID.Sender != c.self || m.ID.Seq <= c.sent {
		c.dropped++
		return
	}
	l := c.lane(m.Dest)
	k := l.add(m)
	c.sent = m.ID.Seq
	out.Records = append(out.Records, k.record(l.dest))
	for _, g := range l.dest {
		for _, p := range c.Members(g) {
			if p != c.self {
				c.send(p, l, &k)
			}
		}
	}
	if m.To(c.group) {
		c.deliver(&data{dest: l.dest, first: l.first(), kept: k}, c.self, out)
	}
}

// send adds a message to the frame for a process.
func (c *Core) send(p multicast.ProcessID, l *lane, k *kept) {
	c.frames[p] = (&data{dest: l.dest, first: l.first(), kept: *k}).append(c.frames[p])
}

// repeat sends a process the messages that a new link to it may have lost. The link of a process to itself
// starts when the process does.
func (c *Core) repeat(p multicast.ProcessID, out *multicast.Output) {
	for _, l := range c.lanes {
		for i := range l.kept {
			switch k := &l.kept[i]; {
			case !c.isMember(l.dest, p) || k.number <= l.acked[p]:
			case p == c.self:
				c.deliver(&data{dest: l.dest, first: l.first(), kept: *k}, c.self, out)
			default:
				c.send(p, l, k)
			}
		}
	}
	for _, at := range c.covered {
		if senderOf(at.Class) == p {
			c.report(at)
		}
	}
}

func (c *Core) isMember(dest []multicast.GroupID, p multicast.ProcessID) bool {
	return slices.ContainsFunc(dest, func(g multicast.GroupID) bool { return slices.Contains(c.Members(g), p) })
}

// receive takes a frame of another process.
func (c *Core) receive(f multicast.Frame, out *multicast.Output) error {
	r := varint.NewReader(f.Data)
	for r.Len() > 0 && r.Err() == nil {
		switch r.Uint8() {
		case kindData:
			if d := readData(r); r.Err() == nil {
				c.deliver(&d, f.Peer, out)
			}
		case kindAck:
			if class, number := readAck(r); r.Err() == nil {
				c.acknowledge(f.Peer, class, number)
			}
		default:
			r.Fail()
		}
	}
	return r.Err()
}

// deliver delivers a message if it is the next one of its lane (D1).
func (c *Core) deliver(d *data, from multicast.ProcessID, out *multicast.Output) {
	m := d.message(from)
	class := Class(d.dest, m.ID)
	last := uint64(c.delivered.Of(class).Final)
	switch {
	case d.number <= last: // repeated
		return
	case m.Validate() != nil || !m.To(c.group) || d.number != max(last+1, d.first):
		c.dropped++
		return
	}
	delivery := multicast.Delivery{Message: m, Final: multicast.Timestamp(d.number)}
	c.delivered.Advance(class, delivery.Position())
	out.Deliveries = append(out.Deliveries, delivery)
}

// cover tells senders the durable progress of the state machine.
func (c *Core) cover(now multicast.Progress) {
	for _, at := range now {
		if len(at.Class) <= senderBytes || !c.covered.Advance(at.Class, at.Position) {
			continue
		}
		c.delivered.Advance(at.Class, at.Position)
		c.report(at)
	}
}

// report tells the sender of a lane up to where this process holds it durably.
func (c *Core) report(at multicast.ClassPosition) {
	if p := senderOf(at.Class); p == c.self {
		c.acknowledge(p, at.Class, uint64(at.Final))
	} else {
		c.frames[p] = appendAck(c.frames[p], at)
	}
}

// acknowledge records that a process holds the messages of a lane up to a number durably, and drops those
// that a quorum of each destination group holds.
func (c *Core) acknowledge(p multicast.ProcessID, class multicast.Class, number uint64) {
	i, found := c.search(class)
	if !found || number > c.lanes[i].last || !c.isMember(c.lanes[i].dest, p) {
		c.dropped++
		return
	}
	l := c.lanes[i]
	l.acked[p] = max(l.acked[p], number)
	upTo := l.last
	for _, g := range l.dest {
		group := c.find(g)
		var held []uint64
		for _, member := range group.Members {
			held = append(held, l.acked[member])
		}
		slices.Sort(held)
		upTo = min(upTo, held[len(held)-group.Quorum()])
	}
	l.trim(upTo)
}

// lane returns the lane of this process to a destination set.
func (c *Core) lane(dest []multicast.GroupID) *lane {
	class := Class(dest, multicast.MessageID{Sender: c.self})
	i, found := c.search(class)
	if !found {
		c.lanes = slices.Insert(c.lanes, i, &lane{class: class, dest: slices.Clone(dest), acked: map[multicast.ProcessID]uint64{}})
	}
	return c.lanes[i]
}

func (c *Core) search(class multicast.Class) (int, bool) {
	return slices.BinarySearchFunc(c.lanes, class, func(l *lane, class multicast.Class) int {
		return strings.Compare(string(l.class), string(class))
	})
}
