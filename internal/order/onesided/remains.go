package onesided

import (
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/tram"
)

// Remains is what the log of a Core holds, as its replay shows it. It serves the recovery of a partition that
// has lost its majority: the Core takes no step any more.
type Remains struct {
	*tram.Remains
	core *Core
}

// RemainsOf returns what the log of a core holds, which was not stepped.
func RemainsOf(c *Core) *Remains { return &Remains{tram.RemainsOf(c.core), c} }

// Remember reports whether the processes with has are a majority of the seats. If each of them remembers, the
// entries of Held have all that a quorum has ever held.
func (r *Remains) Remember(has func(multicast.ProcessID) bool) bool {
	count := 0
	for _, p := range r.core.seats.nodes() {
		if has(p) {
			count++
		}
	}
	return count >= r.core.cfg.Group.Quorum()
}

// Held returns the messages of the log behind the state machine's place in their order, and those behind them
// that the logs of other members hold. None of the others may know more entries to be decided.
func (r *Remains) Held(others ...*Remains) (all []multicast.Delivery) {
	logs := make([]*tram.Remains, len(others))
	for i, o := range others {
		logs[i] = o.Remains
	}
	cfg := &r.core.cfg
	p := newPieces(uint64(cfg.Delivered.Final), uint64(cfg.Keep/2))
	for _, d := range r.Remains.Held(logs...) {
		if m, complete := p.take(&d); complete && p.at > uint64(cfg.Delivered.Final) {
			m.Dest = d.Dest
			all = append(all, multicast.Delivery{Message: m, Final: d.Final})
		}
	}
	return all
}
