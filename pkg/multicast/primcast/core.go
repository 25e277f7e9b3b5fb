package primcast

import (
	"slices"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// Core is one process of PrimCast. It has one owner.
type Core struct {
	self     *peer
	own      *group // of self
	peers    map[multicast.ProcessID]*peer
	groups   map[multicast.GroupID]*group
	order    []*peer // all processes, as configured and then as heard of: the order in which frames leave
	groupIDs []multicast.GroupID

	// The variables of lines 2-8.
	messages map[multicast.MessageID]*message // M, but for what the ledgers hold
	done     numbers                          // D
	t        sequence                         // T
	clock    multicast.Timestamp
	current  Epoch // E_cur
	promised Epoch // E_prom, never before current
	state    State

	accepted   []*message // proposals of the primary after T, whose content is not here yet
	fresh      []*message // started since the last step: perhaps proposable
	unproposed int        // messages that are started and not proposed here

	classes   []*class // in the order in which they were heard of
	named     map[multicast.Class]*class
	plain     *class              // the one that there is without Config.Classes, else nil
	unknown   queue               // proposed, and of a class that is not known since their content is not here
	waiting   int                 // messages that are proposed and not delivered
	emptySafe multicast.Timestamp // the highest answer of SafeOf for a class that is not known
	keptBytes int                 // of messages that are delivered and kept for some that do not cover them
	ordered   bool                // some message asked for atomic global order
	askAt     time.Duration       // when other groups are asked why the lowest must wait; 0: it does not
	delivered multicast.Progress  // the last deliveries
	unnoted   []*message          // delivered, but their final-ts is not in the log yet

	change // to the present epoch
	oracle

	behind  multicast.Progress // see multicast.Output
	outbox  outbox
	missing []missing // in the order of due

	config  Config // with the defaults filled in
	log     journal
	now     time.Duration
	wall    int64
	packets []packet // scratch
	checked checked
	stats   Stats
}

// maxScratch is how large a frame's buffer may be to be used again.
const maxScratch = 1 << 20

// Stats are counts since the start, for metrics and tests.
type Stats struct {
	BadFrames  uint64              // dropped: malformed
	Strangers  uint64              // packets of processes that are in no group, as far as is known
	LeftBehind uint64              // times that members that are away were left behind
	BadPackets uint64              // dropped: not for this process, or naming what does not exist
	Refused    uint64              // proposals that cannot be multicast
	Repeated   uint64              // proposals with a number that was used before
	Gaps       uint64              // times that part of a T did not arrive and was asked for
	Fetched    uint64              // contents asked for
	Campaigns  uint64              // epochs that this process wanted to lead
	Epochs     uint64              // epochs entered
	Entries    int                 // now in T
	Length     uint64              // of T, with what is forgotten
	Last       multicast.Timestamp // of the last entry of T
	Pending    int                 // of them, proposed and not delivered
	Bytes      int                 // of the live state in the log, about
	Clock      multicast.Timestamp
	Current    Epoch
	State      State
}

// Stats gives the counts so far.
func (c *Core) Stats() Stats {
	s := c.stats
	s.Pending, s.Bytes = c.waiting, c.log.live
	s.Length, s.Last = c.t.last(), c.t.lastTS
	s.Clock, s.Current, s.State = c.clock, c.current, c.state
	return s
}

// Leads reports whether this process is the primary of its group, as far as it knows.
func (c *Core) Leads() bool { return c.state == Primary }

// New makes a process in the initial epoch of its group (lines 1-8). Replay then brings
// a restarted one back to where it was.
func New(cfg Config) (*Core, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.fill()
	c := &Core{
		peers:     map[multicast.ProcessID]*peer{},
		groups:    map[multicast.GroupID]*group{},
		messages:  map[multicast.MessageID]*message{},
		done:      numbers{},
		outbox:    outbox{sent: map[multicast.MessageID]*sent{}},
		named:     map[multicast.Class]*class{},
		delivered: slices.Clone(cfg.Delivered),
		config:    cfg,
		oracle:    oracle{watchSince: -1, random: cfg.Seed ^ uint64(cfg.Self)<<32},
		log:       journal{checkpointMin: cfg.CheckpointMin, stride: clockStride},
	}
	if !cfg.Classes {
		c.plain = c.class("")
	}
	if cfg.HybridClock {
		c.log.stride = hybridStride
	}
	for _, g := range cfg.Groups {
		c.addGroup(&g)
	}
	c.self = c.peer(cfg.Self)
	if cfg.Replaces != 0 {
		c.self.group = c.peers[cfg.Replaces].group
	}
	c.own = c.self.group
	for _, g := range cfg.Groups {
		first := Epoch{Number: 1, Leader: g.Members[0]}
		c.groups[g.ID].epoch, c.groups[g.ID].latest = first, first
	}
	c.seated = c.self.member >= 0
	c.current = c.own.epoch
	c.promised, c.highest = c.current, c.current
	c.draw()
	return c, nil
}

func (c *Core) addGroup(config *multicast.Group) {
	g := &group{id: config.ID, quorum: config.Quorum()}
	for i, id := range config.Members {
		q := c.peer(id)
		q.group, q.member = g, i
		g.members = append(g.members, q)
	}
	c.groups[g.id] = g
	c.groupIDs = append(c.groupIDs, g.id)
}

// Step implements multicast.Core.
func (c *Core) Step(in *multicast.Input, out *multicast.Output) {
	c.now, c.wall = in.Now.Mono, in.Now.Wall
	if !c.log.begun {
		c.begin()
	}
	for i := range in.Frames {
		if c.state != Retired {
			c.receive(&in.Frames[i])
		}
	}
	if c.state == Retired {
		c.rest(out)
		return
	}
	for _, r := range in.Replace {
		c.replaceMember(r)
	}
	if in.Lead && c.state == Follower && c.self.member >= 0 {
		c.startCampaign() // the quorum decides as ever; who leads now hears of the higher epoch
	}
	c.accept(in.Proposed, out)
	c.pursueReplacements(out)
	c.watch(out)
	c.propose(out)
	c.deliver(out)
	c.sendMore(out)
	c.resendRest(out)
	c.askOthers(out)
	c.fetch(out)
	c.cover(in.Covered)
	c.leaveBehind()
	c.acknowledge()
	c.flush(out)
	c.flushLog(out)
	out.Safe, out.Behind = c.safe(), slices.Clone(c.behind)
	c.check(out.Safe)
}

// wake asks for a step no later than at a time.
func (c *Core) wake(out *multicast.Output, at time.Duration) {
	if out.Wake == 0 || at < out.Wake {
		out.Wake = max(at, 1)
	}
}

// receive takes in a frame, or the start of a link. A frame is taken as a whole or not at all.
func (c *Core) receive(f *multicast.Frame) {
	q := c.peer(f.Peer)
	if len(f.Data) == 0 {
		q.linked = true
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
		c.more(q)
	}
	clear(c.packets)
}

// handle routes a packet from q.
func (c *Core) handle(q *peer, p *packet) {
	if c.state == Retired {
		return // an earlier packet of the frame has said so
	}
	if !c.admit(q, p) {
		return
	}
	c.hearLeader(q, p)
	switch p.kind {
	case kindStart:
		c.onStart(q, p)
	case kindEntry:
		c.onEntry(q, p)
	case kindUpTo:
		c.onUpTo(q, p)
	case kindAck:
		c.onAck(q, p)
	case kindBump:
		c.onBump(q, p)
	case kindHave:
		c.onHave(q, p.message.ID)
	case kindFetch:
		c.onFetch(q, p.message.ID)
	case kindFetchLog:
		c.onFetchLog(q, p)
	case kindCovered:
		c.onCovered(q, p)
	case kindNewEpoch:
		c.onNewEpoch(q, p)
	case kindPromise:
		c.onPromise(q, p)
	case kindNewState:
		c.onNewState(q, p)
	case kindAccept:
		c.onAccept(q, p.epoch)
	case kindRoster:
		c.onRoster(q, p)
	case kindReplace:
		c.onReplace(q, p.replacement)
	case kindBehind:
		c.onBehind(q, p)
	case kindPing:
		c.onPing(q)
	case kindSilent:
		c.onSilent(q, p.epoch)
	}
}
