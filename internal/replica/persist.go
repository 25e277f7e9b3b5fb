package replica

import "github.com/globalfs/globalfs/internal/turn"

// A request of kind ask.Persist is a barrier for the disk of this replica. It waits as a query does until the
// replica has executed all that the client has seen. What was executed was recorded in the log by earlier
// steps, or is in the store, which is on disk before the log forgets it. So a sync of the log at the next
// step covers it. A client that has this answer of a majority of the replicas knows that a loss of power of
// all of them keeps what it has seen: each later epoch begins with the log of one of that majority at least.
//
// An answer waits for no other replica and orders nothing.

// persist has the log synced if somebody waits for that. It comes after the step of the orders.
func (r *Replica) persist(out *turn.Output) {
	if len(r.persists) == 0 {
		return
	}
	out.Sync = true
	out.Persisted = append(out.Persisted, r.persists...)
	clear(r.persists)
	r.persists = r.persists[:0]
}
