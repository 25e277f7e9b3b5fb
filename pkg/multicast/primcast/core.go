package primcast

import (
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// Config of one process.
type Config struct {
	Self multicast.ProcessID
	// Groups are all groups. The first member of each leads its initial epoch.
	Groups []multicast.Group
	// Delivered is how far the state machine is durable: what comes after is delivered
	// (again).
	Delivered multicast.Position
}

// maxMembers is how many members a group can have: ackers is a bit set.
const maxMembers = 64

// Validate says which field is wrong and what to do.
func (c *Config) Validate() error {
	seen := map[multicast.ProcessID]bool{}
	groups := map[multicast.GroupID]bool{}
	for _, g := range c.Groups {
		if groups[g.ID] {
			return fmt.Errorf("primcast: Groups: group %d stands twice", g.ID)
		}
		groups[g.ID] = true
		if len(g.Members) == 0 || len(g.Members) > maxMembers {
			return fmt.Errorf("primcast: Groups: group %d has %d members: use 1 to %d", g.ID, len(g.Members), maxMembers)
		}
		for _, p := range g.Members {
			if p == 0 || seen[p] {
				return fmt.Errorf("primcast: Groups: process %d of group %d is 0 or in a group already: groups are disjoint", p, g.ID)
			}
			seen[p] = true
		}
	}
	if !seen[c.Self] {
		return fmt.Errorf("primcast: Self: process %d is in none of the groups", c.Self)
	}
	return nil
}

// Stats counts what came in and was dropped.
type Stats struct {
	Malformed uint64 // frames, or what they say cannot be
	Unknown   uint64 // frames of processes in no group
	Gaps      uint64 // ACKs of the primary after one that is missing
}

// place says where a process is.
type place struct {
	group  multicast.GroupID
	member int
}

// Core is one process of PrimCast. It has one owner.
type Core struct {
	self   multicast.ProcessID
	group  *multicast.Group
	groups map[multicast.GroupID]*multicast.Group
	places map[multicast.ProcessID]place

	// The variables of lines 2-8. M is messages, clocks and covered; D is delivered: deliveries
	// are in the order of positions.
	messages  map[multicast.MessageID]*entry
	log       []*entry // T from position first on
	first     uint64   // positions of T before it are forgotten
	clock     multicast.Timestamp
	current   Epoch
	promised  Epoch
	state     State
	delivered multicast.Position

	clocks  []multicast.Timestamp          // min-clock of each member of the own group
	queue   []said                         // of the primary, waiting for a payload
	pending pendingHeap                    // T without D
	high    map[multicast.ProcessID]uint64 // of each sender, the highest number in T

	outbox  []multicast.MessageID                      // own messages that not all destinations have for ever, ascending
	foreign map[multicast.MessageID]*multicast.Message // those of outbox that this group is no destination of
	covered map[multicast.ProcessID]multicast.Position // what each process holds durably
	told    map[multicast.ProcessID]multicast.Position // what each was told of us

	durable   multicast.Position // of the own state machine, as the driver said
	trimmable bool               // covered has changed

	ceiling multicast.Timestamp // recorded: the clock said never passes it
	finals  []final             // decided since the last record of them
	written int                 // bytes of records since the last checkpoint

	frames map[multicast.ProcessID][]byte // of this step
	peers  []multicast.ProcessID          // those with a frame, in order of first use
	out    *multicast.Output
	stats  Stats
}

// New makes a process that has done nothing yet. Replay brings a restarted one back.
func New(cfg Config) (*Core, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Core{
		self:      cfg.Self,
		groups:    map[multicast.GroupID]*multicast.Group{},
		places:    map[multicast.ProcessID]place{},
		messages:  map[multicast.MessageID]*entry{},
		high:      map[multicast.ProcessID]uint64{},
		foreign:   map[multicast.MessageID]*multicast.Message{},
		covered:   map[multicast.ProcessID]multicast.Position{},
		told:      map[multicast.ProcessID]multicast.Position{},
		frames:    map[multicast.ProcessID][]byte{},
		delivered: cfg.Delivered,
	}
	for _, g := range cfg.Groups {
		own := &multicast.Group{ID: g.ID, Members: slices.Clone(g.Members)}
		c.groups[g.ID] = own
		for i, p := range g.Members {
			c.places[p] = place{group: g.ID, member: i}
		}
	}
	c.group = c.groups[c.places[c.self].group]
	c.clocks = make([]multicast.Timestamp, len(c.group.Members))
	c.setEpoch(Epoch{Leader: c.group.Members[0]})
	return c, nil
}

// setEpoch enters an epoch (lines 6-8).
func (c *Core) setEpoch(e Epoch) {
	c.current, c.promised = e, e
	c.state = Follower
	if e.Leader == c.self {
		c.state = Primary
	}
}

// Stats gives the counts so far.
func (c *Core) Stats() Stats { return c.stats }

// Pending is the number of messages that are kept: proposed here and not yet
// known to be durable at all their destinations, or not proposed yet.
func (c *Core) Pending() int { return len(c.messages) }

// Step implements multicast.Core.
func (c *Core) Step(in *multicast.Input, out *multicast.Output) {
	c.out = out
	c.cover(in.Covered)
	for _, f := range in.Frames {
		if _, ok := c.places[f.Peer]; !ok {
			c.stats.Unknown++
		} else if len(f.Data) == 0 {
			c.restartLink(f.Peer)
		} else if err := decodeFrame(f.Peer, f.Data, c); err != nil {
			c.stats.Malformed++
		}
	}
	for i := range in.Proposed {
		c.multicast(&in.Proposed[i])
	}
	c.deliver()
	c.trim()
	c.recordStep()
	c.flush()
	out.Safe = c.safe()
	c.checkInvariants()
	c.out = nil
}

// send appends to the frame for a peer. append gets the bytes so far.
func (c *Core) send(to multicast.ProcessID, appendTo func([]byte) []byte) {
	b := c.frames[to]
	if len(b) == 0 {
		c.peers = append(c.peers, to)
		b = appendPosition(make([]byte, 0, 128), c.covered[c.self])
		c.told[to] = c.covered[c.self]
	}
	c.frames[to] = appendTo(b)
}

// sendDest is r-multicast to all processes of the groups in dest.
func (c *Core) sendDest(dest []multicast.GroupID, appendTo func([]byte) []byte) {
	for _, g := range dest {
		if group := c.groups[g]; group != nil {
			for _, p := range group.Members {
				c.send(p, appendTo)
			}
		}
	}
}

// flush hands the frames of this step over.
func (c *Core) flush() {
	for _, p := range c.peers {
		c.out.Frames = append(c.out.Frames, multicast.Frame{Peer: p, Data: c.frames[p]})
		delete(c.frames, p)
	}
	c.peers = c.peers[:0]
}
