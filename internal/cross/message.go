package cross

import (
	"slices"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/session"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Replicas of different partitions send each other messages. A message is a hint that stored state backs: it
// can be lost, repeated and delayed. Malformed messages are dropped.

type messageKind uint8

// The kinds of messages. Their numbers never change.
const (
	messageVote    messageKind = 1 + iota // to the coordinator: the ballot of a party; it may ask for the outcome
	messageOutcome                        // from the coordinator
	messageConfirm                        // to the coordinator: the outcome is ordered
	messageAsk                            // from the coordinator: for a ballot
	messagePing                           // are you in reach?
	messagePong
	messagePosts   // posts of a partition
	messageReceipt // posts are executed
)

// name names a command in a message, so that a receiver that does not know the command can tell whether it
// has ended.
type name struct {
	id      multicast.MessageID
	at      multicast.Position
	parties []uint16
	update  session.Update
	from    uint16 // the partition of the sender
}

func (x *command) name(from uint16) name {
	return name{id: x.id, at: x.at, parties: x.parties, update: x.update, from: from}
}

func appendName(b []byte, n name) []byte {
	b = varint.AppendUint(ask.AppendPosition(b, n.at), n.from)
	return varint.AppendUint(varint.AppendUint(appendParties(b, n.parties), n.update.Session), n.update.Seq)
}

func readName(r *varint.Reader) name {
	n := name{at: ask.ReadPosition(r), from: r.Uint16(), parties: readParties(r)}
	n.update = session.Update{Session: r.Uint64(), Seq: r.Uint64()}
	n.id = n.at.ID
	return n
}

// earlyBallots are votes that arrive before the command is relayed here. Beyond the bounds all are dropped:
// the coordinator asks for them.
type earlyBallots struct {
	byID  map[multicast.MessageID]map[uint16]ballot
	bytes int
}

const (
	maxEarly      = 1024
	maxEarlyBytes = 32 << 20
)

func (e *earlyBallots) keep(n *name, b ballot) {
	if len(e.byID) >= maxEarly || e.bytes+len(b.vote) > maxEarlyBytes {
		clear(e.byID)
		e.bytes = 0
	}
	if e.byID[n.id] == nil {
		e.byID[n.id] = map[uint16]ballot{}
	}
	e.bytes += len(b.vote) - len(e.byID[n.id][n.from].vote)
	e.byID[n.id][n.from] = b
}

func (e *earlyBallots) take(id multicast.MessageID) map[uint16]ballot {
	all := e.byID[id]
	for _, b := range all {
		e.bytes -= len(b.vote)
	}
	delete(e.byID, id)
	return all
}

// Receive takes a message of another replica.
func (c *Commands) Receive(from multicast.ProcessID, section []byte) {
	r := varint.NewReader(section)
	switch messageKind(r.Uint8()) {
	case messagePing:
		c.orders.Send(from, []byte{byte(messagePong)})
	case messageVote:
		n, asks, b := readName(r), r.Uint(1) != 0, readBallot(r)
		if r.Done() == nil && c.isParty(&n) {
			c.receiveVote(from, &n, asks, b)
		}
	case messageOutcome:
		n, o := readName(r), readOutcome(r)
		if r.Done() == nil && o.id == n.id && c.isParty(&n) {
			c.receiveOutcome(from, &n, &o)
		}
	case messageConfirm:
		x := readConfirmation(r)
		if r.Done() == nil && x.from != c.cfg.Partition {
			c.receiveConfirmation(&x)
		}
	case messageAsk:
		n := readName(r)
		if x := c.byID[n.id]; r.Done() == nil && x != nil && x.coordinator == n.from {
			c.sendVote(x, []multicast.ProcessID{from})
		}
	case messagePosts:
		p := readPosts(r)
		if r.Done() == nil && p.from != c.cfg.Partition && int(p.from) < len(c.vector) {
			c.receivePosts(from, &p)
		}
	case messageReceipt:
		x := readReceipt(r)
		if r.Done() == nil && x.from != c.cfg.Partition {
			c.receiveReceipt(x)
		}
	}
}

// isParty reports whether a named command is one of this partition and of the sender's.
func (c *Commands) isParty(n *name) bool {
	return n.from != c.cfg.Partition && slices.Contains(n.parties, n.from) && slices.Contains(n.parties, c.cfg.Partition)
}

// hasEnded reports whether a command that is not listed here was relayed, and so has ended.
func (c *Commands) hasEnded(n *name) bool {
	return n.at.Compare(c.relays.executed.Of(c.orders.Class(n.parties, n.id))) <= 0
}

// receiveVote takes the ballot of a party, at the coordinator.
func (c *Commands) receiveVote(from multicast.ProcessID, n *name, asks bool, b ballot) {
	x := c.byID[n.id]
	switch {
	case x != nil && x.isUndecided():
		if b.kind != noBallot {
			x.received[n.from] = b.clone()
			c.hurry()
		}
	case x != nil:
		c.sendOutcome(x, []multicast.ProcessID{from})
	case c.hasEnded(n):
	case asks && (c.tombstones[n.id] && c.isSealed() || c.sessions.IsSettled(n.update) && c.isUpToDate()):
		c.orders.Send(from, outcomeMessage(n.answer(c.cfg.Partition), &outcome{id: n.id, vector: c.sealed.vector}))
	case asks && c.tombstones[n.id]:
	case asks && c.orders.Leads() && !c.isQueued(n) && !c.orders.Pending(c.tombstoning[n.id]):
		id := c.proposeEntry(EntryAbort, appendName(nil, *n))
		clear(c.tombstoning)
		c.tombstoning[n.id] = id
	case b.kind != noBallot:
		c.early.keep(n, b.clone())
	}
}

// answer names the same command in a message of another partition.
func (n *name) answer(from uint16) name {
	a := *n
	a.from = from
	return a
}

// isQueued reports whether a command is delivered, and waits for its relay.
func (c *Commands) isQueued(n *name) bool {
	for _, q := range c.relays.queues {
		for i := range q.waiting {
			if q.waiting[i].relay.at.ID == n.id {
				return true
			}
		}
	}
	return false
}

// receiveOutcome takes the decision of the coordinator.
func (c *Commands) receiveOutcome(from multicast.ProcessID, n *name, o *outcome) {
	x := c.byID[n.id]
	switch {
	case x != nil && x.coordinator == n.from:
		x.outcome = o.clone()
		c.hurry()
	case x == nil && c.hasEnded(n):
		c.sendConfirmation(n.id, []multicast.ProcessID{from})
	}
}

// receiveConfirmation takes the report of a party that it has ordered the outcome.
func (c *Commands) receiveConfirmation(x *confirmation) {
	if known := c.byID[x.id]; known != nil && !known.isUndecided() && slices.Contains(known.parties, x.from) {
		known.confirmed[x.from] = x.seen
		c.hurry()
	}
}
