package replica

import (
	"github.com/globalfs/globalfs/internal/delegation"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/internal/varint"
)

// A request of kind ask.Persist asks this replica to put on its disk all entries that the client has seen.
// Like a query, it waits until the replica has executed these entries. Each of them is then in the log, by
// the records of an earlier step, or in the store, which is on disk before the log forgets the entry. So a
// sync of the log at the next step covers them all. If a client has this answer from a majority of the
// replicas, the entries survive a loss of power of all replicas: each later epoch begins with the log of a
// process of that majority.
//
// The answer waits for no other replica, and no entry is ordered for it.

// persist requests a sync of the log if clients wait for one. It runs after the step of the orders.
func (r *Replica) persist(out *turn.Output) {
	if len(r.persists) == 0 {
		return
	}
	out.Sync = true
	out.Persisted = append(out.Persisted, r.persists...)
	clear(r.persists)
	r.persists = r.persists[:0]
}

// A batch or write with meta.OnDisk needs no such request. Its entry is durable (multicast.Message.Durable):
// when it is delivered, a majority has the entry and all entries before it on disk. The first answer to the
// update has the place of the entry. The stored answer, which a repeated update gets, has no place: stored
// answers are equal at all replicas and versions.

// wantsDisk reports whether an update must be on the disks of a majority before it is executed.
func wantsDisk(c *meta.Command) bool {
	return c.Flags&meta.OnDisk != 0 && (c.Op == meta.OpBatch || c.Op == meta.OpWrite)
}

// withPlace returns the answer to a durable update with the place at which it was executed.
func withPlace(c *meta.Command, result meta.Result, place uint64) []byte {
	if c.Op == meta.OpWrite {
		if result.Code == posix.OK {
			result.Data = varint.AppendUint(nil, place)
		}
		return result.Append(nil)
	}
	if done, err := delegation.DecodeDone(result.Data); err == nil { // otherwise the client's version may have no log
		done.OnDisk = place
		result.Data = done.Append(nil)
	}
	return result.Append(nil)
}
