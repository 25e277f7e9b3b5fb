package multiring

import "github.com/globalfs/globalfs/pkg/multicast"

// The ranks of the rings of a process, in the order of the merge.
const (
	groupRank  = 0
	globalRank = 1
	ranks      = 2
)

// merge is the round robin over the rings, so many slots each.
type merge uint64

// final returns the place of a slot of a ring in the merge, counted from 1.
func (m merge) final(rank uint8, slot uint64) multicast.Timestamp {
	every := uint64(m)
	return multicast.Timestamp(slot/every*every*ranks + uint64(rank)*every + slot%every + 1)
}

// after returns the first slot of a ring with a place above a timestamp.
func (m merge) after(rank uint8, ts multicast.Timestamp) uint64 {
	every, before := uint64(m), uint64(rank)*uint64(m)
	round, place := uint64(ts)/(every*ranks), uint64(ts)%(every*ranks)
	return round*every + min(max(place, before)-before, every)
}

// beside returns the number of slots that a group's ring needs, so that nothing in the first slots of
// the global ring waits for it.
func (m merge) beside(slots uint64) uint64 {
	every := uint64(m)
	return (slots + every - 1) / every * every
}

// deliver hands over the messages below the frontiers of all rings.
func (c *Core) deliver(out *multicast.Output) {
	limit := c.merge.final(groupRank, c.group.decided)
	if c.global != nil {
		limit = min(limit, c.merge.final(globalRank, c.global.decided))
	}
	for {
		r := c.group
		first := r.values.First()
		if c.global != nil {
			if other := c.global.values.First(); first == nil || other != nil && other.final < first.final {
				r, first = c.global, other
			}
		}
		if first == nil || first.final >= limit {
			break
		}
		out.Deliveries = append(out.Deliveries, multicast.Delivery{Message: first.Message, Final: first.final})
		r.values.Pop()
	}
	out.Safe = limit - 1
}

// value is a message in its slot.
type value struct {
	multicast.Message
	final multicast.Timestamp
}
