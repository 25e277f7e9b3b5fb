package session

import (
	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/varint"
)

// Verdict is the decision on an update that a client sends or that was ordered.
type Verdict struct {
	Execute bool        // the update has not been executed
	Outcome ask.Outcome // otherwise the reply: its outcome
	Answer  []byte      // and its result
}

// Admit decides whether an update is to be executed (S1).
func (s *Sessions) Admit(u Update, client *ask.Client) Verdict {
	x := s.open[u.Session]
	if x == nil || !x.admits(client) {
		return Verdict{Outcome: ask.UnknownSession}
	}
	if answer, ok := x.answers[u.Seq]; ok {
		return Verdict{Outcome: ask.Answered, Answer: answer}
	}
	if u.Seq <= x.received {
		return Verdict{Outcome: ask.Refused, Answer: []byte("update: the client has confirmed the answer already")}
	}
	return Verdict{Execute: true}
}

// Record keeps the answer to an update of an open session, and forgets answers that the client has received
// (S2). If the session has ended, nothing is kept.
func (s *Sessions) Record(u Update, answer []byte) {
	x := s.open[u.Session]
	if x == nil {
		return
	}
	for seq := range x.answers {
		if seq <= u.Done {
			delete(x.answers, seq)
			s.keys.Delete(answerKey(x.id, seq))
		}
	}
	x.received = max(x.received, u.Done)
	x.answers[u.Seq] = answer
	s.keys.Set(answerKey(x.id, u.Seq), varint.AppendBytes(varint.AppendUint(nil, x.received), answer))
}

// IsOpen reports whether an update can still be executed: its session is open, and the update has no answer.
func (s *Sessions) IsOpen(u Update) bool {
	x := s.open[u.Session]
	if x == nil || u.Seq <= x.received {
		return false
	}
	_, answered := x.answers[u.Seq]
	return !answered
}

// IsOwner reports whether a session is open, and belongs to a client of the given name. A process of the
// cluster, which has the empty name, may use every session.
func (s *Sessions) IsOwner(id uint64, name string) bool {
	x := s.open[id]
	return x != nil && (name == "" || x.owner == name)
}

// IsSettled reports whether an update is certain not to be executed any more: it was answered, or its session
// has ended. A session that is not known at all may still be on its way to this replica.
func (s *Sessions) IsSettled(u Update) bool {
	if _, ended := s.ended[u.Session]; ended {
		return true
	}
	return s.open[u.Session] != nil && !s.IsOpen(u)
}
