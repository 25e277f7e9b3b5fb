package primcast

import (
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// change is the state of the change to the present epoch, or to the next one.
type change struct {
	campaign     campaign
	incoming     incoming
	replacements []multicast.Replacement // requested replacements
	replaceAt    time.Duration
	handedOver   int           // number of times that this primary, which is to be replaced, asked another member to lead
	highest      Epoch         // highest known epoch
	dismissed    Epoch         // the since of the roster that processes which have left were informed of
	seated       bool          // this process is or was a member
	began        time.Duration // the first step of this process
}

// campaign is the state of a process in the change to an epoch that it wants to lead, and then leads.
type campaign struct {
	epoch    Epoch // the epoch of the campaign; zero: there was none since the start
	promises map[multicast.ProcessID]*promise
	base     Epoch  // E_max, the epoch of T_max
	length   uint64 // of T_max
	clock    multicast.Timestamp
}

// promise is a PROMISE ⟨E, p, clock, E_cur, T⟩ for this candidate, with the length of T instead of T. A
// process that lacks entries of T fetches them.
type promise struct {
	clock   multicast.Timestamp
	current Epoch
	roster  roster // the roster of current, or of a later epoch
	length  uint64
	decided uint64

	amnesiac bool // see amnesia.go
}

// less reports whether the T of b is more up to date than the T of a (lines 66-67).
func (a *promise) less(b *promise) bool {
	order := a.current.Compare(b.current)
	return order < 0 || order == 0 && a.length < b.length
}

// active reports whether a quorum has accepted E_cur, according to this process (line 53).
func (c *variables) active() bool { return c.state == Primary || c.state == Follower }

// startCampaign starts a new epoch: this process promises to it and sends NEW-EPOCH (lines 57-60).
func (c *Core) startCampaign() {
	next := Epoch{Number: max(c.promised.Number, c.highest.Number) + 1, Leader: c.self.id}
	c.promise(next)
	c.state = Candidate
	c.campaign = newCampaign(next)
	c.stats.Campaigns++
	for _, q := range c.own.electors() {
		q.frame = (&newEpochPacket{epoch: next, roster: c.own.roster()}).append(q.frame)
	}
}

// promise raises E_prom to e, durably.
func (c *Core) promise(e Epoch) {
	c.promised = e
	c.highest = maxEpoch(c.highest, e)
	c.incoming = incoming{}
	c.oracle.progressed(c.now)
	c.log.promise(e)
}

func maxEpoch(a, b Epoch) Epoch {
	if a.Compare(b) < 0 {
		return b
	}
	return a
}

// onNewEpoch handles a NEW-EPOCH (lines 61-64). A repeated NEW-EPOCH is answered again until this process is
// in the epoch, because the answer may have been lost with a link.
func (c *Core) onNewEpoch(q *peer, p *newEpochPacket) {
	e := p.epoch
	if e.Leader != q.id || q.group != c.own {
		c.stats.BadPackets++
		return
	}
	c.highest = maxEpoch(c.highest, e)
	c.learnRoster(c.own, p.roster)
	if !c.own.elects(q) {
		q.sendRoster(c.own) // q does not know that it was replaced
		return
	}
	if order := e.Compare(c.promised); order < 0 || order == 0 && c.current == e {
		q.speak = true // q gets the higher epoch
		return
	} else if order > 0 {
		c.promise(e)
	}
	if q != c.self {
		c.state = Promised // line 62
	}
	c.sendPromise(q)
}

// sendPromise sends a PROMISE with the clock (line 64). From now on no clock of this process counts in a
// lower epoch.
func (c *variables) sendPromise(q *peer) {
	c.log.clock(c.clock)
	q.frame = (&promisePacket{epoch: c.promised, promise: promise{
		clock: c.clock, current: c.current, roster: c.own.roster(),
		length: c.t.last(), decided: min(c.own.decided, c.t.last()), amnesiac: c.isAmnesiac(),
	}}).append(q.frame)
}

// onPromise handles a PROMISE (line 65).
func (c *Core) onPromise(q *peer, p *promisePacket) {
	if q.group != c.own || p.epoch != c.promised || p.epoch.Leader != c.self.id {
		return
	}
	c.oracle.progressed(c.now)
	c.learnRoster(c.own, p.promise.roster)
	if c.current == c.promised { // the epoch has begun already
		c.sendNewState(q, &p.promise)
		return
	}
	if c.campaign.epoch != c.promised { // this process has restarted since its NEW-EPOCH
		c.campaign = newCampaign(c.promised)
	}
	c.campaign.promises[q.id] = &p.promise
	c.askAgain(q, &p.promise)
	c.gatherState()
}

func newCampaign(e Epoch) campaign {
	return campaign{epoch: e, promises: map[multicast.ProcessID]*promise{}}
}

// gatherState handles a quorum of promises (lines 65-69): the candidate fetches T_max if it does not have it,
// and makes it its T.
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
	if c.state != Candidate || !c.mayLead() || c.campaign.promises[c.self.id] == nil || !c.mayBegin() || c.incoming.source != nil { // R1
		return
	}
	c.campaign.base, c.campaign.length = best.current, best.length
	from := min(c.own.decided, c.t.last())
	if best.current == c.current {
		from = c.t.last()
	}
	c.incoming = incoming{
		source: source, epoch: best.current, from: from, known: from, requested: from, length: best.length,
		clock: c.campaign.clock, roster: c.nextRoster(),
	}
	if source != c.self {
		source.frame = (&fetchLogPacket{epoch: best.current, known: from, decided: from}).append(source.frame)
	} else {
		c.incoming.from, c.incoming.known = best.length, best.length
	}
	c.install()
}

// sendNewState sends NEW-STATE to one process (line 69). It begins at the first entry that may differ from
// the T of the process.
func (c *Core) sendNewState(q *peer, p *promise) {
	from := p.decided
	if p.current == c.campaign.base && c.campaign.epoch == c.current {
		from = min(p.length, c.campaign.length)
	}
	c.log.clock(c.clock)
	q.frame = (&newStatePacket{
		epoch: c.current, current: p.current, ts: c.clock, from: from, length: c.t.last(), roster: c.own.roster(),
	}).append(q.frame)
	c.stream(q, from)
	q.speak = true
}

// onNewState handles a NEW-STATE (line 70): it records T' as the incoming T.
func (c *Core) onNewState(q *peer, p *newStatePacket) {
	if q.group != c.own || p.epoch.Leader != q.id {
		c.stats.BadPackets++
		return
	}
	if p.epoch != c.promised || c.current == p.epoch || q == c.self || p.from > c.t.last() || !c.seatable(c.own, p.roster) {
		return
	}
	decided := min(c.own.decided, c.t.last())
	if p.from > decided && p.current != c.current {
		return // the answered PROMISE is older than the T that this process has taken over
	}
	c.oracle.progressed(c.now)
	from := max(p.from, min(decided, p.length)) // q may have forgotten earlier entries
	c.incoming = c.incoming.continued(incoming{
		source: q, epoch: p.epoch, from: from, known: from, requested: p.from, length: p.length,
		clock: p.ts, roster: p.roster,
	})
	c.install()
}

// install makes the incoming T the T of this process (lines 69-74). It waits until this process has T_max (a
// candidate) or T' (a process that has promised) with all content. So a candidate installs T before it sends
// NEW-STATE, and NEW-STATE leaves after its log has the new T.
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
		from = tail[0].index // decided since, so the entries are the same
	}
	epoch := c.promised
	c.clock = max(c.clock, in.clock)      // line 73
	c.replace(from, tail)                 // line 71
	c.current, c.own.epoch = epoch, epoch // line 72
	c.learnRoster(c.own, in.roster)
	c.log.state(c.current, c.own.roster(), &c.t, from)
	c.enterClocks(c.own)
	for _, q := range c.own.electors() {
		q.frame = (&acceptPacket{epoch}).append(q.frame) // line 74
		if p := c.campaignPromise(q); p != nil && q != c.self {
			c.sendNewState(q, p)
		}
	}
}

// campaignPromise returns the promise of q for the present campaign of this process; nil if there is none.
func (c *Core) campaignPromise(q *peer) *promise {
	if c.state != Candidate || c.campaign.epoch != c.current {
		return nil
	}
	return c.campaign.promises[q.id]
}

// lacks reports whether this process lacks the content of an entry.
func (c *variables) lacks(s staged) bool {
	m := c.messages[s.id]
	return !c.done.has(s.id) && (m == nil || !m.started)
}

// replace replaces the entries of T after an index by tail (line 71).
func (c *delivery) replace(from uint64, tail []staged) {
	invariant.Check(from >= min(c.own.decided, c.t.last()), "T is replaced after entry %d, and a quorum has %d (Lemma 3)", from, c.own.decided)
	for _, m := range slices.Concat(c.t.cut(from), c.accepted) {
		invariant.Check(!m.delivered, "message %v is delivered and not in the T of a new epoch (Lemma 3)", m.ID)
		c.unpend(m)
	}
	c.accepted = nil
	for _, s := range tail {
		m := c.messages[s.id]
		if m == nil {
			c.t.pad(s.index) // all of m.dest have delivered it, and this process has forgotten it
			continue
		}
		invariant.Check(m.index == 0, "message %v is entry %d and %d of T", s.id, m.index, s.index)
		m.index, m.ts = s.index, s.ts
		c.unproposed--
		c.t.append(m)
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

// concern records m as the last entry of T that concerns its destinations.
func (c *system) concern(m *message) {
	for _, id := range m.Dest {
		g := c.groups[id]
		g.lastOwn = max(g.lastOwn, m.index)
	}
}

// onAccept handles an ACCEPT (lines 75-78).
func (c *Core) onAccept(q *peer, e Epoch) {
	if q.group != c.own {
		c.stats.BadPackets++
		return
	}
	c.highest = maxEpoch(c.highest, e)
	q.accepted = maxEpoch(q.accepted, e)
	accepted := func(q *peer) bool { return q.accepted == c.current }
	if e == c.current && !c.active() && c.own.seatedIn() == e && c.own.agrees(accepted) { // R2
		c.activate()
	}
}

// receiveActive handles the information that q follows an epoch which a quorum has accepted. This process
// then needs no further ACCEPT: if it waited for one, it would lose a proposal that overtakes the ACCEPT
// (line 42).
func (c *Core) receiveActive(q *peer, e Epoch) {
	c.highest = maxEpoch(c.highest, e)
	if q != c.self && e == c.current && e == c.promised && !c.active() {
		c.activate()
	}
}

// activate makes this process active in its epoch (lines 77-81). All processes of all destinations get an
// acknowledgement of the whole T, and request the entries that they lack.
func (c *Core) activate() {
	if c.current != c.promised || c.isAmnesiac() {
		return
	}
	if c.hasResigned() {
		if c.self.member >= 0 {
			c.startCampaign() // the next epoch
		}
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
	c.oracle.noteSign(c.now)
	for _, q := range c.order {
		if q.member < 0 {
			continue
		}
		q.sendRoster(c.own)
		if q.group == c.own || q.group.lastOwn != 0 {
			q.speak = true
		}
	}
}

// proposeAgain finds the messages that no earlier primary has proposed to a quorum.
func (c *variables) proposeAgain() {
	c.fresh = c.fresh[:0]
	for _, m := range c.messages {
		if m.started && m.index == 0 && !m.delivered {
			c.fresh = append(c.fresh, m)
		}
	}
	slices.SortFunc(c.fresh, func(a, b *message) int { return a.ID.Compare(b.ID) })
}
