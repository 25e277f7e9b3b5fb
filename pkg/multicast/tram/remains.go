package tram

import "github.com/globalfs/globalfs/pkg/multicast"

// Remains is what the log of a process of a single group holds, as its replay shows it. It serves the
// recovery of a group that has lost its majority: the process takes no step any more.
type Remains struct {
	Promised uint32 // the highest timestamp that the process has granted
	Applied  uint64 // entries that are known to be decided
	Length   uint64 // these, and the entries that follow them
	Amnesiac bool   // the log may lack promises and entries that the process has had

	core    *Core
	decided []multicast.Delivery // the entries up to Applied that the log holds
}

// RemainsOf returns what the log of a core holds. The core was not stepped, and has Config.Redeliver.
func RemainsOf(c *Core) *Remains {
	var out Output
	c.begin(0, &out)
	c.recall()
	r := &Remains{
		Promised: c.promised, Applied: c.ledger.applied, Amnesiac: c.lost || c.cfg.Amnesiac, core: c, decided: out.Deliveries,
	}
	r.Length = r.Applied + uint64(len(r.Held())-len(r.decided))
	return r
}

// Held returns the entries of the log in their order, and those behind them that the logs of other members
// hold. None of the others may know more entries to be decided. Of a slot that is not known to be decided the
// entry with the highest timestamp counts, as for a new leader (catchUp): if the logs are those of a quorum
// that remembers, each entry that was decided is there (G4).
func (r *Remains) Held(others ...*Remains) []multicast.Delivery {
	all, state := append([]multicast.Delivery(nil), r.decided...), r.core.ledger.state.clone()
	for n := r.Applied + 1; ; n++ {
		best := r.core.votes[n]
		for _, o := range others {
			if v := o.core.votes[n]; v != nil && (best == nil || v.ts > best.ts) {
				best = v
			}
		}
		if best == nil {
			return all
		}
		e, _, ok := decodeEntry(best.slot, n)
		if !ok || !r.core.follows(state, e) {
			return all
		}
		state.add(e)
		all = append(all, multicast.Delivery{Message: e.message, Final: multicast.Timestamp(n)})
	}
}
