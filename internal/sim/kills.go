package sim

import (
	"slices"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// leads asks the core of a process that is up.
func (r *run) leads(p multicast.ProcessID) bool {
	return r.protocol.Leads(r.net.Node(p).(*coreNode).core)
}

// concerned reports whether a message to the group of p was multicast: until then a genuine protocol takes no
// step there.
func (r *run) concerned(p multicast.ProcessID) bool {
	group := r.net.groupOf(p)
	return group != nil && slices.ContainsFunc(r.order, func(s *sent) bool { return s.To(group.ID) }) // nil: a spare
}
