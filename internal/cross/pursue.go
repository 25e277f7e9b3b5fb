package cross

import (
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/session"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// maxSent bounds the bytes of votes that a step sends or orders, beside the last message: a frame and a
// record have their limits. The rest follows in the next steps.
const maxSent = 4 << 20

// maxForget bounds the commands that one FORGET names.
const maxForget = 256

// finished is a command of another coordinator with an outcome that was ordered here. The coordinator waits
// for the confirmation.
type finished struct {
	id          multicast.MessageID
	coordinator uint16
}

// pursuit advances the commands, by proposals and by messages between the replicas of their parties. Its
// state is soft.
type pursuit struct {
	partition    uint16
	orders       *order.Orders
	sessions     *session.Sessions
	table        *table
	tombstones   *tombstones
	earlyBallots *earlyBallots
	relays       *relays
	vector       *vector
	gate         *gate
	reach        *reach
	timer        *timer

	ended []finished    // outcomes ordered since the last step
	sent  int           // bytes of votes in this step
	abort proposedAbort // the newest
}

// proposedAbort is the proposal of an ABORT for a command that is not relayed here: the entry stores a
// tombstone.
type proposedAbort struct {
	command, entry multicast.MessageID
}

// step advances each command: the leader at once, another replica when nothing has happened for a while.
func (s *pursuit) step(leads bool) {
	s.sent = 0
	var forget []*command
	for _, x := range s.table.all() {
		if s.sent >= maxSent {
			s.timer.hurry()
			break
		}
		act, due := leads, false
		switch {
		case x.retryAt == 0 && leads:
			x.retryAt = s.timer.time() + repeatAfter
		case x.retryAt == 0:
			x.retryAt = s.timer.patience()
		case s.timer.time() >= x.retryAt:
			act, due = true, true
			x.retryAt = s.timer.again()
		}
		s.timer.wakeBy(x.retryAt)
		switch {
		case !act:
		case x.coordinator != s.partition:
			s.pursueOutcome(x, due)
		case x.isUndecided():
			s.pursueDecision(x, due)
		case s.pursueConfirmations(x, due) && len(forget) < maxForget:
			forget = append(forget, x)
		}
	}
	s.proposeForget(forget)
	s.confirm(leads)
}

// pursueDecision runs at the coordinator of an undecided command. It proposes DECIDE when it has all votes,
// and ABORT after a refusal or when a vote does not come in time. Until then it asks for the missing votes.
func (s *pursuit) pursueDecision(x *command, due bool) {
	if s.orders.Pending(x.proposed) {
		return
	}
	missing, refused := s.ballots(x)
	patience := VotePatience << min(x.attempt, 1)
	late := s.timer.time()-x.since >= patience
	switch {
	case refused || late && (len(missing) > 0 || x.phase == waiting):
		x.proposed = s.gate.propose(EntryAbort, appendName(nil, x.name(s.partition)))
		return
	case x.phase == voted && len(missing) == 0:
		d := decision{id: x.id, ballots: make([]ballot, len(x.parties))}
		for i, p := range x.parties {
			d.ballots[i] = x.received[p]
		}
		body := d.encode()
		s.sent += len(body)
		x.proposed = s.gate.propose(EntryDecide, body)
		return
	}
	if due {
		message := appendName([]byte{byte(messageAsk)}, x.name(s.partition))
		for _, p := range missing {
			s.sendAll(s.orders.Members(p), message)
		}
	}
	s.timer.wakeBy(x.since + patience)
}

// ballots returns the parties with missing ballots, and whether a party refuses.
func (s *pursuit) ballots(x *command) (missing []uint16, refused bool) {
	for _, p := range x.parties {
		if p == s.partition {
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

// pursueConfirmations runs at the coordinator of a decided command. It sends the outcome to the parties that
// have not confirmed it, and reports whether all have: then the command can be forgotten.
func (s *pursuit) pursueConfirmations(x *command, due bool) bool {
	var missing []uint16
	for _, p := range x.parties {
		if _, ok := x.confirmed[p]; !ok && p != s.partition {
			missing = append(missing, p)
		}
	}
	if len(missing) == 0 {
		return !s.orders.Pending(x.proposed)
	}
	if !s.gate.isSealed() {
		return false
	}
	for _, p := range missing {
		if !x.announced || due && s.reach.pingSilent([]uint16{p}) {
			s.sendOutcome(x, s.orders.Members(p))
		}
	}
	x.announced = true
	return false
}

// proposeForget proposes FORGET for commands that all parties have confirmed.
func (s *pursuit) proposeForget(all []*command) {
	if len(all) == 0 {
		return
	}
	var body []byte
	for _, x := range all {
		body = appendForgotten(body, x)
	}
	id := s.gate.propose(EntryForget, body)
	for _, x := range all {
		x.proposed = id
	}
}

// pursueOutcome runs at a party that does not coordinate the command. It sends the vote, asks for the outcome
// when none comes in time, and orders the outcome.
func (s *pursuit) pursueOutcome(x *command, due bool) {
	switch {
	case s.orders.Pending(x.proposed):
	case x.outcome != nil:
		body := x.outcome.encode(nil)
		s.sent += len(body)
		x.proposed = s.gate.propose(EntryOutcome, body)
	case !x.announced && x.phase != waiting:
		x.announced = true
		s.sendVote(x, s.orders.Members(x.coordinator))
	case due && s.timer.time()-x.since >= VotePatience:
		s.askOutcome(x)
	}
}

// sendVote sends the ballot of this party.
func (s *pursuit) sendVote(x *command, to []multicast.ProcessID) {
	if x.vote != nil {
		message := appendName([]byte{byte(messageVote)}, x.name(s.partition))
		s.sendAll(to, append(append(message, 0), x.vote...))
	}
}

// askOutcome asks the coordinator for its decision.
func (s *pursuit) askOutcome(x *command) {
	message := appendName([]byte{byte(messageVote)}, x.name(s.partition))
	s.sendAll(s.orders.Members(x.coordinator), appendBallot(append(message, 1), ballot{}))
}

// sendOutcome sends the decision of this coordinator.
func (s *pursuit) sendOutcome(x *command, to []multicast.ProcessID) {
	if !s.gate.isSealed() {
		return
	}
	o := outcome{id: x.id, commit: x.phase == committed, votes: x.votes, vector: s.gate.sealed()}
	s.sendAll(to, outcomeMessage(x.name(s.partition), &o))
}

func outcomeMessage(n name, o *outcome) []byte {
	return o.encode(appendName([]byte{byte(messageOutcome)}, n))
}

// confirm reports to other partitions that outcomes are ordered here. A partition that misses a report
// repeats its message.
func (s *pursuit) confirm(leads bool) {
	for _, f := range s.ended {
		if leads {
			s.sendConfirmation(f.id, s.orders.Members(f.coordinator))
		}
	}
	s.ended = s.ended[:0]
}

// concluded records that the outcome of a command was ordered here.
func (s *pursuit) concluded(x *command) {
	s.ended = append(s.ended, finished{id: x.id, coordinator: x.coordinator})
}

func (s *pursuit) sendConfirmation(id multicast.MessageID, to []multicast.ProcessID) {
	if !s.gate.isSealed() {
		return
	}
	x := confirmation{id: id, from: s.partition, entry: s.gate.sealed()[s.partition]}
	s.sendAll(to, appendConfirmation([]byte{byte(messageConfirm)}, x))
}

// sendAll sends a message to processes, and counts it.
func (s *pursuit) sendAll(to []multicast.ProcessID, message []byte) {
	sendAll(s.orders, to, message)
	s.sent += len(message)
}
