package replica

import (
	"time"

	"github.com/globalfs/globalfs/internal/ask"
)

func (r *Replica) status() ask.Status {
	p := &r.progress
	return ask.Status{
		Partition: r.cfg.Partition, Self: r.cfg.Self, Leads: r.orders.Leads(), Seated: r.orders.HasMember(r.cfg.Self),
		Applied: r.cross.Count(), Undecided: r.cross.Undecided(),
		Histories: r.cross.Own().Histories(), Malformed: r.orders.Malformed(),
		// By the order's own time, and by the monotonic clock: an entry that is applied late is old.
		Age: max(0, r.now.Mono-p.orderedAt, time.Duration(r.now.Wall-int64(p.time))),
	}
}
