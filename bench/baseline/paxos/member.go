package paxos

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
	Groups []multicast.Group // all groups, up to 64; the first member leads
}

// Stats are counts since the start.
type Stats struct {
	Malformed uint64 // frames dropped from a place on: malformed, or impossible
	Refused   uint64 // proposals that cannot be multicast
	Repeated  uint64 // proposals with a number that was used before
	Kept      int    // messages that some destination may not have delivered
	Pending   int    // of them, those with a local timestamp that are not delivered here
}

// Rules are a protocol's rules for timestamps. A Member calls them within its Step.
type Rules interface {
	// Start: the content of m has come, once.
	Start(m *Message)
	// Hear: another destination group of m, as far as one can know before START, says Soft or Hard: Soft by
	// its leader, Hard by any of its members, and by several, even after m is delivered.
	Hear(g *Group, m *Message, kind Kind, ts multicast.Timestamp)
	// Decide: the log of the own group has the command Assign, SyncSoft or Final of m. With Assign, m
	// has its local timestamp already, and it is ts.
	Decide(m *Message, command Kind, ts multicast.Timestamp)
}

// Group is a group as this process sees it.
type Group struct {
	members   []*peer
	bit       uint64             // in votes
	delivered multicast.Position // by all members, as far as this process, a leader, knows
	shared    multicast.Position // the last message delivered here that is for it, too
	told      multicast.Position // how far its leader knows of us
}

func (g *Group) leader() *peer { return g.members[0] }

// peer is another process, or this one.
type peer struct {
	links.Link
	id        multicast.ProcessID
	group     *Group
	index     int                 // among the members
	high      uint64              // I3: of its messages
	messages  map[uint64]*Message // of this sender, by number: those that are kept
	delivered multicast.Position
	owed      bool // the peer is to be told how far we are
}

// Member is one process: all of it but the Rules. It has one owner.
type Member struct {
	rules  Rules
	self   *peer
	own    *Group
	leads  bool
	peers  map[multicast.ProcessID]*peer
	order  []*peer // in the order in which frames leave
	all    []*Group
	routes routes.Table[route]
	groups map[multicast.GroupID]*Group
	log    *Log

	clock    multicast.Timestamp   // I1
	kept     int                   // messages of all peers
	free     []*Message            // for reuse
	pending  heap.Heap[*Message]   // I2
	unforgot queues.FIFO[*Message] // delivered here, perhaps not everywhere, in the order of delivery

	out     *multicast.Output  // of this step
	command []byte             // scratch
	forgot  multicast.Position // at a leader: up to where the followers may forget
	news    bool               // some member or group has delivered more
	tellAt  time.Duration      // when owed news goes alone; 0: nothing is owed
	stats   Stats
}

// NewMember makes a process that follows some rules.
func NewMember(cfg Config, rules Rules) (*Member, error) {
	c := &Member{
		rules:  rules,
		peers:  map[multicast.ProcessID]*peer{},
		groups: map[multicast.GroupID]*Group{},
	}
	if len(cfg.Groups) > 64 {
		return nil, fmt.Errorf("config: Groups: there are %d: use up to 64", len(cfg.Groups))
	}
	c.routes.Resolve = c.resolve
	for i := range cfg.Groups {
		if err := c.addGroup(&cfg.Groups[i]); err != nil {
			return nil, err
		}
	}
	if c.self = c.peers[cfg.Self]; c.self == nil {
		return nil, fmt.Errorf("config: Self: process %d is in none of the groups", cfg.Self)
	}
	c.own = c.self.group
	c.leads = c.self.index == 0
	c.log = NewLog(c.self.index, len(c.own.members))
	return c, nil
}

func (c *Member) addGroup(config *multicast.Group) error {
	if len(config.Members) == 0 || c.groups[config.ID] != nil {
		return fmt.Errorf("config: Groups: group %d has no members, or stands twice", config.ID)
	}
	g := &Group{bit: 1 << len(c.all)}
	for i, id := range config.Members {
		if id == 0 || c.peers[id] != nil {
			return fmt.Errorf("config: Groups: process %d of group %d is 0 or stands twice", id, config.ID)
		}
		q := &peer{id: id, group: g, index: i, messages: map[uint64]*Message{}}
		g.members = append(g.members, q)
		c.peers[id] = q
		c.order = append(c.order, q)
	}
	c.all = append(c.all, g)
	c.groups[config.ID] = g
	return nil
}

// Replay implements multicast.Core: it always fails, as nothing is ever recorded.
func (c *Member) Replay([]byte) error {
	return fmt.Errorf("process %d cannot restart: it has no recovery", c.self.id)
}

// Stats gives the counts so far.
func (c *Member) Stats() Stats {
	s := c.stats
	s.Kept, s.Pending = c.kept, len(c.pending)
	return s
}

// Clock gives the clock of the group after the decisions that this process has learned.
func (c *Member) Clock() multicast.Timestamp { return c.clock }

// Step implements multicast.Core.
func (c *Member) Step(in *multicast.Input, out *multicast.Output) {
	c.out = out
	for i := range in.Frames {
		c.receive(&in.Frames[i])
	}
	for i := range in.Proposed {
		c.multicast(&in.Proposed[i])
	}
	for more := true; more; more = c.seal() {
		c.learn()
	}
	c.deliver()
	c.sayAccepted()
	c.forgetDelivered()
	c.tell(in.Now.Mono)
	c.flush()
	if out.Safe = c.clock; len(c.pending) > 0 {
		out.Safe = c.pending[0].bound - 1
	}
	c.out = nil
}

// receive takes in a frame up to the first packet that is malformed, or the start of a link.
func (c *Member) receive(f *multicast.Frame) {
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
func (c *Member) handle(q *peer, p *packet) bool {
	switch p.kind {
	case kindStart:
		return c.start(q, p)
	case kindAccept:
		return q == c.own.leader() && c.log.Accept(p.number, p.payload)
	case kindAccepted:
		return q.group == c.own && c.log.Accepted(q.index, p.number)
	case kindDelivered:
		return c.peerDelivered(q, p.position())
	case kindForget:
		return c.forget(q, p.position())
	case Soft, Hard:
		return c.hear(q, p)
	}
	return false // a command
}

// flush hands over the frames of this step. A frame for a peer waits until the link to the peer has started.
func (c *Member) flush() {
	for _, q := range c.order {
		q.Flush(q.id, c.out)
	}
}
