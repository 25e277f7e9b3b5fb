package cross

import (
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// maxSent bounds the bytes of votes that a step sends or orders, beside the last message: a frame and a
// record have their limits. The rest follows in the next steps.
const maxSent = 4 << 20

// maxForget bounds the commands that one FORGET names.
const maxForget = 256

// finished is a command whose outcome was ordered here, and that the coordinator is to be told of.
type finished struct {
	id          multicast.MessageID
	coordinator uint16
}

// pursueCommands brings each command on: the leader at once, another replica when nothing has happened for a
// while.
func (c *Commands) pursueCommands(leads bool) {
	c.sent = 0
	var forget []*command
	for _, x := range c.list {
		if c.sent >= maxSent {
			c.hurry()
			break
		}
		act, due := leads, false
		switch {
		case x.retryAt == 0 && leads:
			x.retryAt = c.now.Mono + repeatAfter
		case x.retryAt == 0:
			x.retryAt = c.patience()
		case c.now.Mono >= x.retryAt:
			act, due = true, true
			x.retryAt = c.now.Mono + repeatAfter + 4*stagger*time.Duration(c.cfg.Index)
		}
		c.wakeBy(x.retryAt)
		switch {
		case !act:
		case x.coordinator != c.cfg.Partition:
			c.pursueOutcome(x, due)
		case x.isUndecided():
			c.pursueDecision(x, due)
		case c.pursueConfirmations(x, due) && len(forget) < maxForget:
			forget = append(forget, x)
		}
	}
	c.proposeForget(forget)
	c.confirm(leads)
}

// pursueDecision works at the coordinator of an undecided command.
func (c *Commands) pursueDecision(x *command, due bool) {
	if c.orders.Pending(x.proposed) {
		return
	}
	missing, refused := c.ballots(x)
	patience := VotePatience << min(x.attempt, 1)
	late := c.now.Mono-x.since >= patience
	switch {
	case refused || late && (len(missing) > 0 || x.phase == waiting):
		x.proposed = c.proposeEntry(EntryAbort, appendName(nil, x.name(c.cfg.Partition)))
		return
	case x.phase == voted && len(missing) == 0:
		d := decision{id: x.id, ballots: make([]ballot, len(x.parties))}
		for i, p := range x.parties {
			d.ballots[i] = x.received[p]
		}
		body := d.encode()
		c.sent += len(body)
		x.proposed = c.proposeEntry(EntryDecide, body)
		return
	}
	if due {
		message := appendName([]byte{byte(messageAsk)}, x.name(c.cfg.Partition))
		for _, p := range missing {
			c.sendAll(c.orders.Members(p), message)
		}
	}
	c.wakeBy(x.since + patience)
}

// ballots returns the parties whose ballots the coordinator misses, and whether a party refuses.
func (c *Commands) ballots(x *command) (missing []uint16, refused bool) {
	for _, p := range x.parties {
		if p == c.cfg.Partition {
			continue
		}
		switch x.received[p].kind {
		case noBallot:
			missing = append(missing, p)
		case refusal:
			refused = true
		}
	}
	return missing, refused
}

// pursueConfirmations works at the coordinator of a decided command. It reports whether all parties have
// confirmed, and the command is to be forgotten.
func (c *Commands) pursueConfirmations(x *command, due bool) bool {
	var missing []uint16
	for _, p := range x.parties {
		if _, ok := x.confirmed[p]; !ok && p != c.cfg.Partition {
			missing = append(missing, p)
		}
	}
	if len(missing) == 0 {
		return !c.orders.Pending(x.proposed)
	}
	if !c.isSealed() {
		return false
	}
	for _, p := range missing {
		if !x.announced || due && c.inReachOrAsk([]uint16{p}) {
			c.sendOutcome(x, c.orders.Members(p))
		}
	}
	x.announced = true
	return false
}

// proposeForget has commands forgotten that all parties have confirmed.
func (c *Commands) proposeForget(all []*command) {
	if len(all) == 0 {
		return
	}
	var body []byte
	for _, x := range all {
		body = appendForgotten(body, x)
	}
	id := c.proposeEntry(EntryForget, body)
	for _, x := range all {
		x.proposed = id
	}
}

// pursueOutcome works at another party: it announces the ballot, and orders the outcome.
func (c *Commands) pursueOutcome(x *command, due bool) {
	switch {
	case c.orders.Pending(x.proposed):
	case x.outcome != nil:
		body := x.outcome.encode(nil)
		c.sent += len(body)
		x.proposed = c.proposeEntry(EntryOutcome, body)
	case !x.announced && x.phase != waiting:
		x.announced = true
		c.sendVote(x, c.orders.Members(x.coordinator))
	case due && c.now.Mono-x.since >= VotePatience:
		c.askOutcome(x)
	}
}

// sendVote sends the ballot of this party.
func (c *Commands) sendVote(x *command, to []multicast.ProcessID) {
	if x.vote != nil {
		message := appendName([]byte{byte(messageVote)}, x.name(c.cfg.Partition))
		c.sendAll(to, append(append(message, 0), x.vote...))
	}
}

// askOutcome asks the coordinator for its decision.
func (c *Commands) askOutcome(x *command) {
	message := appendName([]byte{byte(messageVote)}, x.name(c.cfg.Partition))
	c.sendAll(c.orders.Members(x.coordinator), appendBallot(append(message, 1), ballot{}))
}

// sendOutcome sends the decision of this coordinator.
func (c *Commands) sendOutcome(x *command, to []multicast.ProcessID) {
	if !c.isSealed() {
		return
	}
	o := outcome{id: x.id, commit: x.phase == committed, votes: x.votes, vector: c.sealed.vector}
	c.sendAll(to, outcomeMessage(x.name(c.cfg.Partition), &o))
}

func outcomeMessage(n name, o *outcome) []byte {
	return o.encode(appendName([]byte{byte(messageOutcome)}, n))
}

// confirm reports to other partitions that outcomes are ordered here, and posts executed. A partition that
// misses a report repeats its message.
func (c *Commands) confirm(leads bool) {
	for _, f := range c.confirmations {
		if leads {
			c.sendConfirmation(f.id, c.orders.Members(f.coordinator))
		}
	}
	c.confirmations = c.confirmations[:0]
	for _, x := range c.receipts {
		if leads {
			c.sendAll(c.orders.Members(x.from), appendReceipt([]byte{byte(messageReceipt)}, receipt{c.cfg.Partition, x.upTo}))
		}
	}
	c.receipts = c.receipts[:0]
}

func (c *Commands) sendConfirmation(id multicast.MessageID, to []multicast.ProcessID) {
	if !c.isSealed() {
		return
	}
	x := confirmation{id: id, from: c.cfg.Partition, seen: c.sealed.vector[c.cfg.Partition]}
	c.sendAll(to, appendConfirmation([]byte{byte(messageConfirm)}, x))
}

// sendAll sends a message to processes.
func (c *Commands) sendAll(to []multicast.ProcessID, message []byte) {
	for _, p := range to {
		c.orders.Send(p, message)
	}
	c.sent += len(message)
}

// forgotten names a command of which all parties have confirmed the outcome, with the entries of the parties
// for themselves.
type forgotten struct {
	id   multicast.MessageID
	seen []partySeen
}

type partySeen struct {
	partition uint16
	seen      ask.Seen
}

func appendForgotten(b []byte, x *command) []byte {
	b = varint.AppendUint(appendID(b, x.id), uint64(len(x.confirmed)))
	for _, p := range x.parties {
		if seen, ok := x.confirmed[p]; ok {
			b = seen.Append(varint.AppendUint(b, p))
		}
	}
	return b
}

func readForgotten(r *varint.Reader) forgotten {
	f := forgotten{id: readID(r)}
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		f.seen = append(f.seen, partySeen{partition: r.Uint16(), seen: ask.ReadSeen(r)})
	}
	return f
}
