package cross

import (
	"slices"

	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Receive takes a message of another replica.
func (c *Commands) Receive(from multicast.ProcessID, section []byte) {
	r := varint.NewReader(section)
	switch messageKind(r.Uint8()) {
	case messagePing:
		c.orders.Send(from, []byte{byte(messagePong)})
	case messageVote:
		n, asks, b := readName(r), r.Uint(1) != 0, readBallot(r)
		if r.Done() == nil && c.pursuit.isParty(&n) {
			c.pursuit.receiveVote(from, &n, asks, b)
		}
	case messageOutcome:
		n, o := readName(r), readOutcome(r)
		if r.Done() == nil && o.id == n.id && c.pursuit.isParty(&n) {
			c.pursuit.receiveOutcome(from, &n, &o)
		}
	case messageConfirm:
		x := readConfirmation(r)
		if r.Done() == nil {
			c.pursuit.receiveConfirmation(&x)
		}
	case messageAsk:
		n := readName(r)
		if r.Done() == nil {
			c.pursuit.receiveAsk(from, &n)
		}
	case messagePosts:
		p := readPosts(r)
		if r.Done() == nil {
			c.posting.receive(from, &p)
		}
	case messageReceipt:
		x := readReceipt(r)
		if r.Done() == nil {
			c.posting.receiveReceipt(x)
		}
	}
}

// isParty reports whether a named command is one of this partition and of the sender's.
func (s *pursuit) isParty(n *name) bool {
	return n.from != s.partition && slices.Contains(n.parties, n.from) && slices.Contains(n.parties, s.partition)
}

// receiveVote takes, at the coordinator, the ballot of a party or its question for the outcome (asks).
func (s *pursuit) receiveVote(from multicast.ProcessID, n *name, asks bool, b ballot) {
	x := s.table.find(n.id)
	switch {
	case x != nil && x.isUndecided():
		if b.kind != noBallot {
			x.received[n.from] = b.clone()
			s.timer.hurry()
		}
	case x != nil: // decided
		s.sendOutcome(x, []multicast.ProcessID{from})
	case s.relays.hasEnded(n): // all parties have confirmed: the message is a late copy
	// The other cases are of a command that is not relayed here.
	case asks && (s.tombstones.has(n.id) && s.gate.isSealed() || s.sessions.IsSettled(n.update) && s.gate.isUpToDate(s.vector.Count())):
		s.orders.Send(from, outcomeMessage(n.answer(s.partition), &outcome{id: n.id, vector: s.gate.sealed()}))
	case asks && s.tombstones.has(n.id): // answered when the tombstone is sealed, which isSealed has requested
	case asks && s.orders.Leads() && !s.relays.isQueued(n) && !s.isAborting(n.id):
		s.abort = proposedAbort{command: n.id, entry: s.gate.propose(EntryAbort, appendName(nil, *n))}
	case b.kind != noBallot:
		s.earlyBallots.keep(n, b.clone())
	}
}

// isAborting reports whether an ABORT of this replica for a command without a relay is on its way.
func (s *pursuit) isAborting(id multicast.MessageID) bool {
	return s.abort.command == id && s.orders.Pending(s.abort.entry)
}

// receiveAsk takes the coordinator's request for the ballot of this party.
func (s *pursuit) receiveAsk(from multicast.ProcessID, n *name) {
	if x := s.table.find(n.id); x != nil && x.coordinator == n.from {
		s.sendVote(x, []multicast.ProcessID{from})
	}
}

// receiveOutcome takes the decision of the coordinator.
func (s *pursuit) receiveOutcome(from multicast.ProcessID, n *name, o *outcome) {
	x := s.table.find(n.id)
	switch {
	case x != nil && x.coordinator == n.from:
		x.outcome = o.clone()
		s.timer.hurry()
	case x == nil && s.relays.hasEnded(n):
		s.sendConfirmation(n.id, []multicast.ProcessID{from})
	}
}

// receiveConfirmation takes the report of a party that it has ordered the outcome.
func (s *pursuit) receiveConfirmation(x *confirmation) {
	if x.from == s.partition {
		return
	}
	if known := s.table.find(x.id); known != nil && !known.isUndecided() && slices.Contains(known.parties, x.from) {
		known.confirmed[x.from] = x.entry
		s.timer.hurry()
	}
}
