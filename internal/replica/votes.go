package replica

import (
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Replicas of the parties of a command tell each other their partitions' votes, and when they are past it. The
// leader tells; who misses something asks, one replica after the other. A partition keeps its vote until
// it knows that all parties are past the command, so a replica that recovers can ask again (T 3.4.3).

type messageKind uint8

// The kinds of messages, numbered for ever.
const (
	messageVote messageKind = 1 + iota // a partition's vote, and whether it is past the command
	messageAsk                         // for the vote
	messagePing                        // are you there?
	messagePong
)

// askAgain is how often the leader asks for what is missing.
const askAgain = 500 * time.Millisecond

// Votes that arrive before the command itself are kept up to these bounds; others are asked for.
const (
	maxEarly      = 1024
	maxEarlyBytes = 32 << 20
)

// maxSaying is about how many bytes of votes a step tells to each, and again how many it puts into decisions. A frame has room for
// twice as much (tell) beside the longest sections of the two cores, each as long as a message at most; what it cannot take is
// told or asked for again.
const maxSaying = 4 << 20

// maxForget bounds the places in one envelope.
const maxForget = 256

// heard is what another party has said.
type heard struct {
	vote []byte // nil: it was told before, or is forgotten
	past bool   // it has decided
}

func appendVote(b []byte, from uint16, at place, h heard) []byte {
	b = varint.AppendUint(append(b, byte(messageVote)), from)
	b = ask.AppendPosition(b, at)
	b = varint.AppendUint(b, varint.Bit(h.past))
	return varint.AppendBytes(b, h.vote)
}

// tell puts a message into the frame for a process.
func (r *Replica) tell(to multicast.ProcessID, message []byte) {
	if to != r.cfg.Self && len(r.cores.frames[to])+len(message) < 2*maxSaying {
		r.cores.add(to, ofReplica, message)
	}
}

// hear takes the messages of another replica in. What does not decode is dropped: it is asked for again.
func (r *Replica) hear(from multicast.ProcessID, section []byte) {
	rd := varint.NewReader(section)
	kind := messageKind(rd.Uint8())
	switch kind {
	case messagePing:
		r.tell(from, []byte{byte(messagePong)})
		return
	case messageVote, messageAsk:
	default:
		return
	}
	partition, at := rd.Uint16(), ask.ReadPosition(rd)
	if kind == messageAsk {
		if rd.Done() == nil {
			r.answerAsk(from, at)
		}
		return
	}
	h := heard{past: rd.Uint(1) != 0, vote: slices.Clone(rd.Bytes())} // the frame may be large
	if rd.Done() != nil || int(partition) >= len(r.cfg.Groups) || partition == r.cfg.Partition {
		return
	}
	if c := r.byPlace[at]; c != nil {
		r.heardVote(c, partition, h)
		r.pursueNow()
	} else if at.Compare(r.relayed) > 0 {
		r.keepEarly(at, partition, h)
	}
}

func (r *Replica) heardVote(c *coordinated, from uint16, h heard) {
	if h.past {
		c.past[from] = true
	}
	if !c.decided && len(h.vote) > 0 {
		c.votes[from] = h.vote
	}
}

// keepEarly keeps a vote for when the command arrives.
func (r *Replica) keepEarly(at place, from uint16, h heard) {
	if len(r.early) >= maxEarly || r.earlyBytes+len(h.vote) > maxEarlyBytes {
		clear(r.early)
		r.earlyBytes = 0
	}
	if r.early[at] == nil {
		r.early[at] = map[uint16]heard{}
	}
	before := r.early[at][from]
	if len(h.vote) == 0 {
		h.vote = before.vote
	}
	r.earlyBytes += len(h.vote) - len(before.vote)
	r.early[at][from] = h
}

// answerAsk tells what is known of a command. What was relayed here and is not known any more is past at all parties.
func (r *Replica) answerAsk(to multicast.ProcessID, at place) {
	if c := r.byPlace[at]; c != nil {
		r.tell(to, appendVote(nil, r.cfg.Partition, at, heard{vote: c.vote, past: c.decided}))
	} else if at.Compare(r.relayed) <= 0 {
		r.tell(to, appendVote(nil, r.cfg.Partition, at, heard{past: true}))
	}
}

// pursueCommands tells, asks, decides and forgets.
func (r *Replica) pursueCommands(leads bool) {
	var over []*coordinated
	r.saying = 0
	for _, c := range r.commands {
		missing := c.missing(r.cfg.Partition)
		if leads && !c.told && r.saying < maxSaying {
			c.told = true
			r.tellParties(c)
		}
		switch {
		case c.retryAt == 0:
			c.retryAt = r.now.Mono + askAgain
			if !leads {
				c.retryAt = r.patience()
			}
		case r.now.Mono >= c.retryAt:
			c.retryAt = r.now.Mono + askAgain + 4*stagger*time.Duration(r.cfg.Index)
			r.ask(c, missing)
			over = r.conclude(c, true, missing, over) // nobody else has done it
			r.pursueBy(c.retryAt)
			continue
		}
		over = r.conclude(c, leads, missing, over)
		r.pursueBy(c.retryAt)
	}
	r.proposeForget(over)
	if r.saying >= maxSaying {
		r.pursueNow() // the rest in the next steps
	}
}

// proposeForget has commands forgotten that all parties are past.
func (r *Replica) proposeForget(over []*coordinated) {
	if len(over) == 0 {
		return
	}
	e := envelope{Kind: envelopeForget}
	for _, c := range over {
		e.Forget = append(e.Forget, c.at)
	}
	id := r.order(e)
	for _, c := range over {
		c.proposed = id
	}
}

// conclude proposes the decision of a command whose votes are all there, or to forget it once all parties are past it.
func (r *Replica) conclude(c *coordinated, leads bool, missing []uint16, over []*coordinated) []*coordinated {
	if !leads || len(missing) > 0 || r.underWay[c.proposed] || r.saying >= maxSaying {
		return over
	}
	if c.decided {
		if len(over) < maxForget {
			over = append(over, c)
		}
		return over
	}
	votes := make([][]byte, 0, len(c.parties))
	for _, p := range c.parties {
		if p == r.cfg.Partition {
			votes = append(votes, c.vote)
			continue
		}
		invariant.Check(len(c.votes[p]) > 0, "command %v: partition %d is past it without a vote of this one's", c.at, p)
		votes = append(votes, c.votes[p])
	}
	for _, v := range votes {
		r.saying += len(v)
	}
	c.proposed = r.order(envelope{Kind: envelopeDecide, At: c.at, Votes: votes})
	return over
}

// missing lists the parties that have not said what is needed now: their votes, then that they are past.
func (c *coordinated) missing(self uint16) (parties []uint16) {
	for _, p := range c.parties {
		if p != self && (c.decided && !c.past[p] || !c.decided && c.votes[p] == nil) {
			parties = append(parties, p)
		}
	}
	return parties
}

// tellParties tells all replicas of the other parties.
func (r *Replica) tellParties(c *coordinated) {
	h := heard{past: c.decided}
	if !c.decided || ask.Outcome(c.vote[0]) != ask.Answered {
		h.vote = c.vote // who has not decided needs it; a refusal is decided at once
	}
	message := appendVote(nil, r.cfg.Partition, c.at, h)
	r.saying += len(message)
	for _, p := range c.parties {
		if p == r.cfg.Partition {
			continue
		}
		for _, to := range r.members(p) {
			r.tell(to, message)
		}
	}
}

// ask asks the next replica of each party that is missing.
func (r *Replica) ask(c *coordinated, missing []uint16) {
	message := ask.AppendPosition(varint.AppendUint([]byte{byte(messageAsk)}, r.cfg.Partition), c.at)
	for _, p := range missing {
		if members := r.members(p); len(members) > 0 {
			r.asks++
			r.tell(members[(r.asks+uint64(r.cfg.Index))%uint64(len(members))], message)
		}
	}
}

// pursueNow asks for a step at once, pursueBy no later than at a time.
func (r *Replica) pursueNow() { r.pursueAt = max(r.now.Mono, 1) }

func (r *Replica) pursueBy(at time.Duration) { r.pursueAt = earliest(r.pursueAt, max(at, 1)) }

// pursue does what this replica has to do for commands of several partitions.
func (r *Replica) pursue() {
	r.pursueAt = 0
	leads := r.cores.local.Leads()
	r.pursueRelays(leads)
	r.pursueCommands(leads)
	r.pursuePosts(leads)
	r.pursueReach()
	r.pursueReplacements()
}
