package primcast

import (
	"slices"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// oracle is the leader oracle: it decides when a primary is suspected. It knows times only; the
// core reports events (Core.watch).
//
// A process that waits for its primary, for a delivery or for the begin of an epoch, watches it: the process
// PINGs the group, so that a primary without other messages answers, and the other members watch, too. A
// primary that is silent for suspectAfter is suspected, and the group is told (SILENT). Only if a quorum
// follows no working primary, the first member in the configured order starts an epoch. So a single process
// that receives nothing unseats no primary, and a group without waiting messages sends nothing.
type oracle struct {
	suspectAfter time.Duration
	leaderAt     time.Duration // the last sign of life of the primary
	changeAt     time.Duration // the last progress of the change to another epoch
	watchSince   time.Duration // -1: the primary is not watched
	watchUntil   time.Duration // another process waits for the primary
	nextPing     time.Duration
	lostSince    time.Duration // a member follows an epoch that failed; 0: none does
	jitter       time.Duration
	backoff      int
	random       uint64
}

const (
	pingsPerSuspicion = 4
	maxBackoff        = 3 // a failed campaign is repeated up to 2^3 times as late
)

func newOracle(suspectAfter time.Duration, seed uint64) oracle {
	o := oracle{suspectAfter: suspectAfter, watchSince: -1, random: seed}
	o.draw()
	return o
}

// heard records a sign of life of the primary.
func (o *oracle) heard(now time.Duration) { o.leaderAt = now }

// progressed records that the change to another epoch has begun or moved on.
func (o *oracle) progressed(now time.Duration) { o.changeAt = now }

// delivered records that the present primary works: the next campaign is not late.
func (o *oracle) delivered() { o.backoff = 0 }

// asked records that another process waits for the primary.
func (o *oracle) asked(now time.Duration) { o.watchUntil = now + 2*o.suspectAfter }

// isAsked reports whether another process has recently waited for the primary.
func (o *oracle) isAsked(now time.Duration) bool { return o.watchUntil > now }

// rest ends watching: no process waits for the primary.
func (o *oracle) rest() { o.watchSince = -1 }

// watch begins to watch the primary, if necessary, and reports whether pings are due. The next ones are due
// at nextPingAt.
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

// silence is the time for which the primary, or the change to another epoch, has made no progress.
func (o *oracle) silence(now time.Duration, active bool) time.Duration {
	if active {
		return now - max(o.watchSince, o.leaderAt)
	}
	return now - o.changeAt
}

// isQuiet reports whether a silence requires a ping, suspects whether it requires a suspicion.
func (o *oracle) isQuiet(silence time.Duration) bool {
	return silence >= o.suspectAfter/pingsPerSuspicion
}

func (o *oracle) suspects(silence time.Duration) bool { return silence >= o.suspectAfter }

// patience is the maximum silence of a primary before a member with a rank starts an epoch.
func (o *oracle) patience(rank int) time.Duration {
	return (o.suspectAfter + time.Duration(rank)*o.suspectAfter/2 + o.jitter) << o.backoff
}

// campaigned makes the next campaign of this process later.
func (o *oracle) campaigned() {
	o.backoff = min(o.backoff+1, maxBackoff)
	o.draw()
}

// draw makes the next jitter, up to half a step between two ranks (splitmix64).
func (o *oracle) draw() {
	o.random += 0x9e3779b97f4a7c15
	z := o.random
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	o.jitter = time.Duration(z % uint64(o.suspectAfter/4+1))
}

// lost records whether some member has promised to an epoch that failed. If this lasts, overdue reports that
// it is time to bring that member back; otherwise the primary checks again at a time, unless that is 0.
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

// watch is the oracle's part of a step.
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

// ping requests signs of life of the primary from the group, or reports that there are none.
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

// rank is the place of this process among the members that may follow the present leader.
func (c *variables) rank() int {
	rank := c.self.member
	if leader := c.peers[c.promised.Leader]; leader != nil && leader.member < rank {
		rank--
	}
	return rank
}

// relay gives the primary messages that it may lack, because their sender crashed before it sent them to all
// processes: the messages that were not proposed from one ping to the next.
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

// quorumSilent reports whether a quorum has recently reported that it follows no working primary. A new
// member may not know yet that it is a member.
func (c *system) quorumSilent() bool {
	silent := func(q *peer) bool { return q.silent != 0 && c.now-q.silent <= c.config.SuspectAfter }
	return hasQuorum(c.own.members(), silent) || hasQuorum(c.own.settled(), silent)
}

// onPing: q waits for the primary, or a process of another group waits for information from this group.
func (c *Core) onPing(q *peer) {
	c.oracle.asked(c.now)
	q.speak = true
}

// onSilent: q receives nothing from the leader of the epoch it has promised to.
func (c *Core) onSilent(q *peer, p *silentPacket) {
	if q.group != c.own {
		c.stats.BadPackets++
		return
	}
	e := p.epoch
	c.highest = maxEpoch(c.highest, e)
	q.silent, q.forgone, q.amnesiac = max(c.now, 1), e, p.amnesiac
	if e.Compare(c.promised) < 0 { // it has not received the present epoch
		q.tellRoster(c.own)
		if c.promised.Leader == c.self.id {
			q.frame = (&newEpochPacket{epoch: c.promised, roster: c.own.roster()}).append(q.frame)
		}
	}
	c.oracle.asked(c.now)
	q.speak = true
}

// bringBack is for a member that has promised to an epoch that failed, or is amnesiac: it can take no part
// until there is a higher epoch. The working primary starts one.
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

// hearLeader records signs of life of the primary of the present epoch, and members that follow one again.
func (c *Core) hearLeader(q *peer, p anyPacket) {
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
		c.oracle.heard(c.now)
	}
}
