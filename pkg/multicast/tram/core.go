package tram

import (
	"errors"
	"fmt"
	"time"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/lane"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Input has the events that are ready at a step. Writes of others are not in it: the core looks into its
// memory.
type Input struct {
	Now         time.Duration // never goes back
	Proposed    []multicast.Message
	Completions []fabric.Completion
}

// Output has the effects that a step asks for, in this order: rights, operations, deliveries.
type Output struct {
	Rights     []fabric.Right
	Ops        []fabric.Op
	Deliveries []multicast.Delivery // Final is the place in the log of this group, and of this group alone
	Wake       time.Duration        // the latest time of the next step; 0: when something happens
}

// Reset empties out for reuse.
func (out *Output) Reset() {
	clear(out.Ops)
	clear(out.Deliveries)
	*out = Output{Rights: out.Rights[:0], Ops: out.Ops[:0], Deliveries: out.Deliveries[:0]}
}

// Stats count the work of a process.
type Stats struct {
	Malformed int // completions of nothing, proposals that are not valid, messages that do not fit into the log
	Failed    int // operations
	Campaigns int // attempts to lead
	Led       int // those that succeeded
	Adopted   int // entries of earlier leaders that this one wrote again (group catch-up)
	Dropped   int // entries of earlier leaders that no quorum can have held
	Helped    int // times that a follower forwarded to a child (tree catch-up)
}

type role uint8

const (
	follower role = iota
	candidate
	leader
)

// Core is a process of TRAM. It never blocks and never fails.
type Core struct {
	cfg   Config
	tree  *tree
	group *group
	ids   []multicast.ProcessID // of all processes, by group
	index int                   // among the members

	memory  map[fabric.RegionID]fabric.Memory
	scratch []byte
	started bool
	now     time.Duration
	out     *Output
	lanes   *lane.Set

	clients  map[multicast.GroupID]*flow // messages of this process, by lca
	highest  uint64                      // sequence number that was proposed
	children []*flow                     // messages of this group, by child
	helped   map[*flow]uint64            // a follower forwards entries up to here

	ledger   ledger
	role     role
	promised uint32 // the highest timestamp granted (the ballot that this member follows)
	ts       uint32 // of the last attempt of this process to lead
	decided  uint64 // a leader knows that a quorum holds the log up to here
	members  []*member
	peers    map[multicast.ProcessID]*peer
	oracle   oracle
	stats    Stats
}

// New makes a process. The caller registers Regions, passes each to Attach, and steps.
func New(cfg Config) (*Core, error) {
	cfg.setDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	t, err := newTree(cfg.Groups, cfg.Parents)
	if err != nil {
		return nil, err
	}
	c := &Core{
		cfg: cfg, tree: t, group: t.of[cfg.Self],
		memory: map[fabric.RegionID]fabric.Memory{}, scratch: make([]byte, cfg.SlotSize),
		lanes: lane.NewSet(cfg.RetryAfter), clients: map[multicast.GroupID]*flow{}, helped: map[*flow]uint64{},
		ledger: ledger{state: newPositions()}, peers: map[multicast.ProcessID]*peer{},
		oracle: newOracle(cfg.SuspectAfter, cfg.Seed),
	}
	for _, g := range cfg.Groups {
		for _, p := range g.Members {
			c.ids = append(c.ids, p)
			c.peers[p] = c.newPeer(p)
		}
	}
	for i, p := range c.group.Members {
		if p == cfg.Self {
			c.index = i
		}
		c.members = append(c.members, c.newMember(p))
	}
	for _, child := range c.group.children {
		c.children = append(c.children, c.newFlow(child, parentRegion))
	}
	c.promised = timestamp(1, 0)
	if c.index == 0 {
		c.ts = c.promised
		c.lead()
	}
	return c, nil
}

// timestamp is unique to a member and an attempt (Algorithm 3).
func timestamp(round uint32, member int) uint32 { return round<<8 | uint32(member) }

func round(ts uint32) uint32 { return ts >> 8 }

// holder is the member that may write the logs of those that have granted a timestamp.
func (c *Core) holder(ts uint32) multicast.ProcessID { return c.group.Members[int(ts&0xff)] }

// Regions are the regions that the process registers.
func (c *Core) Regions() []fabric.Region {
	ring := c.cfg.Slots * c.cfg.SlotSize
	all := []fabric.Region{{ID: logRegion, Size: headerSize + ring}}
	for _, p := range c.ids {
		all = append(all,
			fabric.Region{ID: regionOf(clientRegion, p), Size: ring},
			fabric.Region{ID: regionOf(noteRegion, p), Size: noteSize})
	}
	if c.group.parent != nil {
		for _, p := range c.group.parent.Members {
			all = append(all, fabric.Region{ID: regionOf(parentRegion, p), Size: ring})
		}
	}
	return all
}

// Attach passes a registered region to the core.
func (c *Core) Attach(id fabric.RegionID, m fabric.Memory) { c.memory[id] = m }

// Leads reports whether this process leads its group as far as it knows.
func (c *Core) Leads() bool { return c.role == leader }

// Stats gives the counts of the process.
func (c *Core) Stats() Stats { return c.stats }

// Pending is how many messages and entries wait here for another process.
func (c *Core) Pending() (count int) {
	for _, p := range c.ids {
		if f := c.clients[c.tree.of[p].ID]; f != nil && p == c.tree.of[p].Members[0] {
			count += len(f.entries)
		}
	}
	for _, f := range c.children {
		count += len(f.entries)
	}
	return count + int(c.ledger.last()-c.ledger.applied)
}

// Validate says why m cannot be multicast, or nil.
func (c *Core) Validate(m *multicast.Message) error {
	if err := m.Validate(); err != nil {
		return err
	}
	if c.tree.lca(m.Dest) == nil {
		return fmt.Errorf("tram: message %v: one of the destinations %v is no group", m.ID, m.Dest)
	}
	if m.ID.Sender != c.cfg.Self || m.Order != multicast.Acyclic || m.After != 0 || m.Durable {
		return fmt.Errorf("tram: message %v: process %d sends its own messages, with acyclic order, and without a bound or disks", m.ID, c.cfg.Self)
	}
	room := c.cfg.SlotSize - wordSize - bodyHeader - entryOverhead(c.widest()) - messageOverhead(len(m.Dest))
	if len(m.Payload) > room {
		return fmt.Errorf("tram: message %v: %d bytes of payload: at most %d fit into a slot of %d bytes", m.ID, len(m.Payload), room, c.cfg.SlotSize)
	}
	return nil
}

// widest is the most children that a group has.
func (c *Core) widest() (most int) {
	for _, g := range c.tree.groups {
		most = max(most, len(g.children))
	}
	return most
}

// ErrNotAttached is the panic of a step before all Regions are attached.
var ErrNotAttached = errors.New("tram: a region was not passed to Attach")

// Step consumes in and fills out, which the caller has reset.
func (c *Core) Step(in *Input, out *Output) {
	c.begin(in.Now, out)
	c.start()
	unknown, failed := c.lanes.Complete(in.Completions)
	c.stats.Malformed += unknown
	c.stats.Failed += failed
	for i := range in.Proposed {
		c.propose(&in.Proposed[i])
	}
	c.hear()
	c.grant()
	c.campaign()
	c.follow()
	c.rule()
	c.forward()
	for _, g := range c.cfg.Groups {
		if f := c.clients[g.ID]; f != nil {
			c.pump(f)
		}
	}
	c.watch()
	c.say()
	c.out = nil
}

// start grants the rights that never change, and the first leader's.
func (c *Core) start() {
	if c.started {
		return
	}
	c.started = true
	for _, r := range c.Regions() {
		if c.memory[r.ID] == nil {
			panic(ErrNotAttached)
		}
	}
	grant := func(id fabric.RegionID, p multicast.ProcessID, rights fabric.Rights) {
		c.out.Rights = append(c.out.Rights, fabric.Right{Region: id, Peer: fabric.NodeID(p), Rights: rights})
	}
	for _, p := range c.ids {
		grant(regionOf(clientRegion, p), p, fabric.Writable)
		grant(regionOf(noteRegion, p), p, fabric.Writable)
	}
	for _, p := range c.group.Members {
		grant(logRegion, p, fabric.Readable)
	}
	grant(logRegion, c.holder(c.promised), fabric.Writable)
	if c.group.parent != nil {
		for _, p := range c.group.parent.Members {
			grant(regionOf(parentRegion, p), p, fabric.Writable)
		}
	}
}

// propose multicasts a message of this process: Algorithm 1.
func (c *Core) propose(m *multicast.Message) {
	if c.Validate(m) != nil {
		c.stats.Malformed++
		return
	}
	if m.ID.Seq <= c.highest {
		return // proposed before
	}
	c.highest = m.ID.Seq
	lca := c.tree.lca(m.Dest)
	f := c.clients[lca.ID]
	if f == nil {
		f = c.newFlow(lca, clientRegion)
		c.clients[lca.ID] = f
	}
	f.add(f.last()+1, m, c.now)
}

// begin sets the time of a step and the place of its effects.
func (c *Core) begin(now time.Duration, out *Output) {
	c.now, c.out = now, out
	c.lanes.Begin(now, &out.Ops, &out.Wake)
}

// slot loads a slot of a ring or a log that begins at an offset.
func (c *Core) slot(id fabric.RegionID, begin int, n uint64) []byte {
	c.memory[id].Load(begin+c.cfg.place(n), c.scratch)
	return c.scratch
}
