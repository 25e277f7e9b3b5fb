package primcast

import (
	"slices"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// oracle is the leader oracle: it decides when the primary is suspected. It computes with times only; the
// core reports the events (Core.watch).
//
// A process watches its primary while it waits for a delivery or for the begin of an epoch. It sends PING to
// the group: a primary without other messages answers, and the other members begin to watch, too. If the
// primary is silent for suspectAfter, the process suspects it and reports that to the group (SILENT). An
// epoch starts only if a quorum follows no working primary; the first member in the configured order starts
// it. So a single process that receives nothing does not remove a working primary, and a group without
// waiting messages sends nothing.
type oracle struct {
	suspectAfter time.Duration
	leaderAt     time.Duration // last sign of life of the primary
	changeAt     time.Duration // last progress of the change to another epoch
	watchSince   time.Duration // begin of the watch; -1: the primary is not watched
	watchUntil   time.Duration // end of the time for which another process waits for the primary
	nextPing     time.Duration
	lostSince    time.Duration // begin of the time in which a member is in an epoch that failed; 0: none is
	jitter       time.Duration
	backoff      int
	random       uint64
}

const (
	pingsPerSuspicion = 4
	maxBackoff        = 3 // after failed campaigns the next one comes up to 2^3 times as late
)

func newOracle(suspectAfter time.Duration, seed uint64) oracle {
	o := oracle{suspectAfter: suspectAfter, watchSince: -1, random: seed}
	o.draw()
	return o
}

// noteSign records a sign of life of the primary.
func (o *oracle) noteSign(now time.Duration) { o.leaderAt = now }

// progressed records that the change to another epoch has begun or moved on.
func (o *oracle) progressed(now time.Duration) { o.changeAt = now }

// delivered records that the present primary works, which resets the backoff of campaigns.
func (o *oracle) delivered() { o.backoff = 0 }

// asked records that another process waits for the primary.
func (o *oracle) asked(now time.Duration) { o.watchUntil = now + 2*o.suspectAfter }

// isAsked reports whether another process has recently waited for the primary.
func (o *oracle) isAsked(now time.Duration) bool { return o.watchUntil > now }

// rest ends the watch, because no process waits for the primary.
func (o *oracle) rest() { o.watchSince = -1 }

// watch begins to watch the primary, if that has not begun, and reports whether pings are due. It sets
// nextPing to the time of the next ones.
func (o *oracle) watch(now time.Duration) (ping bool) {
	interval := o.suspectAfter / pingsPerSuspicion
	if o.watchSince < 0 {
		o.watchSince, o.nextPing = now, now+interval
	}
	if ping = o.nextPing <= now; ping {
		o.nextPing = now + interval
	}
	return ping
}

func (o *oracle) nextPingAt() time.Duration { return o.nextPing }

// silence returns the time since the last sign of life of the primary, or since the begin of the watch if
// that is later. If the epoch is not active, it returns the time since the last progress of the change of
// epochs.
func (o *oracle) silence(now time.Duration, active bool) time.Duration {
	if active {
		return now - max(o.watchSince, o.leaderAt)
	}
	return now - o.changeAt
}

// isQuiet reports whether a silence requires a ping; suspects reports whether it requires a suspicion.
func (o *oracle) isQuiet(silence time.Duration) bool {
	return silence >= o.suspectAfter/pingsPerSuspicion
}

func (o *oracle) suspects(silence time.Duration) bool { return silence >= o.suspectAfter }

// patience returns the silence after which the member with a rank starts an epoch; see rank.
func (o *oracle) patience(rank int) time.Duration {
	return (o.suspectAfter + time.Duration(rank)*o.suspectAfter/2 + o.jitter) << o.backoff
}

// campaigned doubles the wait before the next campaign of this process, up to maxBackoff times.
func (o *oracle) campaigned() {
	o.backoff = min(o.backoff+1, maxBackoff)
	o.draw()
}

// draw draws the next jitter, at most half of the difference between two ranks (splitmix64).
func (o *oracle) draw() {
	o.random += 0x9e3779b97f4a7c15
	z := o.random
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	o.jitter = time.Duration(z % uint64(o.suspectAfter/4+1))
}

// lost records whether some member is in an epoch that failed. If this lasts, overdue reports that the
// primary must bring the member back by a new epoch. Otherwise at is the time of the next check; 0: none.
func (o *oracle) lost(now time.Duration, is bool) (at time.Duration, overdue bool) {
	switch {
	case !is:
		o.lostSince = 0
		return 0, false
	case o.lostSince == 0:
		o.lostSince = max(now, 1)
		return now + 2*o.suspectAfter, false
	case now-o.lostSince >= 2*o.suspectAfter:
		o.lostSince = 0
		return 0, true
	}
	return o.lostSince + 2*o.suspectAfter, false
}

// waits reports whether this process waits for its primary.
func (c *Core) waits() bool {
	return c.waiting > 0 || c.unproposed > 0 || !c.active() || len(c.replacements) > 0
}

// watch is the part of a step in which the oracle runs.
func (c *Core) watch(out *multicast.Output) {
	if len(c.own.members()) == 1 && !c.own.isChanging() || !c.own.elects(c.self) {
		return
	}
	if c.state == Primary {
		c.bringBack(out)
		return
	}
	if !c.waits() && !c.oracle.isAsked(c.now) {
		c.oracle.rest()
		return
	}
	ping := c.oracle.watch(c.now)
	silence := c.oracle.silence(c.now, c.active())
	if ping {
		c.relay()
		c.ping(silence)
	}
	wake(out, c.oracle.nextPingAt())
	if !c.oracle.suspects(silence) {
		return
	}
	c.self.silent = c.now
	if c.self.member < 0 {
		return // another process leads
	}
	if wait := c.oracle.patience(c.rank()) - silence; wait > 0 {
		wake(out, c.now+wait)
	} else if c.quorumSilent() {
		c.startCampaign()
		c.oracle.campaigned()
	}
}

// ping sends PING to the group; after a long silence it sends SILENT.
func (c *Core) ping(silence time.Duration) {
	for _, q := range c.own.electors() {
		switch {
		case q == c.self:
		case c.oracle.suspects(silence) || c.isAmnesiac():
			q.frame = (&silentPacket{c.promised, c.isAmnesiac()}).append(q.frame)
		case c.oracle.isQuiet(silence) && (c.waits() || q.id == c.promised.Leader):
			q.frame = (&pingPacket{}).append(q.frame)
		}
	}
}

// rank returns the place of this process among the members that may follow the present primary, in the
// configured order.
func (c *variables) rank() int {
	rank := c.self.member
	if leader := c.peers[c.promised.Leader]; leader != nil && leader.member < rank {
		rank--
	}
	return rank
}

// relay sends the primary messages that it may lack because their sender has crashed before it sent them to
// all processes: those that were known and not proposed at two successive pings.
func (c *variables) relay() {
	if c.unproposed == 0 || !c.active() {
		return
	}
	var stale []*message
	for _, m := range c.messages {
		if m.started && m.index == 0 {
			if m.stale {
				stale = append(stale, m)
			}
			m.stale = true
		}
	}
	slices.SortFunc(stale, func(a, b *message) int { return a.ID.Compare(b.ID) })
	leader := c.peers[c.current.Leader]
	for ; len(stale) > 0 && c.room(leader); stale = stale[1:] {
		leader.sendStart(&stale[0].Message, stale[0].prev)
	}
}

// quorumSilent reports whether a quorum has recently reported that it follows no working primary. Old and new
// members count during a change, since a new member may not know yet that it is one.
func (c *system) quorumSilent() bool {
	silent := func(q *peer) bool { return q.silent != 0 && c.now-q.silent <= c.config.SuspectAfter }
	return hasQuorum(c.own.members(), silent) || hasQuorum(c.own.settled(), silent)
}

// onPing handles a PING: q waits for the primary, or q is in another group and waits for information from
// this one.
func (c *Core) onPing(q *peer) {
	c.oracle.asked(c.now)
	q.speak = true
}

// onSilent handles a SILENT: q receives nothing from the primary of the epoch that it has promised.
func (c *Core) onSilent(q *peer, p *silentPacket) {
	if q.group != c.own {
		c.stats.BadPackets++
		return
	}
	e := p.epoch
	c.highest = maxEpoch(c.highest, e)
	q.silent, q.forgone, q.amnesiac = max(c.now, 1), e, p.amnesiac
	if e.Compare(c.promised) < 0 { // q has not received the present epoch
		q.sendRoster(c.own)
		if c.promised.Leader == c.self.id {
			q.frame = (&newEpochPacket{epoch: c.promised, roster: c.own.roster()}).append(q.frame)
		}
	}
	c.oracle.asked(c.now)
	q.speak = true
}

// bringBack makes the working primary start an epoch for a member that is amnesiac, or has promised an epoch
// that failed: such a member takes part again only in a higher epoch.
func (c *Core) bringBack(out *multicast.Output) {
	lost := slices.ContainsFunc(c.own.members(), func(q *peer) bool {
		return q.silent != 0 && c.now-q.silent <= c.config.SuspectAfter && (q.forgone.Compare(c.current) > 0 || q.amnesiac)
	})
	if at, overdue := c.oracle.lost(c.now, lost); overdue {
		c.startCampaign()
	} else if at != 0 {
		wake(out, at)
	}
}

// receiveSigns records signs of life of the primary, and members that follow an active epoch again.
func (c *Core) receiveSigns(q *peer, p anyPacket) {
	if q.group != c.own || q == c.self {
		return
	}
	var epoch Epoch
	switch p := p.(type) {
	case *ackPacket:
		if epoch = p.epoch; epoch == c.promised {
			q.silent = 0
		}
	case *entryPacket:
		epoch = p.epoch
	default:
		return
	}
	if q.id == c.current.Leader && epoch == c.current {
		c.oracle.noteSign(c.now)
	}
}
