package replica

import (
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/session"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// update is a request that must be ordered: an update, or a change of a session.
type update struct {
	call    turn.Call // the first call for the update
	tokens  []uint64  // tokens of all calls for the update whose clients wait
	query   ask.Request
	command meta.Command        // the command of an update; empty for a change of a session
	since   time.Duration       // the time of its arrival
	grows   int                 // number of inodes by which it increases those that its session holds
	doubted bool                // it has waited for the entries that the client claims to have seen
	ending  multicast.MessageID // the entry that ends the update after its deadline
}

// name returns the name of an update; the zero session.Name for a change of a session.
func (u *update) name() session.Name {
	if u.query.Kind != ask.Update {
		return session.Name{}
	}
	return u.session().Name(u.call.From)
}

func (u *update) session() session.Update {
	return session.Update{Session: u.query.Session, Seq: u.query.Seq, Done: u.query.Done}
}

// updates are the updates of one partition that this replica has received from clients and not answered.
type updates struct {
	proposed map[multicast.MessageID]*update // proposed and not delivered
	byName   map[session.Name]*update        // the updates in proposed, by name
	blocked  []*update                       // not proposed: they wait for a command of several partitions, or for a directory
	shares   map[string]share                // of bound clients in proposed
	locks    lockRooms                       // of sessions of bound clients
	resume   bool                            // the next step must try blocked updates again
	wakeAt   time.Duration                   // time of the next work on blocked updates; 0: none
}

func newUpdates() updates {
	return updates{proposed: map[multicast.MessageID]*update{}, byName: map[session.Name]*update{}, shares: map[string]share{}, locks: lockRooms{}}
}

// has reports whether an earlier copy of an update is under way.
func (s *updates) has(name session.Name) bool {
	return s.byName[name] != nil || slices.ContainsFunc(s.blocked, func(u *update) bool { return u.name() == name })
}

// delivered removes and returns the update of a delivered message; nil: another replica has proposed it.
func (s *updates) delivered(id multicast.MessageID) *update {
	u := s.proposed[id]
	if u != nil {
		delete(s.proposed, id)
		s.charge(u, -1)
		if s.byName[u.name()] == u {
			delete(s.byName, u.name())
		}
	}
	return u
}

// update answers a repeated update from its session, adds the call to an update that is under way, or
// proposes it.
func (r *Replica) update(u update, out *turn.Output) {
	if r.sessions.Has(u.query.Session, nil) {
		if v := r.sessions.Admit(u.session(), u.call.From); !v.Execute {
			out.Replies = r.replyAll(u.tokens, v.Outcome, v.Answer, out.Replies)
			return
		}
	}
	if first := r.updates.byName[u.name()]; first != nil {
		first.tokens = append(first.tokens, u.tokens...)
		return
	}
	switch {
	case len(u.query.Dest) == 0 && r.isBlocked(&u):
		r.block(&u, out)
	case len(u.query.Dest) == 0:
		r.propose(u, out)
	case !slices.Contains(u.query.Dest, r.cfg.Partition):
		text := fmt.Sprintf("update of partitions %v: partition %d is asked, and is none of them", u.query.Dest, r.cfg.Partition)
		out.Replies = append(out.Replies, r.reply(u.call.Token, ask.Refused, []byte(text)))
	case slices.ContainsFunc(u.query.Dest, func(p uint16) bool { return len(r.orders.Members(p)) == 0 }):
		text := fmt.Sprintf("update of partitions %v: the cluster does not have all of them", u.query.Dest)
		out.Replies = append(out.Replies, r.reply(u.call.Token, ask.Refused, []byte(text)))
	default:
		r.cross.Submit(u.call, u.query, u.command)
	}
}

// isBlocked reports whether an update of one partition must wait before it is proposed, for one of these
// reasons:
//
//   - Its client has seen the commit of a command that is undecided here and touches its objects.
//   - A command of several partitions holds its objects.
//   - Its client recalls too many directories.
func (r *Replica) isBlocked(u *update) bool {
	seen := u.query.Reader(r.cfg.Partition)
	return seen.LastOpen() > r.cross.Count() && r.now.Mono-u.since < ask.DoubtAfter || r.cross.Awaits(seen, &u.command) || r.machine.Blocked(&u.command) ||
		r.delegations.isRecalled(&u.command) || r.delegations.delays(&u.command, u.call.From)
}

// block keeps an update until it is not blocked any more, or until its deadline.
func (r *Replica) block(u *update, out *turn.Output) {
	if len(r.updates.blocked) >= r.cfg.MaxPending || r.updates.blocks(u.call.From.Bounds(), u.call.From.Owner()) >= r.shareOfBlocked() {
		out.Replies = r.replyAll(u.tokens, ask.Overloaded, nil, out.Replies)
		return
	}
	for _, first := range r.updates.blocked {
		if first.name() == u.name() {
			first.tokens = append(first.tokens, u.tokens...)
			return
		}
	}
	r.updates.blocked = append(r.updates.blocked, u)
}

// resume tries to propose the blocked updates.
func (r *Replica) resume(out *turn.Output) {
	if !r.updates.resume {
		return
	}
	r.updates.resume = false
	waiting := r.updates.blocked
	r.updates.blocked = nil
	for _, u := range waiting {
		r.update(*u, out)
	}
}

// endBlocked proposes the end of blocked updates after their deadline. Only an ordered end is final, because
// other replicas may have the same updates.
func (r *Replica) endBlocked(out *turn.Output) {
	r.updates.wakeAt = 0
	r.updates.blocked = slices.DeleteFunc(r.updates.blocked, func(u *update) bool {
		// Its end was ordered and did not answer it, because its session is not open.
		over := u.ending != (multicast.MessageID{}) && !r.orders.Pending(u.ending) && !r.updates.resume
		if over {
			out.Replies = r.replyAll(u.tokens, ask.UnknownSession, nil, out.Replies)
		}
		return over
	})
	for _, u := range r.updates.blocked {
		if seen := u.query.Reader(r.cfg.Partition); seen.LastOpen() > r.cross.Count() {
			if doubt := u.since + ask.DoubtAfter; r.now.Mono < doubt {
				r.updates.wakeAt = order.Earliest(r.updates.wakeAt, doubt)
			} else if !u.doubted {
				u.doubted, r.updates.resume = true, true
			}
		}
		if u.query.Patience == 0 {
			continue
		}
		if over := u.since + u.query.Patience; r.now.Mono < over {
			r.updates.wakeAt = order.Earliest(r.updates.wakeAt, over)
		} else if !r.orders.Pending(u.ending) {
			u.ending = r.cross.Abandon(u.name())
		}
	}
}

// withdraw drops unproposed updates whose clients have all given up.
func (r *Replica) withdraw(tokens []uint64) {
	if len(tokens) == 0 {
		return
	}
	r.cross.Withdraw(tokens)
	r.queries.Withdraw(tokens)
	r.watches.withdraw(tokens)
	r.lockWaits.withdraw(tokens)
	r.tickets.withdraw(tokens)
	gone := func(token uint64) bool { return slices.Contains(tokens, token) }
	for _, u := range r.updates.proposed {
		u.tokens = slices.DeleteFunc(u.tokens, gone)
	}
	r.updates.blocked = slices.DeleteFunc(r.updates.blocked, func(u *update) bool {
		u.tokens = slices.DeleteFunc(u.tokens, gone)
		return len(u.tokens) == 0
	})
}

// propose proposes an update, unless it exceeds a bound.
func (r *Replica) propose(u update, out *turn.Output) {
	if len(r.updates.proposed) >= r.cfg.MaxPending || r.updates.shares[u.call.From.Owner()].proposed >= r.shareOfProposed() {
		out.Replies = r.replyAll(u.tokens, ask.Overloaded, nil, out.Replies)
		return
	}
	if err := r.quota(&u); err != nil {
		out.Replies = r.replyAll(u.tokens, ask.Refused, []byte(err.Error()), out.Replies)
		return
	}
	e := order.Entry{Kind: entryRequest, Body: encodeRequest(u.call), Durable: wantsDisk(&u.command)}
	r.updates.proposed[r.orders.Propose(e)] = &u
	r.updates.charge(&u, 1)
	if u.name() != (session.Name{}) {
		r.updates.byName[u.name()] = &u
	}
}
