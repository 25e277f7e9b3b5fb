package replica

import (
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// pending is a proposal of this replica that was not delivered yet.
type pending struct {
	tokens []uint64 // who waits for its outcome
	update updateKey
}

type updateKey struct {
	session, seq uint64
	client       string // who asks: others that name the session do not get into its way
}

// update answers a repeated update from the session, joins one that is on its
// way, or multicasts it.
func (r *Replica) update(call turn.Call, q ask.Request, out *turn.Output) {
	key := updateKey{q.Session, q.Seq, call.From.Owner()}
	s := r.sessions[q.Session]
	if s != nil {
		if !s.admits(call.From) {
			out.Replies = append(out.Replies, r.reply(call.Token, ask.UnknownSession, nil))
			return
		}
		if answer, ok := s.answers[q.Seq]; ok {
			out.Replies = append(out.Replies, r.reply(call.Token, ask.Answered, answer))
			return
		}
	}
	if p := r.byUpdate[key]; p != nil {
		p.tokens = append(p.tokens, call.Token)
		return
	}
	waiting := waitingUpdate{call: call, key: key, query: q, since: r.now.Mono}
	switch c := r.undecided(key); {
	case c != nil && (s != nil || call.From == nil):
		c.tokens = append(c.tokens, call.Token)
	case r.decidedUpTo().Compare(q.Vector.Of(r.cfg.Partition).Cross) < 0 && len(r.behind) >= r.cfg.MaxPending:
		out.Replies = append(out.Replies, r.reply(call.Token, ask.Overloaded, nil))
	case r.decidedUpTo().Compare(q.Vector.Of(r.cfg.Partition).Cross) < 0:
		r.behind = append(r.behind, waiting)
	case len(q.Dest) == 0:
		r.propose(call, key, out)
	case !slices.Contains(q.Dest, r.cfg.Partition):
		r.refuse(call.Token, fmt.Errorf("update of partitions %v: partition %d is asked, and is none of them", q.Dest, r.cfg.Partition), out)
	case len(r.crossing)+len(r.outside) >= r.cfg.MaxPending:
		out.Replies = append(out.Replies, r.reply(call.Token, ask.Overloaded, nil))
	default:
		r.outside = append(r.outside, waiting)
	}
}

// waitingUpdate is an update that is not proposed yet.
type waitingUpdate struct {
	call  turn.Call
	key   updateKey
	query ask.Request
	since time.Duration
}

// resume proposes updates whose clients have seen commands of several partitions that are now decided here: an update comes
// after what its client has seen. (All else that the client has seen of this partition is before it in the order anyway.)
func (r *Replica) resume(out *turn.Output) {
	if len(r.behind) == 0 {
		return
	}
	waiting := r.behind
	r.behind = nil
	for i := range waiting {
		r.update(waiting[i].call, waiting[i].query, out)
	}
}

// withdraw drops what was not proposed yet and nobody waits for: who was told that it failed must not see it happen.
func (r *Replica) withdraw(tokens []uint64) {
	if len(tokens) == 0 {
		return
	}
	update := func(w waitingUpdate) bool { return slices.Contains(tokens, w.call.Token) }
	r.outside, r.behind = slices.DeleteFunc(r.outside, update), slices.DeleteFunc(r.behind, update)
	query := func(p parked) bool { return slices.Contains(tokens, p.token) }
	r.parked, r.fresh, r.fenced = slices.DeleteFunc(r.parked, query), slices.DeleteFunc(r.fresh, query), slices.DeleteFunc(r.fenced, query)
}

// proposeCommand multicasts an update of several partitions to them.
func (r *Replica) proposeCommand(call turn.Call, key updateKey, q *ask.Request) {
	if p := r.byUpdate[key]; p != nil {
		p.tokens = append(p.tokens, call.Token)
		return
	}
	p := &pending{tokens: []uint64{call.Token}, update: key}
	r.crossing[r.send(q.Dest, envelope{Kind: envelopeCommand, From: r.cfg.Partition, Request: call.Data, Client: call.From})] = p
	r.byUpdate[key] = p
}

// forgetPending drops a proposal that was delivered.
func (r *Replica) forgetPending(id multicast.MessageID, p *pending, from map[multicast.MessageID]*pending) {
	delete(from, id)
	if r.byUpdate[p.update] == p {
		delete(r.byUpdate, p.update)
	}
}

// propose multicasts a request to the partition's group.
func (r *Replica) propose(call turn.Call, key updateKey, out *turn.Output) {
	if len(r.pending) >= r.cfg.MaxPending {
		out.Replies = append(out.Replies, r.reply(call.Token, ask.Overloaded, nil))
		return
	}
	p := &pending{tokens: []uint64{call.Token}, update: key}
	r.pending[r.multicast(envelope{Kind: envelopeRequest, Request: call.Data, Client: call.From})] = p
	if key != (updateKey{}) {
		r.byUpdate[key] = p
	}
}

// multicast hands an envelope to the core in this step.
func (r *Replica) multicast(e envelope) multicast.MessageID {
	r.seq++
	e.Time = posix.Time(r.now.Wall)
	m := multicast.Message{
		ID:      multicast.MessageID{Sender: r.cfg.Self, Seq: r.seq},
		Dest:    []multicast.GroupID{multicast.GroupID(r.cfg.Partition)},
		Payload: e.encode(),
	}
	r.cores.localIn.Proposed = append(r.cores.localIn.Proposed, m)
	return m.ID
}
