package heron

import (
	"errors"
	"time"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/lane"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// The regions of a process, each with a process in its lower bits. Package tram uses the first kinds, so that
// both may share an endpoint.
const (
	objectRegion fabric.RegionID = (iota + 8) << 28
	noteRegion
	chunkRegion
)

func regionOf(kind fabric.RegionID, p multicast.ProcessID) fabric.RegionID {
	return kind | fabric.RegionID(p)
}

// Owns reports whether a region is one of this package. Completions of other regions belong to other cores of
// the same endpoint.
func Owns(id fabric.RegionID) bool { return id >= objectRegion }

// Input has the events of a step. Writes of other processes are not events: the core reads its own memory.
type Input struct {
	Now         time.Duration // never goes back
	Deliveries  []multicast.Delivery
	Completions []fabric.Completion
}

// Response is the result of a request at this process. If a process has taken over a state after the request,
// it has no response; the other members of its group have one.
type Response struct {
	ID    multicast.MessageID
	Place multicast.Timestamp // in the log of the group
	Body  []byte
}

// Output has the effects that a step requests, in this order: rights, operations, responses.
type Output struct {
	Rights    []fabric.Right
	Ops       []fabric.Op
	Responses []Response
	Wake      time.Duration // the latest time of the next step; 0: only after an event
}

// Reset empties out for reuse.
func (out *Output) Reset() {
	clear(out.Ops)
	clear(out.Responses)
	*out = Output{Rights: out.Rights[:0], Ops: out.Ops[:0], Responses: out.Responses[:0]}
}

// Stats are counters of a process since its start.
type Stats struct {
	Malformed int // completions of nothing, remote memory that is not valid
	Failed    int // operations
	Executed  int // requests
	Shared    int // executed requests of several groups
	Remote    int // remote reads
	Unclear   int // remote reads that found a version being written
	Past      int // remote reads that found only versions after the request
	Lagged    int // times that this process needed the state of another member
	Helped    int // laggers that this process has helped
	Delayed   int // requests that waited for the last members in phase 4
	DelayedBy time.Duration
	// Time that shared requests have spent in phase 2, with remote reads, and in phase 4.
	Gathering, Fetching, Leaving time.Duration
	Transfers                    time.Duration // time that this process has waited for the state of another one
}

// Core is one process of Heron. It is stepped, and never blocks or fails. It is not safe for concurrent use.
type Core struct {
	cfg     Config
	group   *multicast.Group
	groups  map[multicast.GroupID]*multicast.Group
	peers   map[multicast.ProcessID]*peer
	list    []*peer // by group
	memory  map[fabric.RegionID]fabric.Memory
	lanes   *lane.Set
	started bool
	now     time.Duration
	out     *Output
	stats   Stats

	objects      *objects
	meetings     map[multicast.GroupID]meeting // of the latest request that this process has entered
	queue        []multicast.Delivery
	last         uint64 // tag of the last request that was executed or taken over (last_req of the paper)
	current      *request
	lagging      *transfer
	attempts     uint64
	lastQuestion uint64 // number of the last question
	reads        uint64 // number of the last remote read
	slotHints    map[ObjectID]int
}

// ErrNotAttached is the value of the panic of a step before all Regions were passed to Attach.
var ErrNotAttached = errors.New("heron: a region of Regions was not passed to Attach")

// New returns a process. The caller registers Regions, passes each to Attach, and begins to step.
func New(cfg Config) (*Core, error) {
	cfg.setDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Core{
		cfg: cfg, groups: map[multicast.GroupID]*multicast.Group{}, peers: map[multicast.ProcessID]*peer{},
		memory: map[fabric.RegionID]fabric.Memory{}, lanes: lane.NewSet(cfg.RetryAfter),
		meetings: map[multicast.GroupID]meeting{}, slotHints: map[ObjectID]int{},
	}
	c.objects = newObjects(&c.cfg)
	for i := range c.cfg.Groups {
		g := &c.cfg.Groups[i]
		c.groups[g.ID] = g
		for _, id := range g.Members {
			p := &peer{id: id, group: g.ID}
			p.notes = c.lanes.New(fabric.NodeID(id), regionOf(noteRegion, cfg.Self), p)
			p.reads = c.lanes.New(fabric.NodeID(id), objectRegion, (*reader)(c))
			c.peers[id] = p
			c.list = append(c.list, p)
			if id == cfg.Self {
				c.group = g
			}
		}
	}
	for _, id := range c.group.Members {
		p := c.peers[id]
		p.chunks = c.lanes.New(fabric.NodeID(id), regionOf(chunkRegion, cfg.Self), (*chunkWriter)(p))
	}
	return c, nil
}

// Regions returns the regions that the caller must register for the process.
func (c *Core) Regions() []fabric.Region {
	all := []fabric.Region{{ID: objectRegion, Size: c.cfg.Objects * c.cfg.slotSize()}}
	for _, p := range c.list {
		all = append(all, fabric.Region{ID: regionOf(noteRegion, p.id), Size: align(noteSize)})
	}
	for _, id := range c.group.Members {
		all = append(all, fabric.Region{ID: regionOf(chunkRegion, id), Size: chunkWindow * c.cfg.ChunkSize})
	}
	return all
}

// Attach passes a registered region to the core.
func (c *Core) Attach(id fabric.RegionID, m fabric.Memory) {
	c.memory[id] = m
	if id == objectRegion {
		c.objects.memory = m
	}
}

// Stats returns the counters of the process.
func (c *Core) Stats() Stats { return c.stats }

// Pending returns the number of deliveries that are not executed; a state transfer that has not ended counts
// as one.
func (c *Core) Pending() int {
	n := len(c.queue)
	if c.current != nil || c.lagging != nil {
		n++
	}
	return n
}

// Get returns the newest value of an object of this group; nil if it was never written.
func (c *Core) Get(id ObjectID) []byte { return c.objects.newest(id).value }

// Step consumes in and fills out. The caller has called out.Reset.
func (c *Core) Step(in *Input, out *Output) {
	c.now, c.out = in.Now, out
	c.lanes.Begin(in.Now, &out.Ops, &out.Wake)
	c.start()
	c.queue = append(c.queue, in.Deliveries...)
	unknown, failed := c.lanes.Complete(in.Completions)
	c.stats.Malformed += unknown
	c.stats.Failed += failed
	c.readNotes()
	c.receive()
	for c.advance() {
	}
	c.serve()
	c.writeNotes()
	c.out = nil
}

// start grants the rights, which never change.
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
	for _, p := range c.list {
		grant(objectRegion, p.id, fabric.Readable)
		grant(regionOf(noteRegion, p.id), p.id, fabric.Writable)
	}
	for _, id := range c.group.Members {
		grant(regionOf(chunkRegion, id), id, fabric.Writable)
	}
}

// tagOf returns the tag of the versions that a delivery writes: 0 is no tag.
func tagOf(d *multicast.Delivery) uint64 { return uint64(d.Final) + 1 }

// advance does the next part of Algorithm 1. It reports whether there may be another one to do now.
func (c *Core) advance() bool {
	switch {
	case c.lagging != nil:
		return false
	case c.current == nil:
		return c.next()
	case c.current.phase == gathering:
		return c.gathered()
	case c.current.phase == fetching:
		return c.fetched()
	}
	return c.left()
}

// next begins the next request (Algorithm 1, lines 2 to 8).
func (c *Core) next() bool {
	if len(c.queue) == 0 {
		return false
	}
	d := c.queue[0]
	c.queue = c.queue[1:]
	if tagOf(&d) <= c.last {
		return true // a transfer has covered it
	}
	if len(d.Dest) > 1 {
		c.enter(d)
		return true
	}
	c.current = &request{delivery: d}
	c.execute()
	c.finish()
	return true
}

// execute executes the current request (Algorithm 1, line 12): all values have been read.
func (c *Core) execute() {
	r := c.current
	tag := tagOf(&r.delivery)
	writes, response := c.cfg.App.Execute(c.group.ID, r.delivery.Payload, func(id ObjectID) []byte {
		if c.cfg.App.Owner(id) == c.group.ID {
			return c.objects.newest(id).value
		}
		return r.values[id]
	})
	for _, w := range writes {
		invariant.Check(c.cfg.App.Owner(w.ID) == c.group.ID, "request %v writes object %d of group %d in group %d", r.delivery.ID, w.ID, c.cfg.App.Owner(w.ID), c.group.ID)
		c.objects.set(w.ID, w.Value, tag)
	}
	c.last = tag
	c.stats.Executed++
	r.response = response
}

// finish answers the current request (line 21).
func (c *Core) finish() {
	r := c.current
	c.out.Responses = append(c.out.Responses, Response{ID: r.delivery.ID, Place: r.delivery.Final, Body: r.response})
	c.current = nil
}
