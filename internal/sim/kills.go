package sim

import (
	"slices"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// leads asks the core of a process that is up whether it leads its group.
func (r *run) leads(p multicast.ProcessID) bool {
	return r.protocol.Leads(r.net.Node(p).(*coreNode).core)
}

// concerned reports whether a message to the group of p was multicast: until then a genuine protocol takes no
// step there.
func (r *run) concerned(p multicast.ProcessID) bool {
	group := r.net.groupOf(p)
	// For a spare group is nil.
	return group != nil && slices.ContainsFunc(r.order, func(s *sent) bool { return s.To(group.ID) })
}

// remembers asks the core of a process that is up whether it has a vote.
func (r *run) remembers(p multicast.ProcessID) bool {
	return r.protocol.Remembers(r.net.Node(p).(*coreNode).core)
}

// darkened is called when a process has lost power. Its state machine may hold more than the synced records.
func (r *run) darkened(p multicast.ProcessID) {
	for _, l := range r.machines[p].lines {
		l.durable += r.net.Rand().IntN(max(0, l.applied-l.durable) + 1)
	}
}
