package server

import (
	"cmp"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/order/onesided"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/primcast"
)

// RemainingLog is what the log of a partition's own order holds at one replica. All logs of a partition are
// of the same order: PrimCast's or TRAM's.
type RemainingLog struct {
	Epoch, Length uint64
	Amnesiac      bool // it may lack records that were not synced

	primcast primcast.Remains
	memory   *onesided.Remains // nil: PrimCast orders the partition
}

// RemainingLogOf returns what the log of a core holds, which was not stepped.
func RemainingLogOf(local order.Recovered) RemainingLog {
	switch own := local.(type) {
	case *primcast.Core:
		r := primcast.RemainsOf(own)
		return RemainingLog{Epoch: r.Epoch.Number, Length: r.Length, Amnesiac: r.Amnesiac, primcast: r}
	case *onesided.Core:
		r := onesided.RemainsOf(own)
		return RemainingLog{Epoch: uint64(r.Promised), Length: r.Length, Amnesiac: r.Amnesiac, memory: r}
	}
	invariant.Broken("an order without remains: %T", local) // recoverCores makes no other
	return RemainingLog{}
}

// Compare is positive if this log counts and the other one does not. With TRAM the log counts that knows the
// most entries to be decided. Complete takes the others from all logs.
func (l *RemainingLog) Compare(other *RemainingLog) int {
	if l.memory == nil {
		return l.primcast.Compare(&other.primcast)
	}
	return cmp.Or(cmp.Compare(l.memory.Applied, other.memory.Applied), cmp.Compare(l.Length, other.Length))
}

// Held returns the messages that the log holds.
func (l *RemainingLog) Held() []multicast.Delivery { return l.Complete(nil) }

// Complete returns the messages of the log that counts, given all logs that remain.
func (l *RemainingLog) Complete(all []*RemainingLog) []multicast.Delivery {
	if l.memory == nil {
		return l.primcast.Held()
	}
	var others []*onesided.Remains
	for _, o := range all {
		if o.memory != l.memory {
			others = append(others, o.memory)
		}
	}
	return l.memory.Held(others...)
}

// Remember reports whether the replicas of the logs with has are a majority, by the log that knows the newest
// members. If they have lost no records, all entries that a majority has ever acknowledged remain.
func Remember(logs []*RemainingLog, has func(multicast.ProcessID) bool) bool {
	newest := logs[0]
	if newest.memory != nil {
		return newest.memory.Remember(has)
	}
	for _, log := range logs[1:] {
		if newest.primcast.Latest.Compare(log.primcast.Latest) < 0 {
			newest = log
		}
	}
	return newest.primcast.Remember(has)
}
