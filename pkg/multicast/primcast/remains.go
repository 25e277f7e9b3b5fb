package primcast

import (
	"cmp"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// Remains is the state in the log of a stopped process, for the recovery of a group that has lost its
// majority.
type Remains struct {
	Epoch    Epoch  // E_cur
	Length   uint64 // of T
	Latest   Epoch  // the latest of the known roster
	Amnesiac bool   // records that were not synced may be missing (A1)

	core *Core
}

// Compare orders remains as line 66 orders promises: by E_cur, then by the length of T.
func (r *Remains) Compare(other *Remains) int {
	return cmp.Or(r.Epoch.Compare(other.Epoch), cmp.Compare(r.Length, other.Length))
}

// RemainsOf returns the state that the core c has replayed.
func RemainsOf(c *Core) Remains {
	return Remains{Epoch: c.current, Length: c.t.last(), Latest: c.own.seatedIn(), Amnesiac: c.isAmnesiac() || c.config.Amnesiac, core: c}
}

// Remember reports whether the processes for which has is true could begin an epoch of the own group alone,
// by the roster that this process knows (R1, A2). Then the most advanced T among them has all entries that a
// quorum has ever acknowledged.
func (r *Remains) Remember(has func(multicast.ProcessID) bool) bool {
	return r.core.own.agrees(func(q *peer) bool { return has(q.id) })
}

// Held returns the entries of T that are not forgotten, in order, as deliveries. The core must have a single
// group: then local timestamps are final.
func (r *Remains) Held() (all []multicast.Delivery) {
	for m := range r.core.t.all() {
		all = append(all, multicast.Delivery{Message: m.Message, Final: m.ts})
	}
	return all
}
