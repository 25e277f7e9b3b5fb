package sim

import (
	"slices"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// leads reports whether the core of a process that is up leads its group.
func (r *run) leads(p multicast.ProcessID) bool {
	return r.protocol.Leads(r.net.Node(p).(*coreNode).core)
}

// concerned reports whether a message to the group of p was multicast. Before that, the processes of the
// group must take no step, because protocols are genuine.
func (r *run) concerned(p multicast.ProcessID) bool {
	group := r.net.groupOf(p)
	// group is nil if p is a spare.
	return group != nil && slices.ContainsFunc(r.order, func(s *sent) bool { return s.To(group.ID) })
}

// remembers reports whether the core of a process that is up has a vote.
func (r *run) remembers(p multicast.ProcessID) bool {
	return r.protocol.Remembers(r.net.Node(p).(*coreNode).core)
}

// darkened is called when a process has lost power. Its state machine may hold more than the synced records.
func (r *run) darkened(p multicast.ProcessID) {
	for _, l := range r.machines[p].lines {
		l.durable += r.net.Rand().IntN(max(0, l.applied-l.durable) + 1)
	}
}
