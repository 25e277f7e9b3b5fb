package primcast

import (
	"slices"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// Core is one process of PrimCast. It is not safe for concurrent use.
//
// A Core consists of layers, each a struct that the next one embeds: system, variables, delivery, Core. Core
// itself adds the changes of the primary and of the members. A method belongs to the lowest layer that has
// the state it needs, so no layer calls a higher one.
type Core struct {
	delivery
	change // to the present epoch
	oracle oracle

	frames frameReader
}

// system is the lowest layer: the configuration, the time, and the known state of all processes and groups.
type system struct {
	config  Config // with the defaults filled in
	now     time.Duration
	wall    int64
	checked checked
	stats   Stats

	self     *peer
	own      *group // of self
	peers    map[multicast.ProcessID]*peer
	groups   map[multicast.GroupID]*group
	order    []*peer // all processes, as configured and then as learned: the order in which frames leave
	groupIDs []multicast.GroupID
}

// variables is the layer of the algorithm's variables (lines 2-8), of the log that makes them durable, and of
// the path of a message into T.
type variables struct {
	system

	messages map[multicast.MessageID]*message // M, without the content of entries that only ledgers name
	done     numbers                          // D
	t        sequence                         // T
	clock    multicast.Timestamp
	current  Epoch // E_cur
	promised Epoch // E_prom, never before current
	lost     Epoch // E_cur at the last loss of power that may have lost records (amnesia.go); zero: there was none
	state    State
	log      journal
	overlap  overlap

	accepted   []*message // proposals of the primary after the end of T whose content is missing
	fresh      []*message // messages with START since the last step, which may be proposable
	unproposed int        // number of messages with START that are not proposed here
	missing    []missing  // content to fetch, sorted by due
}

// delivery is the layer of the delivery order: pending messages, deliveries, coverage, and own multicasts.
type delivery struct {
	variables

	classes   []*class // in the order in which they became known
	named     map[multicast.Class]*class
	plain     *class              // the only class without Config.Classes, else nil
	unknown   queue               // proposals whose content, and so whose class, is unknown
	waiting   int                 // messages that are proposed and not delivered
	emptySafe multicast.Timestamp // the highest answer of SafeOf for an unknown class
	keptBytes int                 // bytes of delivered messages that are kept for processes that do not cover them
	ordered   bool                // some message requested atomic global order
	askAt     time.Duration       // time of the next query of groups that hold back the lowest message; 0: none
	delivered multicast.Progress  // positions of the last deliveries
	held      multicast.Progress  // T and D contain all deliveries up to here (I9)
	missing   multicast.Progress  // becomes Output.Behind
	speakAt   time.Duration       // time at which an acknowledgement leaves that its receiver does not need; 0: there is none
	outbox    outbox
}

// maxScratch is the maximum capacity of a frame's buffer that is reused.
const maxScratch = 1 << 20

// Stats are counters since the start, and sizes of the present state, for metrics and tests.
type Stats struct {
	BadFrames  uint64              // malformed frames, which were dropped
	Strangers  uint64              // packets of processes that are in no known group
	LeftBehind uint64              // times that absent members were left behind
	BadPackets uint64              // packets that were dropped: not for this process, or with unknown names
	Refused    uint64              // proposals that cannot be multicast
	Repeated   uint64              // proposals with a number that was used before
	Gaps       uint64              // times that part of a T did not arrive and was fetched
	Fetched    uint64              // contents fetched
	Campaigns  uint64              // campaigns to become primary
	Epochs     uint64              // epochs that this process has entered
	Entries    int                 // entries in T
	Length     uint64              // length of T, including forgotten entries
	Last       multicast.Timestamp // timestamp of the last entry of T
	Pending    int                 // messages that are proposed and not delivered
	Bytes      int                 // approximate size of the live state in the log
	Clock      multicast.Timestamp
	Current    Epoch
	State      State
}

// Stats returns the counters and sizes.
func (c *Core) Stats() Stats {
	s := c.stats
	s.Entries, s.Pending, s.Bytes = c.t.entries(), c.waiting, c.t.size()
	s.Length, s.Last = c.t.last(), c.t.lastTimestamp()
	s.Clock, s.Current, s.State = c.clock, c.current, c.state
	return s
}

// Leads reports whether this process is the primary of its group, according to its own state.
func (c *Core) Leads() bool { return c.state == Primary }

// New returns a process in the initial epoch of its group (lines 1-8). The caller of a process that restarts
// then passes all records of its log to Replay.
func New(cfg Config) (*Core, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.fill()
	c := &Core{oracle: newOracle(cfg.SuspectAfter, cfg.Seed^uint64(cfg.Self)<<32)}
	c.config = cfg
	c.peers, c.groups = map[multicast.ProcessID]*peer{}, map[multicast.GroupID]*group{}
	c.messages, c.done = map[multicast.MessageID]*message{}, numbers{}
	c.log = newJournal(&cfg)
	c.named, c.delivered = map[multicast.Class]*class{}, slices.Clone(cfg.Delivered)
	c.outbox.sent = map[multicast.MessageID]*sent{}
	if !cfg.Classes {
		c.plain = c.class("")
	}
	for _, g := range cfg.Groups {
		c.addGroup(&g)
	}
	c.self = c.peer(cfg.Self)
	if cfg.Replaces != 0 {
		c.self.group = c.peers[cfg.Replaces].group
	}
	c.own = c.self.group
	c.seated = c.self.member >= 0
	c.current = c.own.epoch
	c.promised, c.highest = c.current, c.current
	return c, nil
}

func (c *system) addGroup(config *multicast.Group) {
	first := Epoch{Number: 1, Leader: config.Members[0]}
	g := &group{id: config.ID, ledger: ledger{epoch: first}}
	var members []*peer
	for i, id := range config.Members {
		q := c.peer(id)
		q.group, q.member = g, i
		members = append(members, q)
	}
	g.seat(roster{latest: first}, members, nil)
	c.groups[g.id] = g
	c.groupIDs = append(c.groupIDs, g.id)
}

// Step implements multicast.Core.
func (c *Core) Step(in *multicast.Input, out *multicast.Output) {
	c.now, c.wall = in.Now.Mono, in.Now.Wall
	if c.log.begin() {
		c.began = c.now
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
		c.startCampaign() // the quorum decides as in any other campaign; the present primary learns of the higher epoch
	}
	c.accept(in.Proposed, out)
	c.pursueReplacements(out)
	c.watch(out)
	c.propose(out)
	waiting := c.waiting
	c.deliver(out)
	if c.waiting < waiting {
		c.oracle.delivered()
	}
	c.sendMore(out)
	c.resendRest(out)
	c.askOthers(out)
	c.fetch(out)
	c.cover(in.Covered)
	c.leaveBehind()
	c.acknowledge(out)
	c.flush(out)
	c.flushLog(out)
	out.Safe, out.Behind = c.safe(), slices.Clone(c.missing)
	c.check(out.Safe)
}

// wake makes the driver take the next step no later than at a time.
func wake(out *multicast.Output, at time.Duration) {
	if out.Wake == 0 || at < out.Wake {
		out.Wake = max(at, 1)
	}
}

// receive handles a frame, or the start of a link. If any part of a frame is malformed, the whole frame is
// dropped.
func (c *Core) receive(f *multicast.Frame) {
	q := c.peer(f.Peer)
	if len(f.Data) == 0 {
		q.linked = true
		c.startLink(q)
		return
	}
	if c.frames.decode(f.Data) != nil {
		c.stats.BadFrames++
	} else {
		for _, p := range c.frames.packets {
			c.handle(q, p)
			c.more(q, p)
		}
	}
	c.frames.reset()
}

// handle routes a packet from q.
func (c *Core) handle(q *peer, p anyPacket) {
	if c.state == Retired {
		return // an earlier packet of the frame retired this process
	}
	if !c.admit(q, p) {
		return
	}
	c.receiveSigns(q, p)
	switch p := p.(type) {
	case *startPacket:
		c.onStart(q, p)
	case *entryPacket:
		c.onEntry(q, p)
	case *upToPacket:
		c.onUpTo(q, p)
	case *ackPacket:
		c.onAck(q, p)
	case *bumpPacket:
		c.onBump(q, p)
	case *havePacket:
		c.onHave(q, p.id)
	case *fetchPacket:
		c.onFetch(q, p.id)
	case *fetchLogPacket:
		c.onFetchLog(q, p)
	case *coveredPacket:
		c.onCovered(q, p)
	case *newEpochPacket:
		c.onNewEpoch(q, p)
	case *promisePacket:
		c.onPromise(q, p)
	case *newStatePacket:
		c.onNewState(q, p)
	case *acceptPacket:
		c.onAccept(q, p.epoch)
	case *rosterPacket:
		c.onRoster(q, p)
	case *replacePacket:
		c.onReplace(q, p.Replacement)
	case *behindPacket:
		c.onBehind(q, p)
	case *pingPacket:
		c.onPing(q)
	case *silentPacket:
		c.onSilent(q, p)
	}
}
