package replica

import (
	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/cross"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/reads"
	"github.com/globalfs/globalfs/internal/turn"
)

// readState is the state that queries wait for.
type readState struct {
	*cross.Commands
	delegations *delegations
}

// HiddenBy implements reads.State.
func (s readState) HiddenBy(q *reads.Query) posix.Ino {
	if held := s.delegations.heldFor(q); len(held) > 0 {
		return s.delegations.Holders(held)[0]
	}
	return 0
}

// query executes a query, or keeps it until this replica has caught up with its reader (T 3.4.1).
func (r *Replica) query(q reads.Query, out *turn.Output) {
	if r.queries.Len() >= r.cfg.MaxPending || q.Call.From.Bounds() != nil && r.queries.Len() >= r.shareOfQueries() && r.queries.Of(q.Call.From.Owner()) >= r.shareOfQueries() {
		out.Replies = append(out.Replies, r.reply(q.Call.Token, ask.Overloaded, nil))
		return
	}
	if r.queries.Add(q, r.now.Mono) {
		out.Replies = r.execute(&q, out.Replies)
	}
}

// execute answers a query. It gives no answer if the store has failed: the driver then stops the replica.
func (r *Replica) execute(q *reads.Query, replies []turn.Call) []turn.Call {
	if r.queries.IsUnseen(q) {
		return append(replies, r.reply(q.Call.Token, ask.Unseen, nil))
	}
	if q.Request.Kind == ask.Persist {
		r.persists = append(r.persists, r.replyTo(&q.Request, q.Call.Token, ask.Answered, nil))
		return replies
	}
	result := r.delegations.query(r.holdBlocks(&q.Command))
	if q.Command.Op == meta.OpGarbage && result.Code == posix.OK {
		r.garbage(&q.Command, &result)
	}
	if q.Command.Op == meta.OpExtents && q.Command.Flags&meta.ReturnRights != 0 && q.Call.From.Bounds() != nil && r.cfg.Rights != nil {
		r.grant(q.Call.From.Owner(), result.Extents)
	}
	if r.keys.Err() != nil || r.lockWaits.keeps(q, &result, r.now.Mono) {
		return replies
	}
	return append(replies, r.replyTo(&q.Request, q.Call.Token, ask.Answered, result.Append(nil)))
}

// grant gives a client the right to read the blocks that an answer names.
func (r *Replica) grant(client string, extents []meta.Extent) {
	for i := range extents {
		if e := &extents[i]; e.Data == nil {
			e.Right = r.cfg.Rights.Grant(client, e.Block)
		}
	}
}

// answerReady executes the queries that waited for a state that the replica now has.
func (r *Replica) answerReady(replies []turn.Call) []turn.Call {
	for _, q := range r.queries.Ready() {
		replies = r.execute(q, replies)
	}
	return replies
}
