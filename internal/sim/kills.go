package sim

import (
	"slices"

	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/check"
)

// leads asks the core of a process that is up.
func (r *run) leads(p multicast.ProcessID) bool {
	return r.protocol.Leads(r.net.Node(p).(*coreNode).core)
}

// concerned reports whether a message to the group of p was multicast: until then a genuine protocol takes no step there.
func (r *run) concerned(p multicast.ProcessID) bool {
	group := r.net.groupOf(p)
	return group != nil && slices.ContainsFunc(r.order, func(s *sent) bool { return s.To(group.ID) }) // nil: a spare
}

// killed: nobody waits any more for what a process that has stopped for ever multicast or would
// deliver. What it has delivered must still agree with all others.
func (r *run) killed(dead multicast.ProcessID) {
	r.loseUndelivered(dead)
	group := r.net.groupOf(dead).ID
	for _, s := range r.order {
		if s.To(group) && !r.machines[dead].has(s.ID) {
			s.of--
		}
	}
	i := slices.IndexFunc(r.history.Processes, func(p check.Process) bool { return p.ID == dead })
	r.history.Processes[i].Correct = false
	r.replaceLater(dead, group)
}

// replaceLater starts a spare after a while, if there is one left and the protocol can replace processes.
// The spare is not Correct in the History: what it delivers must agree, but need not be all.
func (r *run) replaceLater(dead multicast.ProcessID, group multicast.GroupID) {
	if r.protocol.Replace == nil || r.replaced == len(r.cfg.Spares) {
		return
	}
	spare := r.cfg.Spares[r.replaced]
	r.replaced++
	r.replacing++
	r.net.Schedule(r.net.Now()+r.between(0, r.cfg.Faults.Longest), func() {
		r.replacing--
		r.machines[spare] = &machine{run: r, self: spare, replaces: dead}
		r.history.Processes = append(r.history.Processes, check.Process{ID: spare, Group: group})
		r.net.mark(Replaced)
		r.net.Start(spare)
		if r.net.Err() == nil {
			r.protocol.Replace(r.net, dead, spare)
		}
	})
}
