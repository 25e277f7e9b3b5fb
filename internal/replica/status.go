package replica

import (
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// status gives what the replica says of itself.
func (r *Replica) status() ask.Status {
	group := multicast.GroupID(r.cfg.Partition)
	s := ask.Status{
		Partition: r.cfg.Partition, Self: r.cfg.Self, Leads: r.cores.local.Leads(),
		Seated:  slices.Contains(r.cores.local.Members(group), r.cfg.Self) && slices.Contains(r.cores.cross.Members(group), r.cfg.Self),
		Applied: r.counter(),
		// By the order's own time, and by the clock that does not jump: what is applied late is old.
		Age: max(0, r.now.Mono-r.orderedAt, time.Duration(r.now.Wall-int64(r.time))),
	}
	for _, c := range r.commands {
		if !c.decided {
			s.Undecided++
		}
	}
	return s
}
