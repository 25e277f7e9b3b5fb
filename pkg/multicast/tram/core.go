package tram

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/lane"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Input has the events of a step. Writes of other processes are not events: the core reads its own memory.
type Input struct {
	Now         time.Duration // monotonic time
	Proposed    []multicast.Message
	Completions []fabric.Completion
	Covered     multicast.Progress // the state machine holds all deliveries up to here durably; used in mode sync
	Free        uint64             // used with Redeliver: entries up to here are not needed; may be above or below Covered
	Seats       []Seat             // processes that have moved to other nodes
	Lead        bool               // this process must try to lead its group
}

// Output has the effects that a step requests, in this order: records, rights, operations, deliveries. There
// is one gate: the driver puts the records into the log, and with Sync onto the disk, before the rest leaves.
type Output struct {
	Records    [][]byte
	Checkpoint bool // the first record replaces all earlier records
	Sync       bool
	Rights     []fabric.Right
	Ops        []fabric.Op
	Deliveries []multicast.Delivery // Final is the place in the log of this group; other groups have other places
	// Behind, if not empty: this process needs deliveries up to here that other members have forgotten. It
	// must take over the state of another member (State, Adopt).
	Behind multicast.Progress
	// Returned are messages of this process that no group ordered before a barrier (barrier.go): they are
	// never delivered by this order.
	Returned []multicast.Message
	Sealed   bool          // this process has delivered a barrier, and delivers nothing more
	Retired  bool          // another process has the seat of this one, which does nothing any more
	Wake     time.Duration // the latest time of the next step; 0: only after an event
}

// Reset empties out for reuse.
func (out *Output) Reset() {
	clear(out.Records)
	clear(out.Ops)
	clear(out.Deliveries)
	clear(out.Returned)
	*out = Output{Records: out.Records[:0], Rights: out.Rights[:0], Ops: out.Ops[:0], Deliveries: out.Deliveries[:0], Returned: out.Returned[:0]}
}

// Stats are counters of a process since its start.
type Stats struct {
	Malformed int // unexpected completions, invalid proposals, messages that do not fit into the log
	Failed    int // failed operations
	Campaigns int // attempts to lead
	Led       int // attempts that succeeded
	Adopted   int // entries of earlier leaders that this process wrote again as leader (group catch-up)
	Dropped   int // entries of earlier leaders that cannot have been decided
	Reborn    int // restarts of other processes
	Helped    int // times that a follower forwarded to a child (tree catch-up)
	Revoked   int // rights of others that this process has revoked
}

type role uint8

const (
	follower role = iota
	candidate
	leader
)

// site is the lowest layer of the core: configuration, memory, other processes, and the present step.
type site struct {
	cfg   Config
	tree  *tree
	group *group
	ids   []multicast.ProcessID // of all processes, by group
	index int                   // of this process among the members of its group
	peers map[multicast.ProcessID]*peer

	memory  map[fabric.RegionID]fabric.Memory
	scratch []byte
	now     time.Duration
	out     *Output
	lanes   *lane.Set
}

// durable is the layer of the state that the log on disk holds: the group's log, promises and losses of
// memory.
type durable struct {
	site
	started    bool
	ledger     ledger
	log        journal
	votes      map[uint64]*vote // by number
	promised   uint32           // the highest granted timestamp: this member follows its leader
	promisedTo uint32           // the life of the process to which promised was granted
	stored     uint64           // entries up to here are decided, or held with timestamp promised
	lost       bool             // this process has lost its memory (amnesia.go)
	losses     [maxMembers]uint32
	covered    uint64 // the state machine needs no entry up to here
	skip       uint64 // entries up to here are not delivered, because the state machine has them
	delivered  multicast.Position
	needsState uint64 // entries up to here must come with the state of another member
	mute       bool   // nothing is delivered, because deliveries are missing
	retired    bool
}

// Core is one process of TRAM. It is stepped, and never blocks or fails. It is not safe for concurrent use.
type Core struct {
	durable
	clients  map[multicast.GroupID]*flow // messages of this process, by the lca of their destinations
	highest  uint64                      // highest sequence number that was proposed
	children []*flow                     // entries of this group's log for each child group
	helped   map[*flow]uint64            // a follower forwards entries up to here in place of the leader

	role    role
	ts      uint32 // timestamp of the last attempt of this process to lead
	decided uint64 // as a leader: a quorum holds the log up to here
	start   uint64 // as a leader: end of the log when its term began
	members []*member
	oracle  oracle
	stats   Stats
}

// New returns a process. The caller then registers Regions, passes each to Attach, and begins to step.
func New(cfg Config) (*Core, error) {
	cfg.setDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	t, err := newTree(cfg.Groups, cfg.Parents)
	if err != nil {
		return nil, err
	}
	c := &Core{clients: map[multicast.GroupID]*flow{}, helped: map[*flow]uint64{}, oracle: newOracle(cfg.SuspectAfter, cfg.Seed)}
	c.site = site{
		cfg: cfg, tree: t, group: t.of[cfg.Self], peers: map[multicast.ProcessID]*peer{},
		memory: map[fabric.RegionID]fabric.Memory{}, scratch: make([]byte, cfg.SlotSize), lanes: lane.NewSet(cfg.RetryAfter),
	}
	c.ledger = ledger{first: newPositions(), state: newPositions(), own: c.group.ID}
	c.votes = map[uint64]*vote{}
	if cfg.Life > 0 {
		c.lanes.Fence()
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
	c.skip = uint64(cfg.Delivered.Of("").Final)
	if c.ledger.most = c.skip; !cfg.Redeliver {
		c.ledger.most = math.MaxUint64
	}
	switch {
	case cfg.Amnesiac:
	case cfg.Life == 0 && c.index == 0:
		c.ts = timestamp(1, 0)
		fallthrough
	default:
		c.promised = timestamp(1, 0)
	}
	if c.ts > 0 {
		c.lead()
	}
	return c, nil
}

// timestamp returns the timestamp of a round of a member. It is unique to both (Algorithm 3).
func timestamp(round uint32, member int) uint32 { return round<<8 | uint32(member) }

func round(ts uint32) uint32 { return ts >> 8 }

// holder returns the member that may write the logs of the members which have granted a timestamp.
func (c *site) holder(ts uint32) multicast.ProcessID { return c.group.Members[int(ts&0xff)] }

// Regions returns the regions that the caller must register for the process.
func (c *site) Regions() []fabric.Region {
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
func (c *site) Attach(id fabric.RegionID, m fabric.Memory) { c.memory[id] = m }

// Leads reports whether this process leads its group, according to its own state.
func (c *Core) Leads() bool { return c.role == leader }

// Amnesiac reports whether this process has lost its memory and has no vote until it has caught up.
func (c *durable) Amnesiac() bool { return c.lost }

// Lacks returns, after the replay, a place that the state machine (Config.Delivered) must have reached and
// has not reached, because the log does not have the deliveries up to it any more. If lacks is true, the
// process must not continue with this state machine.
func (c *durable) Lacks() (at multicast.Position, lacks bool) {
	return multicast.Position{Final: multicast.Timestamp(c.ledger.lastNeeded)}, c.skip < c.ledger.lastNeeded
}

// Life returns the number of this life. With Config.Successive it is final after the replay.
func (c *site) Life() uint32 { return c.cfg.Life }

// Stats returns the counters of the process.
func (c *Core) Stats() Stats { return c.stats }

// Pending returns the number of messages and entries at this process that wait for another process.
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

// Validate returns the reason why m cannot be multicast, or nil.
func (c *site) Validate(m *multicast.Message) error {
	plain := *m
	if plain.Order == Barrier {
		plain.Order = multicast.Acyclic
	}
	if err := plain.Validate(); err != nil {
		return err
	}
	if c.tree.lca(m.Dest) == nil {
		return fmt.Errorf("tram: message %v: one of the destinations %v is no group", m.ID, m.Dest)
	}
	if m.ID.Sender != c.cfg.Self || !c.orderable(m) || m.After != 0 || m.Durable && !c.cfg.Sync {
		return fmt.Errorf("tram: message %v: process %d sends its own messages, with acyclic order, without a bound, and durably in mode sync only", m.ID, c.cfg.Self)
	}
	if room := c.Room(len(m.Dest)); len(m.Payload) > room {
		return fmt.Errorf("tram: message %v: %d bytes of payload: at most %d fit into a slot of %d bytes", m.ID, len(m.Payload), room, c.cfg.SlotSize)
	}
	return nil
}

// Room returns the maximum length of the payload of a message to dest groups, in bytes.
func (c *site) Room(dest int) int {
	return c.cfg.SlotSize - wordSize - bodyHeader - entryOverhead(c.widest()) - messageOverhead(dest)
}

// widest returns the maximum number of children of a group.
func (c *site) widest() (most int) {
	for _, g := range c.tree.groups {
		most = max(most, len(g.children))
	}
	return most
}

// ErrNotAttached is the value of the panic of a step before all Regions were passed to Attach.
var ErrNotAttached = errors.New("tram: a region was not passed to Attach")

// Step consumes in and fills out. The caller has called out.Reset.
func (c *Core) Step(in *Input, out *Output) {
	c.begin(in.Now, out)
	if out.Retired = c.retired; c.retired {
		return
	}
	c.init()
	unknown, failed := c.lanes.Complete(in.Completions)
	c.stats.Malformed += unknown
	c.stats.Failed += failed
	for i := range in.Proposed {
		c.propose(&in.Proposed[i])
	}
	for _, s := range in.Seats {
		c.seat(s)
	}
	c.readNotes()
	c.grant()
	if in.Lead && c.role != leader {
		c.stand()
	}
	c.campaign()
	c.store()
	c.cover(uint64(in.Covered.Of("").Final), in.Free)
	c.follow()
	c.rule()
	c.forward()
	for _, g := range c.cfg.Groups {
		if f := c.clients[g.ID]; f != nil {
			c.pump(f)
		}
	}
	c.watch()
	c.writeNotes()
	c.flushLog()
	out.Sealed = c.ledger.state.sealed
	if c.needsState > c.ledger.applied || c.mute {
		out.Behind = multicast.UpTo(multicast.Position{Final: multicast.Timestamp(c.needsState)})
	}
	for _, r := range out.Rights {
		if r.Revoke {
			c.stats.Revoked++
		}
	}
	if out.Retired = c.retired; c.retired {
		out.Ops, out.Deliveries = out.Ops[:0], out.Deliveries[:0]
	}
	c.out = nil
}

// cover records up to which entries the state machine does not need the log. In mode memory the state machine
// lives as long as the process, so all applied entries are covered.
func (c *durable) cover(machine, free uint64) {
	l := &c.ledger
	if !c.cfg.Sync {
		c.covered = l.applied
		return
	}
	if c.cfg.Redeliver {
		l.most = max(l.most, machine)
	} else {
		free = machine
	}
	c.covered = max(c.covered, l.base, min(free, l.applied))
	for c.covered < l.applied && !l.at(c.covered+1).message.To(c.group.ID) {
		c.covered++
	}
}

// init restores the state of the log at the first step. It grants the rights that never change, and those of
// the leader that this process follows.
func (c *Core) init() {
	if c.started {
		return
	}
	for _, r := range c.Regions() {
		if c.memory[r.ID] == nil {
			panic(ErrNotAttached)
		}
	}
	if c.lost = c.lost || c.cfg.Amnesiac; c.lost {
		c.losses[c.index] = c.cfg.Life
	}
	c.restore()
	c.started = true
	c.vow()
	for _, p := range c.ids {
		c.out.Rights = append(c.out.Rights, c.rightsOf(c.peers[p])...)
	}
	if !c.lost {
		c.out.Rights = append(c.out.Rights, fabric.Right{Region: logRegion, Peer: c.peers[c.holder(c.promised)].node, Rights: fabric.Writable})
	}
}

// propose multicasts a message of this process (Algorithm 1).
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
	if f.sealed || c.ledger.state.sealed {
		c.out.Returned = append(c.out.Returned, *m)
		return
	}
	f.add(f.last()+1, m, c.now)
}

// begin sets the time of a step and its output.
func (c *site) begin(now time.Duration, out *Output) {
	c.now, c.out = now, out
	c.lanes.Begin(now, &out.Ops, &out.Wake)
}

// slot reads a slot of the ring, or the log, that begins at an offset of a region.
func (c *site) slot(id fabric.RegionID, begin int, n uint64) []byte {
	c.memory[id].Load(begin+c.cfg.place(n), c.scratch)
	return c.scratch
}
