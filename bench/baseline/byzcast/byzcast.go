// Package byzcast is ByzCast (Coelho, Ceolin Junior, Bessani, Dotti and Pedone, DSN 2018) with groups
// that tolerate crashes instead of arbitrary faults. Every figure names it so. It is for benchmarks only.
//
// The groups are the nodes of a tree. The lowest common ancestor of a message's destinations (lca) orders
// the message first. Then it goes down the tree: each group on a way to a destination orders it in its
// own log, and destinations deliver it then. A group orders the messages of its parent in the parent's
// order.
//
// In the original all replicas of a group pass a message on, and a child orders it when f+1 of them have
// sent it. Groups that only crash can trust each other, so the leader alone passes it on, and consensus
// in a group is that of package paxos.
//
//  1. The sender sends the message to the leader of the lca (START).
//  2. The leader proposes it to its group, which learns it two steps later.
//  3. The leader passes it to the leaders of the children on the ways (FORWARD), which go on with 2.
//
// So a destination at depth d below the lca delivers 3d+3 communication steps after the multicast,
// whatever else is sent: collisions cost nothing. It is not genuine: groups between the lca and a
// destination take part.
//
// There is no final timestamp: Delivery.Final is the place in the log of the group, and Message.After is
// not met. There is no leader change, nothing is recorded, and Replay always gives an error. Links must
// not restart once they have started. Messages that ask for multicast.AtomicGlobal are refused.
//
// # Why the orders have no cycle
//
//	I1  A group's log has the messages that its parent has passed to it in the order of the parent's log:
//	    the leader of the parent passes them on in that order, links are FIFO, and the leader of the child
//	    proposes them in the order of arrival.
//	I2  Two messages with a common destination are both in the log of their lower lca, and of each group
//	    from there to the destination. By I1 these logs have them in one order.
//	I3  In a cycle of messages, neighbours have a common destination, so the lca of one is at or above that
//	    of the other. Hence the messages of the cycle have a highest lca, T. The messages between two of T
//	    lie below one child of T. Both have passed that child, and by induction over the height its log has
//	    the first before the second, as T's log then has (I1). So the messages of T have a cycle in one
//	    log.
package byzcast

import (
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/bench/baseline/links"
	"github.com/globalfs/globalfs/bench/baseline/paxos"
	"github.com/globalfs/globalfs/bench/baseline/routes"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Config of one process.
type Config struct {
	Self   multicast.ProcessID
	Groups []multicast.Group // the first member of each leads
	// Parents has the index of each group's parent, which is lower; that of the root does not count. Nil: a
	// binary tree.
	Parents []int
}

// Stats are counts since the start.
type Stats struct {
	Malformed uint64 // frames dropped from a place on: malformed, or impossible
	Refused   uint64 // proposals that cannot be multicast
	Repeated  uint64 // proposals with a number that was used before
	Waiting   int    // instances that were not learned
}

// group is a node of the tree.
type group struct {
	id       multicast.GroupID
	members  []*peer
	parent   *group // nil: the root
	children []*group
}

func (g *group) leader() *peer { return g.members[0] }

// below reports whether g is the group or below it.
func (g *group) below(other *group) bool {
	for ; g != nil; g = g.parent {
		if g == other {
			return true
		}
	}
	return false
}

// peer is another process, or this one.
type peer struct {
	links.Link
	id    multicast.ProcessID
	group *group
	index int
	high  uint64 // the highest number of its messages that this leader has taken
}

// route is a set of destination groups.
type route struct {
	encoded []byte
	dest    []multicast.GroupID
	lca     *group
	own     bool     // the own group is among them
	next    []*group // children of the own group on the ways
}

// Core is one process. It has one owner.
type Core struct {
	self     *peer
	peers    map[multicast.ProcessID]*peer
	order    []*peer // in the order in which frames leave
	groups   map[multicast.GroupID]*group
	routes   routes.Table[route]
	log      *paxos.Log
	sequence uint64 // the highest number proposed here
	place    multicast.Timestamp
	scratch  []byte
	stats    Stats
}

var _ multicast.Core = (*Core)(nil)

// New makes a process. The error names the field of cfg that is wrong.
func New(cfg Config) (*Core, error) {
	c := &Core{peers: map[multicast.ProcessID]*peer{}, groups: map[multicast.GroupID]*group{}}
	c.routes.Resolve = c.resolve
	if cfg.Parents != nil && len(cfg.Parents) != len(cfg.Groups) {
		return nil, fmt.Errorf("byzcast: config: Parents: %d of them for %d groups", len(cfg.Parents), len(cfg.Groups))
	}
	var all []*group
	for i := range cfg.Groups {
		g, err := c.addGroup(&cfg.Groups[i])
		if err != nil {
			return nil, err
		}
		if i > 0 {
			above := (i - 1) / 2
			if cfg.Parents != nil {
				above = cfg.Parents[i]
			}
			if above < 0 || above >= i {
				return nil, fmt.Errorf("byzcast: config: Parents: the parent of group %d has index %d: use one below %d", g.id, above, i)
			}
			g.parent = all[above]
			g.parent.children = append(g.parent.children, g)
		}
		all = append(all, g)
	}
	c.self = c.peers[cfg.Self]
	if c.self == nil {
		return nil, fmt.Errorf("byzcast: config: Self: process %d is in none of the groups", cfg.Self)
	}
	c.self.Start()
	c.log = paxos.NewLog(c.self.index, len(c.self.group.members))
	return c, nil
}

func (c *Core) addGroup(config *multicast.Group) (*group, error) {
	if len(config.Members) == 0 || c.groups[config.ID] != nil {
		return nil, fmt.Errorf("byzcast: config: Groups: group %d has no members or stands twice", config.ID)
	}
	g := &group{id: config.ID}
	c.groups[g.id] = g
	for i, id := range config.Members {
		if id == 0 || c.peers[id] != nil {
			return nil, fmt.Errorf("byzcast: config: Groups: process %d of group %d is 0 or stands twice", id, config.ID)
		}
		q := &peer{id: id, group: g, index: i}
		c.peers[id] = q
		c.order, g.members = append(c.order, q), append(g.members, q)
	}
	return g, nil
}

// resolve makes a route, nil if a group is not known.
func (c *Core) resolve(encoded []byte, dest []multicast.GroupID) *route {
	r := &route{encoded: encoded, dest: dest}
	for _, id := range dest {
		g := c.groups[id]
		if g == nil {
			return nil
		}
		if r.lca == nil {
			r.lca = g
		}
		for !g.below(r.lca) {
			r.lca = r.lca.parent
		}
	}
	own := c.self.group
	r.own = slices.Contains(dest, own.id)
	if !own.below(r.lca) {
		return r
	}
	for _, child := range own.children {
		if slices.ContainsFunc(dest, func(id multicast.GroupID) bool { return c.groups[id].below(child) }) {
			r.next = append(r.next, child)
		}
	}
	return r
}

// Replay implements multicast.Core: it always fails, as nothing is ever recorded.
func (c *Core) Replay([]byte) error {
	return fmt.Errorf("byzcast: process %d cannot restart: it has no recovery", c.self.id)
}

// Stats gives the counts so far.
func (c *Core) Stats() Stats {
	s := c.stats
	s.Waiting = c.log.Waiting()
	return s
}

func (c *Core) leads() bool { return c.self.index == 0 }

// Step implements multicast.Core.
func (c *Core) Step(in *multicast.Input, out *multicast.Output) {
	for i := range in.Frames {
		c.receive(&in.Frames[i])
	}
	for i := range in.Proposed {
		c.multicast(&in.Proposed[i])
	}
	c.seal()
	for batch := c.log.Next(); batch != nil; batch = c.log.Next() {
		c.learn(batch, out)
	}
	c.flush(out)
}

// multicast sends a message to the leader of its lca.
func (c *Core) multicast(m *multicast.Message) {
	r := c.routes.To(m.Dest)
	if r == nil || m.ID.Sender != c.self.id || m.Order != multicast.Acyclic || m.ID.Seq > maxNumber {
		c.stats.Refused++
		return
	}
	if m.ID.Seq <= c.sequence {
		c.stats.Repeated++
		return
	}
	c.sequence = m.ID.Seq
	p := packet{kind: kindStart, id: m.ID, route: r.encoded, payload: m.Payload}
	if to := r.lca.leader(); to != c.self {
		to.Frame = p.append(to.Frame)
	} else {
		c.propose(&p)
	}
}

// propose proposes a message to the own group, at the leader.
func (c *Core) propose(p *packet) {
	p.kind = kindForward
	c.scratch = p.append(c.scratch[:0])
	c.log.Propose(c.scratch)
}

// seal sends the proposals of the step to the group, and the acknowledgement of its leader's.
func (c *Core) seal() {
	if instance, batch := c.log.Seal(); instance > 0 {
		p := packet{kind: kindAccept, number: instance, payload: batch}
		for _, q := range c.self.group.members[1:] {
			q.Frame = p.append(q.Frame)
		}
	}
	if upTo := c.log.Tell(); upTo > 0 {
		p := packet{kind: kindAccepted, number: upTo}
		for _, q := range c.self.group.members {
			if q != c.self {
				q.Frame = p.append(q.Frame)
			}
		}
	}
}

// learn delivers the messages of an instance, and passes them on at the leader. The log uses the memory
// of the batch again, so deliveries have a copy.
func (c *Core) learn(batch []byte, out *multicast.Output) {
	if c.leads() {
		batch = slices.Clone(batch)
	}
	for r := varint.NewReader(batch); r.Len() > 0; {
		from := len(batch) - r.Len()
		var p packet
		p.read(r)
		x := c.routes.Find(p.route)
		if r.Err() != nil || p.kind != kindForward || x == nil {
			c.stats.Malformed++
			return
		}
		if c.leads() {
			for _, child := range x.next {
				to := child.leader()
				to.Frame = append(to.Frame, batch[from:len(batch)-r.Len()]...)
			}
		}
		if x.own {
			c.place++
			m := multicast.Message{ID: p.id, Dest: x.dest, Payload: p.payload}
			out.Deliveries = append(out.Deliveries, multicast.Delivery{Message: m, Final: c.place})
		}
	}
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

// handle takes a packet of q; false if q cannot have sent it.
func (c *Core) handle(q *peer, p *packet) bool {
	own := c.self.group
	switch p.kind {
	case kindAccept:
		return q == own.leader() && c.log.Accept(p.number, p.payload)
	case kindAccepted:
		return q.group == own && c.log.Accepted(q.index, p.number)
	}
	x := c.routes.Find(p.route)
	if x == nil || !c.leads() {
		return false
	}
	if p.kind == kindStart {
		if x.lca != own || p.id.Sender != q.id || p.id.Seq <= q.high {
			return false
		}
		q.high = p.id.Seq
	} else if own.parent == nil || q != own.parent.leader() || x.lca == own || !own.below(x.lca) {
		return false
	}
	c.propose(p)
	return true
}

// flush hands over the frames of this step. A frame for a peer waits until the link to the peer has
// started.
func (c *Core) flush(out *multicast.Output) {
	for _, q := range c.order {
		q.Flush(q.id, out)
	}
}
