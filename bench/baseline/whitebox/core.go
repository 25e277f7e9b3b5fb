package whitebox

import (
	"fmt"
	"time"

	"github.com/globalfs/globalfs/bench/baseline/links"
	"github.com/globalfs/globalfs/bench/baseline/queues"
	"github.com/globalfs/globalfs/bench/baseline/routes"
	"github.com/globalfs/globalfs/internal/heap"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Config of one process.
type Config struct {
	Self   multicast.ProcessID
	Groups []multicast.Group // all groups, each of up to 64 processes; the first member leads
}

// Stats are counts since the start.
type Stats struct {
	Malformed uint64 // frames dropped from a place on: malformed, or impossible
	Refused   uint64 // proposals that cannot be multicast
	Repeated  uint64 // proposals with a number that was used before
	Kept      int    // messages that some destination may not have delivered
	Pending   int    // at a leader: of them, those not delivered here
}

// tellAfter is how long news of deliveries waits for a frame to ride on.
const tellAfter = 100 * time.Millisecond

// group is a group as this process sees it.
type group struct {
	members   []*peer
	leader    *peer
	quorum    int
	delivered multicast.Position // by all members, as far as they have told this leader
}

// peer is another process, or this one.
type peer struct {
	links.Link
	id        multicast.ProcessID
	group     *group
	bit       uint64 // in the votes of its group
	high      uint64 // I3: of its messages
	delivered multicast.Position
	owed      bool // the peer is to be told how far we are
}

// Core is one process. It has one owner.
type Core struct {
	self   *peer
	own    *group
	leads  bool
	peers  map[multicast.ProcessID]*peer
	order  []*peer // in the order in which frames leave
	routes routes.Table[route]
	groups map[multicast.GroupID]*group

	clock    multicast.Timestamp
	messages map[multicast.MessageID]*message
	free     []*message            // for reuse
	pending  heap.Heap[*message]   // I2; at a leader
	unforgot queues.FIFO[*message] // delivered here, perhaps not everywhere, in the order of delivery

	out      *multicast.Output   // of this step
	safe     multicast.Timestamp // at a follower
	told     multicast.Position  // at a leader: up to where the followers may forget
	news     bool                // some peer has delivered more
	tellAt   time.Duration       // when owed news goes alone; 0: nothing is owed
	sequence uint64              // the highest number proposed here
	stats    Stats
}

var _ multicast.Core = (*Core)(nil)

// New makes a process.
func New(cfg Config) (*Core, error) {
	c := &Core{
		peers:    map[multicast.ProcessID]*peer{},
		messages: map[multicast.MessageID]*message{},
		groups:   map[multicast.GroupID]*group{},
	}
	c.routes.Resolve = c.resolve
	for i := range cfg.Groups {
		if err := c.addGroup(&cfg.Groups[i]); err != nil {
			return nil, err
		}
	}
	if c.self = c.peers[cfg.Self]; c.self == nil {
		return nil, fmt.Errorf("whitebox: Self: process %d is in none of the groups", cfg.Self)
	}
	c.own = c.self.group
	c.self.Start()
	c.leads = c.own.leader == c.self
	return c, nil
}

func (c *Core) addGroup(config *multicast.Group) error {
	if n := len(config.Members); n == 0 || n > 64 || c.groups[config.ID] != nil {
		return fmt.Errorf("whitebox: Groups: group %d has %d members, or stands twice: use 1 to 64, once", config.ID, n)
	}
	g := &group{quorum: config.Quorum()}
	for i, id := range config.Members {
		if id == 0 || c.peers[id] != nil {
			return fmt.Errorf("whitebox: Groups: process %d of group %d is 0 or stands twice", id, config.ID)
		}
		q := &peer{id: id, group: g, bit: 1 << i}
		g.members = append(g.members, q)
		c.peers[id] = q
		c.order = append(c.order, q)
	}
	g.leader = g.members[0]
	c.groups[config.ID] = g
	return nil
}

// Replay implements multicast.Core: it always fails, as nothing is ever recorded.
func (c *Core) Replay([]byte) error {
	return fmt.Errorf("whitebox: process %d cannot restart: it has no recovery", c.self.id)
}

// Stats gives the counts so far.
func (c *Core) Stats() Stats {
	s := c.stats
	s.Kept, s.Pending = len(c.messages), len(c.pending)
	return s
}

// Step implements multicast.Core.
func (c *Core) Step(in *multicast.Input, out *multicast.Output) {
	c.out = out
	for i := range in.Frames {
		c.receive(&in.Frames[i])
	}
	for i := range in.Proposed {
		c.multicast(&in.Proposed[i])
	}
	c.deliverCommitted()
	c.forgetDelivered()
	c.tell(in.Now.Mono)
	c.flush()
	out.Safe = c.safeTimestamp()
	c.out = nil
}

// receive takes in a frame up to the first packet that is malformed, or the start of a link.
func (c *Core) receive(f *multicast.Frame) {
	q := c.peers[f.Peer]
	if q == nil || !q.Receive(f.Data, func(r *varint.Reader) bool {
		var p packet
		p.read(r)
		return r.Err() == nil && c.handle(q, &p)
	}) {
		c.stats.Malformed++
	}
}

// handle routes a packet from q; false if it cannot be.
func (c *Core) handle(q *peer, p *packet) bool {
	switch p.kind {
	case kindMulticast:
		return c.start(q, p)
	case kindAccept:
		return c.accept(q, p)
	case kindAck:
		return c.ack(q, p.id)
	case kindDeliver:
		return c.deliver(q, p)
	case kindDelivered:
		return c.peerDelivered(q, p.position())
	default:
		return c.forget(q, p.position())
	}
}

// flush hands over the frames of this step. A frame for a peer waits until the link to the peer has started.
func (c *Core) flush() {
	for _, q := range c.order {
		q.Flush(q.id, c.out)
	}
}

// safeTimestamp returns the highest timestamp that nothing will be delivered with any more. A follower knows
// it from its own deliveries, since another message may have the same timestamp.
func (c *Core) safeTimestamp() multicast.Timestamp {
	if !c.leads {
		return c.safe
	}
	if len(c.pending) > 0 {
		return c.pending[0].bound - 1
	}
	return c.clock
}
