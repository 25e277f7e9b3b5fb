package multiring

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/bench/baseline/links"
	"github.com/globalfs/globalfs/bench/baseline/routes"
	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Defaults of a Config, for a local network.
const (
	DefaultLambda = 1_000_000
	DefaultDelta  = time.Millisecond
	DefaultM      = 1
)

// Config of one process. Zero values stand for the defaults.
type Config struct {
	Self   multicast.ProcessID
	Groups []multicast.Group
	// Ring is the order in which the global ring goes through all processes; the first one coordinates. Those
	// that are near each other should stand together. Nil: group after group. It is the same everywhere.
	Ring []multicast.ProcessID
	// Lambda is how many slots the global ring has a second at least, up to a billion: more than any group
	// can order.
	Lambda int
	// Delta is how often it skips. In a wide area network 10 ms are enough.
	Delta time.Duration
	// M is how many slots of a ring the merge takes at a time, up to a million. It is the same everywhere.
	M int
}

// Stats are counts since the start.
type Stats struct {
	Malformed uint64 // frames dropped from a place on: malformed, or impossible
	Refused   uint64 // proposals that cannot be multicast
	Repeated  uint64 // proposals with a number that was used before
	Waiting   int    // values not delivered, and at a coordinator messages that wait for a slot
}

// maxSlot keeps places in the merge within range.
const maxSlot = maxNumber / 4

// peer is another process, or this one.
type peer struct {
	links.Link
	id   multicast.ProcessID
	high uint64 // the highest number that a coordinator has ordered of it
}

// Core is one process. It has one owner.
type Core struct {
	self   *peer
	peers  map[multicast.ProcessID]*peer
	all    []*peer // all processes, group after group
	routes routes.Table[route]

	coordinators      map[multicast.GroupID]*peer
	globalCoordinator *peer
	ownGroup          multicast.GroupID
	group             *ring
	global            *ring // nil if there is one group only
	merge             merge

	lambda   uint64
	delta    time.Duration
	started  time.Duration // when the first step was
	tickAt   time.Duration // when the global coordinator skips next; 0: before the first step
	sequence uint64        // the highest number proposed here
	scratch  []byte
	stats    Stats
}

var _ multicast.Core = (*Core)(nil)

// New makes a process.
func New(cfg Config) (*Core, error) {
	if cfg.Lambda < 0 || cfg.Lambda > 1e9 || cfg.Delta < 0 || cfg.M < 0 || cfg.M > 1e6 {
		return nil, fmt.Errorf("multiring: Lambda %d, Delta %v, M %d: use 0 to 1e9, 0 or more, 0 to 1e6", cfg.Lambda, cfg.Delta, cfg.M)
	}
	c := &Core{
		peers:        map[multicast.ProcessID]*peer{},
		coordinators: map[multicast.GroupID]*peer{},
		merge:        merge(cmp.Or(cfg.M, DefaultM)),
		lambda:       uint64(cmp.Or(cfg.Lambda, DefaultLambda)),
		delta:        cmp.Or(cfg.Delta, DefaultDelta),
	}
	c.routes.Resolve = c.resolve
	for i := range cfg.Groups {
		if err := c.addGroup(&cfg.Groups[i], cfg.Self); err != nil {
			return nil, err
		}
	}
	if c.self == nil {
		return nil, fmt.Errorf("multiring: Self: process %d is in none of the groups", cfg.Self)
	}
	global, err := c.globalOrder(cfg.Ring)
	if err != nil {
		return nil, err
	}
	c.self.Start()
	c.globalCoordinator = global[0]
	if len(cfg.Groups) > 1 {
		c.global = newRing(globalRank, global, c.self)
	}
	return c, nil
}

// globalOrder gives the members of the global ring.
func (c *Core) globalOrder(ring []multicast.ProcessID) ([]*peer, error) {
	if ring == nil {
		return c.all, nil
	}
	order := make([]*peer, 0, len(ring))
	for _, id := range ring {
		q := c.peers[id]
		if q == nil || slices.Contains(order, q) {
			return nil, fmt.Errorf("multiring: Ring: process %d is in none of the groups or stands twice", id)
		}
		order = append(order, q)
	}
	if len(order) < len(c.all) {
		return nil, fmt.Errorf("multiring: Ring: %d of %d processes are missing", len(c.all)-len(order), len(c.all))
	}
	return order, nil
}

func (c *Core) addGroup(config *multicast.Group, self multicast.ProcessID) error {
	if len(config.Members) == 0 || c.coordinators[config.ID] != nil {
		return fmt.Errorf("multiring: Groups: group %d has no members or stands twice", config.ID)
	}
	first := len(c.all)
	for _, id := range config.Members {
		if id == 0 || c.peers[id] != nil {
			return fmt.Errorf("multiring: Groups: process %d of group %d is 0 or stands twice", id, config.ID)
		}
		q := &peer{id: id}
		c.peers[id] = q
		c.all = append(c.all, q)
	}
	members := c.all[first:]
	c.coordinators[config.ID] = members[0]
	if q := c.peers[self]; q != nil && c.self == nil {
		c.self, c.ownGroup = q, config.ID
		c.group = newRing(groupRank, members, q)
	}
	return nil
}

// Replay implements multicast.Core: it always fails, as nothing is ever recorded.
func (c *Core) Replay([]byte) error {
	return fmt.Errorf("multiring: process %d cannot restart: it has no recovery", c.self.id)
}

// Stats gives the counts so far.
func (c *Core) Stats() Stats {
	s := c.stats
	s.Waiting = c.group.values.Len() + c.group.proposed.Len()
	if c.global != nil {
		s.Waiting += c.global.values.Len() + c.global.proposed.Len()
	}
	return s
}

// Step implements multicast.Core.
func (c *Core) Step(in *multicast.Input, out *multicast.Output) {
	for i := range in.Frames {
		c.receive(&in.Frames[i])
	}
	for i := range in.Proposed {
		c.multicast(&in.Proposed[i])
	}
	ordered := c.order(c.group)
	if c.global != nil {
		ordered = c.order(c.global) && ordered
		c.fill(in.Now.Mono, out)
		c.global.pass()
	}
	c.group.pass()
	if !ordered {
		out.Wake = in.Now.Mono + 1 // at once
	}
	c.deliver(out)
	c.flush(out)
}

// multicast hands a message to the coordinator of its ring.
func (c *Core) multicast(m *multicast.Message) {
	if m.ID.Sender != c.self.id {
		invariant.Broken("process %d proposes message %v", c.self.id, m.ID)
	}
	x := c.routes.To(m.Dest)
	if x == nil || m.Order != multicast.Acyclic || m.ID.Seq > maxNumber || m.After > maxSlot {
		c.stats.Refused++
		return
	}
	if m.ID.Seq <= c.sequence {
		c.stats.Repeated++
		return
	}
	c.sequence = m.ID.Seq
	p := packet{kind: kindPropose, id: m.ID, route: x.encoded, after: m.After, payload: m.Payload}
	if x.coordinator == c.self {
		c.propose(c.self, &p)
	} else {
		x.coordinator.Frame = p.append(x.coordinator.Frame)
	}
}

// fill skips: the global ring keeps up with time, and a group's ring with the global one.
func (c *Core) fill(now time.Duration, out *multicast.Output) {
	if c.global.index == 0 {
		if c.tickAt == 0 {
			c.started, c.tickAt = now, now+c.delta
		}
		if now >= c.tickAt {
			c.tickAt = now + c.delta
			if at := min(c.slots(now-c.started), maxSlot); at > c.global.accepted {
				c.skipTo(c.global, at)
			}
		}
		out.Wake = c.tickAt
	}
	if at := min(c.merge.beside(c.global.decided), maxSlot); c.group.index == 0 && at > c.group.accepted {
		c.skipTo(c.group, at)
	}
}

// slots is Lambda times a time.
func (c *Core) slots(d time.Duration) uint64 {
	return uint64(d/time.Second)*c.lambda + uint64(d%time.Second)*c.lambda/uint64(time.Second)
}

// receive takes in a frame up to the first packet that is malformed, or the start of a link.
func (c *Core) receive(f *multicast.Frame) {
	q := c.peers[f.Peer]
	if q == nil || !q.Receive(f.Data, func(r *varint.Reader) bool {
		from := len(f.Data) - r.Len()
		var p packet
		p.read(r)
		return r.Err() == nil && c.handle(q, &p, f.Data[from:len(f.Data)-r.Len()])
	}) {
		c.stats.Malformed++
	}
}

// handle routes a packet from q; false if it cannot be.
func (c *Core) handle(q *peer, p *packet, encoded []byte) bool {
	switch p.kind {
	case kindPropose:
		return c.propose(q, p)
	case kindValue:
		return c.value(q, p, encoded)
	case kindSkip:
		return c.skip(q, p, encoded)
	default:
		return c.decide(q, p)
	}
}

// flush hands over the frames of this step. A frame for a peer waits until the link to the peer has started.
func (c *Core) flush(out *multicast.Output) {
	for _, q := range c.all {
		q.Flush(q.id, out)
	}
}
