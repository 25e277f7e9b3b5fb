package replica

import (
	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/turn"
)

// parked is a query of a client that has seen more than this replica.
type parked struct {
	token uint64
	until ask.Seen
	query ask.Request
	from  *ask.Client
}

// closed reports whether all is decided here that those knew who did what was executed here.
func (r *Replica) closed() bool {
	return r.vector[r.cfg.Partition].Cross.Compare(r.decidedUpTo()) <= 0
}

// seen is what queries can be answered with now.
func (r *Replica) seen() ask.Seen { return ask.Seen{Count: r.counter(), Cross: r.decidedUpTo()} }

// query executes a query, or parks it until this replica has caught up with the client (T 3.4.1).
func (r *Replica) query(call turn.Call, q ask.Request, out *turn.Output) {
	token, until := call.Token, q.Vector.Of(r.cfg.Partition)
	covers := r.seen().Covers(until) && r.closed()
	switch {
	case (q.Fresh || !covers) && len(r.parked)+len(r.fresh)+len(r.fenced) >= r.cfg.MaxPending:
		out.Replies = append(out.Replies, r.reply(token, ask.Overloaded, nil))
		return
	case q.Fresh:
		r.fresh = append(r.fresh, parked{token: token, until: until, query: q, from: call.From})
		return
	case !covers:
		r.parked = append(r.parked, parked{token: token, until: until, query: q, from: call.From})
		return
	}
	if answer, ok := r.execute(token, &q, call.From); ok {
		out.Replies = append(out.Replies, answer)
	}
}

// execute gives the answer to a query, or none if the store failed: then the
// driver stops the replica.
func (r *Replica) execute(token uint64, q *ask.Request, from *ask.Client) (turn.Call, bool) {
	c, err := meta.DecodeCommand(q.Command)
	invariant.Check(err == nil, "a query that was checked does not decode: %v", err)
	c.Session, c.Authority = q.Session, from.Bounds()
	result := r.machine.Query(&c)
	if c.Op == meta.OpGarbage && result.Code == posix.OK {
		r.garbage(&c, &result)
	}
	if r.keys.Err() != nil {
		return turn.Call{}, false
	}
	return r.reply(token, ask.Answered, result.Append(nil)), true
}

// unpark executes the queries that waited for what has now been applied.
func (r *Replica) unpark(replies []turn.Call) []turn.Call {
	if len(r.parked) == 0 {
		return replies
	}
	seen, waiting := r.seen(), r.parked[:0]
	for _, p := range r.parked {
		if !seen.Covers(p.until) || !r.closed() {
			waiting = append(waiting, p)
		} else if answer, ok := r.execute(p.token, &p.query, p.from); ok {
			replies = append(replies, answer)
		}
	}
	clear(r.parked[len(waiting):])
	r.parked = waiting
	return replies
}
