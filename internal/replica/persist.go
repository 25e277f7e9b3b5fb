package replica

import (
	"github.com/globalfs/globalfs/internal/delegation"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/turn"
)

// A request of kind ask.Persist is a barrier for the disk of this replica. It waits like a query until the
// replica has executed all entries that the client has seen. Earlier steps recorded these entries in the log,
// or they are in the store, which is on disk before the log forgets them. So a sync of the log at the next
// step covers them. If a client has this answer from a majority of the replicas, a loss of power of all of
// them keeps all entries that it has seen: each later epoch begins with the log of at least one of that
// majority.
//
// An answer waits for no other replica and orders nothing.

// persist requests a sync of the log if clients wait for one. It comes after the step of the orders.
func (r *Replica) persist(out *turn.Output) {
	if len(r.persists) == 0 {
		return
	}
	out.Sync = true
	out.Persisted = append(out.Persisted, r.persists...)
	clear(r.persists)
	r.persists = r.persists[:0]
}

// A batch with meta.OnDisk needs no barrier behind it: its entry is durable (multicast.Message.Durable), so
// at its delivery the disks of a majority have the entry and all before it, in any mode of the logs. The
// answer tells the place. It is the answer of the execution only: the recorded answer, which a repeated batch
// gets, is the same at all replicas and versions, and tells nothing.

// wantsDisk reports whether an update is to be on the disks of a majority before it is executed.
func wantsDisk(c *meta.Command) bool { return c.Op == meta.OpBatch && c.Flags&meta.OnDisk != 0 }

// tellDisk returns the answer to a batch whose entry is durable, and is executed at a place.
func tellDisk(result meta.Result, place uint64) []byte {
	if done, err := delegation.DecodeDone(result.Data); err == nil { // otherwise the client may not have a log
		done.OnDisk = place
		result.Data = done.Append(nil)
	}
	return result.Append(nil)
}
