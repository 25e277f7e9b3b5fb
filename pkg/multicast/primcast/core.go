package primcast

import (
	"cmp"
	"slices"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// Core is one process of PrimCast. It has one owner.
type Core struct {
	self   *peer
	own    *group // of self
	peers  map[multicast.ProcessID]*peer
	groups map[multicast.GroupID]*group
	order  []*peer // all processes, as configured: the order in which frames leave

	// The variables of lines 2-8.
	messages map[multicast.MessageID]*message // M, and T: those that are logged, by index
	done     numbers                          // D
	clock    multicast.Timestamp
	current  Epoch // E_cur
	promised Epoch // E_prom, never before current
	state    State

	last     uint64              // index of the last entry of T
	lastTS   multicast.Timestamp // its timestamp
	accepted []*message          // proposals of the primary after last, whose content is not here yet
	fresh    []*message          // started since the last step: perhaps proposable

	pending       queue // proposed and not delivered
	quorumClock   multicast.Timestamp
	limit         multicast.Timestamp // final timestamps up to here are deliverable (lines 28, 29)
	clocksChanged bool
	delivered     multicast.Position // the last delivery
	durable       multicast.Position // deliveries up to here were durable at the start
	unnoted       []*message         // delivered, but their final-ts is not in the log yet

	outbox     outbox
	missing    []missing // in the order of due
	fetchAfter time.Duration

	log     journal
	now     time.Duration
	packets []packet // scratch
	checked checked
	stats   Stats
}

// maxScratch is how large a frame's buffer may be to be used again.
const maxScratch = 1 << 20

// Stats are counts since the start, for metrics and tests.
type Stats struct {
	BadFrames  uint64 // dropped: malformed, or from nobody known
	BadPackets uint64 // dropped: not for this process, or naming what does not exist
	Refused    uint64 // proposals that cannot be multicast
	Repeated   uint64 // proposals with a number that was used before
	Gaps       uint64 // what the primary said after something that did not arrive; it says it again
	Fetched    uint64 // contents asked for
	Entries    int    // now in T
	Pending    int    // of them, proposed and not delivered
	Bytes      int    // of the live state in the log, about
	Clock      multicast.Timestamp
	Current    Epoch
	State      State
}

// Stats gives the counts so far.
func (c *Core) Stats() Stats {
	s := c.stats
	s.Pending, s.Bytes = len(c.pending), c.log.live
	s.Clock, s.Current, s.State = c.clock, c.current, c.state
	return s
}

// New makes a process in the initial epoch of its group (lines 1-8). Replay then brings
// a restarted one back to where it was.
func New(cfg Config) (*Core, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Core{
		peers:      map[multicast.ProcessID]*peer{},
		groups:     map[multicast.GroupID]*group{},
		messages:   map[multicast.MessageID]*message{},
		done:       numbers{},
		outbox:     outbox{sent: map[multicast.MessageID]*sent{}},
		durable:    cfg.Delivered,
		delivered:  cfg.Delivered,
		fetchAfter: cmp.Or(cfg.FetchAfter, DefaultFetchAfter),
		log:        journal{checkpointMin: cmp.Or(cfg.CheckpointMin, DefaultCheckpointMin)},
	}
	for _, g := range cfg.Groups {
		c.addGroup(&g)
	}
	c.self = c.peers[cfg.Self]
	c.own = c.self.group
	c.enter(Epoch{Number: 1, Leader: c.own.members[0].id})
	return c, nil
}

func (c *Core) addGroup(config *multicast.Group) {
	g := &group{id: config.ID, quorum: config.Quorum()}
	for i, id := range config.Members {
		q := &peer{id: id, group: g, member: i}
		g.members = append(g.members, q)
		c.peers[id] = q
		c.order = append(c.order, q)
	}
	c.groups[g.id] = g
}

// enter starts an epoch (lines 6-8).
func (c *Core) enter(e Epoch) {
	c.current, c.promised, c.state = e, e, Follower
	if e.Leader == c.self.id {
		c.state = Primary
	}
}

// leader is leader(E_cur).
func (c *Core) leader() *peer { return c.peers[c.current.Leader] }

// Step implements multicast.Core.
func (c *Core) Step(in *multicast.Input, out *multicast.Output) {
	c.now = in.Now.Mono
	if !c.log.begun {
		c.begin()
	}
	for i := range in.Frames {
		c.receive(&in.Frames[i])
	}
	for i := range in.Proposed {
		c.multicast(&in.Proposed[i])
	}
	c.propose()
	c.deliver(out)
	c.fetch(out)
	c.cover(in.Covered)
	c.sayClock()
	c.flush(out)
	c.flushLog(out)
	out.Safe = c.safe()
	c.check(out.Safe)
}

// receive takes in a frame, or the start of a link. A frame is taken as a whole or not at all.
func (c *Core) receive(f *multicast.Frame) {
	q := c.peers[f.Peer]
	if q == nil {
		c.stats.BadFrames++
		return
	}
	if len(f.Data) == 0 {
		c.startLink(q)
		return
	}
	var err error
	if c.packets, err = decodeFrame(f.Data, c.packets[:0]); err != nil {
		c.stats.BadFrames++
	} else {
		for i := range c.packets {
			c.handle(q, &c.packets[i])
		}
	}
	clear(c.packets)
}

// handle routes a packet from q.
func (c *Core) handle(q *peer, p *packet) {
	switch p.kind {
	case kindStart:
		c.start(q, p)
	case kindAck:
		c.ack(q, p)
	case kindBump:
		c.bump(q, p)
	case kindHave:
		c.have(q, p.message.ID)
	case kindFetch:
		c.answer(q, p.message.ID)
	case kindCovered:
		c.covers(q, p.position)
	}
}

// flush hands over the frames of this step, each with what its receiver should
// know of the own coverage (trim.go).
func (c *Core) flush(out *multicast.Output) {
	for _, q := range c.order {
		if len(q.frame) == 0 {
			continue
		}
		if c.self.covered.Compare(q.told) > 0 {
			q.told = c.self.covered
			q.frame = appendCovered(q.frame, q.told)
		}
		out.Frames = append(out.Frames, multicast.Frame{Peer: q.id, Data: slices.Clone(q.frame)})
		if q.frame = q.frame[:0]; cap(q.frame) > maxScratch {
			q.frame = nil
		}
	}
}
