package primcast

import (
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// change is what a process knows of the change to the present epoch, or the next.
type change struct {
	campaign     campaign
	incoming     incoming
	replacements []multicast.Replacement // that are asked for
	replaceAt    time.Duration
	handedOver   int           // times that another was to lead, as this process is to be replaced
	highest      Epoch         // that was heard of
	dismissed    Epoch         // since of the roster that those were told of that have left
	seated       bool          // this process is or was a member
	stateSince   time.Duration // when the process promised or became active
	progress     time.Duration // when the change last moved
}

// campaign is what a candidate, and then primary, knows of the change to its epoch.
type campaign struct {
	epoch    Epoch // zero: none since the start
	promises map[multicast.ProcessID]*promise
	base     Epoch  // E_max, the epoch that T_max is from
	length   uint64 // of T_max
	clock    multicast.Timestamp
}

// promise is ⟨PROMISE, E, p, clock, E_cur, T⟩ with the length of T in its place: whoever needs the rest of T asks
// for it.
type promise struct {
	clock   multicast.Timestamp
	current Epoch
	roster  roster // of current, or of a later epoch
	length  uint64
	decided uint64
}

// less reports whether T of other is more up to date (lines 66-67).
func (a *promise) less(b *promise) bool {
	order := a.current.Compare(b.current)
	return order < 0 || order == 0 && a.length < b.length
}

// active: the own group's present epoch has a quorum, as far as this process knows (line 53).
func (c *Core) active() bool { return c.state == Primary || c.state == Follower }

// startCampaign is lines 57-60.
func (c *Core) startCampaign() {
	next := Epoch{Number: max(c.promised.Number, c.highest.Number) + 1, Leader: c.self.id}
	c.promise(next)
	c.state = Candidate
	c.campaign = newCampaign(next)
	c.stats.Campaigns++
	for _, q := range c.own.electors() {
		q.frame = appendNewEpoch(q.frame, next, c.own.roster())
	}
}

// promise moves E_prom forward, durably.
func (c *Core) promise(e Epoch) {
	c.promised, c.log.sync = e, true
	c.highest = maxEpoch(c.highest, e)
	c.incoming = incoming{}
	c.stateSince, c.progress = c.now, c.now
	c.log.record(appendEpoch([]byte{recordPromise}, e))
}

func maxEpoch(a, b Epoch) Epoch {
	if a.Compare(b) < 0 {
		return b
	}
	return a
}

// onNewEpoch is lines 61-64. One that was heard before, as links restart, is answered again until this
// process is in it.
func (c *Core) onNewEpoch(q *peer, p *packet) {
	e := p.epoch
	if e.Leader != q.id || q.group != c.own {
		c.stats.BadPackets++
		return
	}
	c.highest = maxEpoch(c.highest, e)
	c.learnRoster(c.own, p.roster)
	if !c.own.elects(q) {
		c.tellRoster(q, c.own) // it has not heard that it was replaced
		return
	}
	if order := e.Compare(c.promised); order < 0 || order == 0 && c.current == e {
		q.speak = true // it learns of the higher epoch
		return
	} else if order > 0 {
		c.promise(e)
	}
	if q != c.self {
		c.state = Promised // line 62
	}
	c.sendPromise(q)
}

// sendPromise is line 64. No clock above the one it names counts in an earlier epoch.
func (c *Core) sendPromise(q *peer) {
	c.logClock()
	q.frame = appendPromise(q.frame, c.promised, &promise{
		clock: c.clock, current: c.current, roster: c.own.roster(), length: c.t.last(), decided: min(c.own.decided, c.t.last()),
	})
}

// onPromise is when a PROMISE arrives, and line 65.
func (c *Core) onPromise(q *peer, p *packet) {
	if q.group != c.own || p.epoch != c.promised || p.epoch.Leader != c.self.id {
		return
	}
	c.progress = c.now
	c.learnRoster(c.own, p.promise.roster)
	if c.current == c.promised { // it comes late
		c.sendNewState(q, p.promise)
		return
	}
	if c.campaign.epoch != c.promised { // this process has restarted
		c.campaign = newCampaign(c.promised)
	}
	c.campaign.promises[q.id] = p.promise
	c.gatherState()
}

func newCampaign(e Epoch) campaign {
	return campaign{epoch: e, promises: map[multicast.ProcessID]*promise{}}
}

// gatherState is lines 65-69: with a quorum of promises, T_max is fetched if another has it, and
// becomes T.
func (c *Core) gatherState() {
	var best *promise
	var source *peer
	for _, q := range c.order {
		p := c.campaign.promises[q.id]
		if p == nil {
			continue
		}
		c.campaign.clock = max(c.campaign.clock, p.clock) // line 68
		if best == nil || best.less(p) || !p.less(best) && q == c.self {
			best, source = p, q
		}
	}
	promised := func(q *peer) bool { return c.campaign.promises[q.id] != nil }
	if c.state != Candidate || !c.mayLead() || !promised(c.self) || !c.own.agrees(promised) || c.incoming.source != nil { // R1
		return
	}
	c.campaign.base, c.campaign.length = best.current, best.length
	from := min(c.own.decided, c.t.last())
	if best.current == c.current {
		from = c.t.last()
	}
	c.incoming = incoming{
		source: source, epoch: best.current, from: from, known: from, asked: from, length: best.length,
		clock: c.campaign.clock, roster: c.nextRoster(),
	}
	if source != c.self {
		source.frame = appendFetchLog(source.frame, best.current, from, from)
	} else {
		c.incoming.from, c.incoming.known = best.length, best.length
	}
	c.install()
}

// sendNewState is line 69 for one process, from where its T may differ.
func (c *Core) sendNewState(q *peer, p *promise) {
	from := p.decided
	if p.current == c.campaign.base && c.campaign.epoch == c.current {
		from = min(p.length, c.campaign.length)
	}
	c.logClock()
	q.frame = c.appendNewState(q, from)
	c.stream(q, from)
}

// incoming is a T that is on its way here: T_max to a candidate, or T' to one that has promised.
type incoming struct {
	source *peer // nil: nothing is
	epoch  Epoch
	from   uint64 // the own T is the same up to here
	known  uint64
	asked  uint64 // the source was asked for what is after
	length uint64 // known must get here
	clock  multicast.Timestamp
	staged []staged

	roster roster // of the epoch that begins
}

type staged struct {
	index uint64
	ts    multicast.Timestamp
	id    multicast.MessageID
}

func (in *incoming) takes(q *peer, e Epoch) bool { return in.source == q && in.epoch == e }

// onNewState is line 70.
func (c *Core) onNewState(q *peer, p *packet) {
	if q.group != c.own || p.epoch.Leader != q.id {
		c.stats.BadPackets++
		return
	}
	if p.epoch != c.promised || c.current == p.epoch || q == c.self || p.index > c.t.last() || !c.seatable(c.own, p.roster) {
		return
	}
	c.progress = c.now
	c.incoming = incoming{
		source: q, epoch: p.epoch, from: p.index, known: p.index, asked: p.index, length: p.length,
		clock: p.ts, roster: p.roster,
	}
	c.install()
}

// stage keeps an entry of the T that comes in.
func (c *Core) stage(p *packet) {
	in := &c.incoming
	c.progress = c.now
	switch {
	case p.index <= in.known:
		return
	case p.index != in.known+1:
		c.stats.Gaps++ // the link restarts, or what is missing is forgotten there
		return
	}
	in.staged = append(in.staged, staged{index: p.index, ts: p.ts, id: p.message.ID})
	in.known = p.index
	c.install()
}

// more asks for the next part of a T that came in parts.
func (c *Core) more(q *peer) {
	if in := &c.incoming; in.source == q && in.known < in.length && in.known > in.asked {
		in.asked = in.known
		q.frame = appendFetchLog(q.frame, in.epoch, in.known, in.known)
	}
}

// install is lines 69-74, once T_max or T' is here with all content. A candidate thus installs before
// it sends NEW-STATE, and what it sends leaves after its log has the new T.
func (c *Core) install() {
	in := c.incoming
	if in.source == nil || in.known < in.length || slices.ContainsFunc(in.staged, c.lacks) {
		return
	}
	c.incoming = incoming{}
	if c.state == Candidate && !c.mayLead() {
		return
	}
	from, tail := in.from, in.staged
	for decided := min(c.own.decided, c.t.last()); from < decided && len(tail) > 0; tail = tail[1:] {
		from = tail[0].index // decided meanwhile, and so the same
	}
	epoch := c.promised
	c.clock = max(c.clock, in.clock)      // line 73
	c.replace(from, tail)                 // line 71
	c.current, c.own.epoch = epoch, epoch // line 72
	c.learnRoster(c.own, in.roster)
	c.logState(from)
	c.enterClocks(c.own)
	for _, q := range c.own.electors() {
		q.frame = appendAccept(q.frame, epoch) // line 74
		if p := c.campaignPromise(q); p != nil && q != c.self {
			c.sendNewState(q, p)
		}
	}
}

// campaignPromise is what q promised to this process for its present epoch.
func (c *Core) campaignPromise(q *peer) *promise {
	if c.state != Candidate || c.campaign.epoch != c.current {
		return nil
	}
	return c.campaign.promises[q.id]
}

// lacks reports whether the content of an entry is not here.
func (c *Core) lacks(s staged) bool {
	m := c.messages[s.id]
	return !c.done.has(s.id) && (m == nil || !m.started)
}

// replace puts other entries in the place of those after an index (line 71).
func (c *Core) replace(from uint64, tail []staged) {
	invariant.Check(from >= min(c.own.decided, c.t.last()), "T is replaced after entry %d, and a quorum has %d (Lemma 3)", from, c.own.decided)
	for _, m := range slices.Concat(c.t.cut(from), c.accepted) {
		invariant.Check(!m.delivered, "message %v is delivered and not in the T of a new epoch (Lemma 3)", m.ID)
		if m.logged {
			c.dropEntry(m)
		}
		c.unpend(m)
	}
	c.accepted = nil
	for _, s := range tail {
		m := c.messages[s.id]
		if m == nil {
			c.t.pad(s.index) // delivered by all of m.dest, and forgotten here first
			continue
		}
		invariant.Check(m.index == 0, "message %v is entry %d and %d of T", s.id, m.index, s.index)
		m.index, m.ts = s.index, s.ts
		c.unproposed--
		c.addEntry(m)
		c.pend(m)
		c.sendHave(m)
	}
	for _, g := range c.groups {
		g.lastOwn = g.lastGone
	}
	for m := range c.t.all() {
		c.concern(m)
	}
}

// concern notes that an entry of T is the last one that concerns its destinations.
func (c *Core) concern(m *message) {
	for _, id := range m.Dest {
		g := c.groups[id]
		g.lastOwn = max(g.lastOwn, m.index)
	}
}

// onAccept is when an ACCEPT arrives, and lines 75-78.
func (c *Core) onAccept(q *peer, e Epoch) {
	if q.group != c.own {
		c.stats.BadPackets++
		return
	}
	c.highest = maxEpoch(c.highest, e)
	q.accepted = maxEpoch(q.accepted, e)
	accepted := func(q *peer) bool { return q.accepted == c.current }
	if e == c.current && !c.active() && c.own.latest == e && c.own.agrees(accepted) { // R2
		c.activate()
	}
}

// heardActive: q follows an epoch that a quorum has accepted. A follower that waits for ACCEPTs needs no
// more of them: by line 42 it would lose a proposal that overtakes an ACCEPT of another process.
func (c *Core) heardActive(q *peer, e Epoch) {
	c.highest = maxEpoch(c.highest, e)
	if q != c.self && e == c.current && e == c.promised && !c.active() {
		c.activate()
	}
}

// activate is lines 77-81: all of m.dest hear of the whole T.
func (c *Core) activate() {
	if c.current != c.promised {
		return
	}
	c.state = Follower
	if c.current.Leader == c.self.id {
		c.state = Primary
		c.proposeAgain()
	}
	for m := range c.t.all() {
		c.moved(m)
	}
	c.settle()
	c.stats.Epochs++
	c.stateSince, c.leaderAt = c.now, c.now
	for _, q := range c.order {
		if q.member < 0 {
			continue
		}
		c.tellRoster(q, c.own)
		if q.group == c.own || q.group.lastOwn != 0 {
			q.speak = true
		}
	}
}

// proposeAgain finds what the primaries before have not proposed, or not to a quorum.
func (c *Core) proposeAgain() {
	c.fresh = c.fresh[:0]
	for _, m := range c.messages {
		if m.started && m.index == 0 && !m.delivered {
			c.fresh = append(c.fresh, m)
		}
	}
	slices.SortFunc(c.fresh, func(a, b *message) int { return a.ID.Compare(b.ID) })
}
