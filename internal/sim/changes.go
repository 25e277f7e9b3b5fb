package sim

import (
	"slices"

	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/check"
)

// killed is called when a process has stopped for ever. A spare replaces the process, if a spare is left.
func (r *run) killed(dead multicast.ProcessID) {
	r.loseUndelivered(dead)
	r.leaveOut(dead)
	if r.protocol.Replace != nil && !r.evicted[dead] {
		r.startSpare(multicast.Replacement{Old: dead}, r.net.groupOf(dead).ID, func() {})
	}
}

// evict requests the replacement of a live member. The member continues until it learns of the replacement.
func (r *run) evict(old multicast.ProcessID) {
	g := r.net.groupOf(old)
	if r.changing[g.ID] || r.evicted[old] || len(g.Members) == 1 || r.replaced == len(r.cfg.Spares) {
		return
	}
	r.net.mark(Evicted)
	r.dismiss(old)
	r.startSpare(multicast.Replacement{Old: old}, g.ID, r.changes(g.ID))
}

// grow makes a spare join a group.
func (r *run) grow(g multicast.GroupID) {
	if r.changing[g] || r.replaced == len(r.cfg.Spares) {
		return
	}
	r.net.mark(Grown)
	r.startSpare(multicast.Replacement{}, g, r.changes(g))
}

// shrink makes a live member leave its group. The member continues until it learns of the change.
func (r *run) shrink(old multicast.ProcessID) {
	g := r.net.groupOf(old)
	if r.changing[g.ID] || r.evicted[old] || r.waitedFor(g) < 3 {
		return
	}
	r.net.mark(Shrunk)
	r.dismiss(old)
	r.protocol.Replace(r.net, g.ID, multicast.Replacement{Old: old}, r.changes(g.ID))
}

// changes records that the members of a group are changing, until the caller calls done.
func (r *run) changes(g multicast.GroupID) (done func()) {
	r.changing[g] = true
	return func() { delete(r.changing, g) }
}

// dismiss records that a member will leave its group. Until the member learns of this, other processes may
// accept or ignore its messages.
func (r *run) dismiss(p multicast.ProcessID) {
	r.evicted[p] = true
	for _, s := range r.order {
		if s.ID.Sender == p && s.deliveries == 0 {
			s.lost = true
		}
	}
	r.leaveOut(p)
}

// leaveOut records that a process need not deliver more messages. Its deliveries must still agree with those
// of all other processes.
func (r *run) leaveOut(p multicast.ProcessID) {
	i := slices.IndexFunc(r.history.Processes, func(x check.Process) bool { return x.ID == p })
	if !r.history.Processes[i].Correct {
		return
	}
	r.history.Processes[i].Correct = false
	for _, s := range r.order {
		if s.To(r.net.groupOf(p).ID) && !r.machines[p].has(s.ID) {
			s.expected--
		}
	}
}

// waitedFor returns the number of initial members of a group that must deliver a message that is multicast to
// the group now.
func (r *run) waitedFor(g *multicast.Group) (count int) {
	for _, p := range g.Members {
		if !r.net.processes[p].away && !r.evicted[p] {
			count++
		}
	}
	return count
}

// startSpare starts a spare after a random time, if a spare is left, and makes it join a group, perhaps in
// place of another member. The spare is not Correct in the History: its deliveries must agree with others,
// but need not be complete.
func (r *run) startSpare(what multicast.Replacement, group multicast.GroupID, done func()) {
	if r.replaced == len(r.cfg.Spares) {
		return
	}
	what.New = r.cfg.Spares[r.replaced]
	r.replaced++
	r.replacing++
	r.net.Schedule(r.net.Now()+r.between(0, r.cfg.Faults.Longest), func() {
		r.replacing--
		joins := what.Old
		if joins == 0 {
			joins = r.groupNamed(group).Members[0]
		}
		r.machines[what.New] = &machine{run: r, self: what.New, replaces: joins}
		r.history.Processes = append(r.history.Processes, check.Process{ID: what.New, Group: group})
		r.net.mark(Replaced)
		r.net.Start(what.New)
		if r.net.Err() == nil {
			r.protocol.Replace(r.net, group, what, done)
		}
	})
}

// groupNamed returns the group with a number, with its initial members.
func (r *run) groupNamed(id multicast.GroupID) *multicast.Group {
	i := slices.IndexFunc(r.cfg.Groups, func(g multicast.Group) bool { return g.ID == id })
	return &r.cfg.Groups[i]
}

// retire is called when a process has learned that it is no longer a member. The process stops for ever.
func (r *run) retire(p multicast.ProcessID) {
	if r.retired[p] {
		return
	}
	r.retired[p] = true
	r.net.mark(Retired)
	if !r.evicted[p] {
		r.violate("retired", p, multicast.MessageID{}, "process %d says that it was taken out of its group", p)
	}
	r.net.Schedule(r.net.Now(), func() {
		if x := r.net.processes[p]; x.up {
			x.stop()
		}
		r.net.processes[p].away = true
	})
}

// unaware returns a live process that was removed from its group and has not learned of this; 0 if there is
// none.
func (r *run) unaware() multicast.ProcessID {
	for _, p := range r.net.ids {
		if r.evicted[p] && !r.retired[p] && !r.net.processes[p].away {
			return p
		}
	}
	return 0
}

// checkUnaware demands that no process is unaware of its removal at the end.
func (r *run) checkUnaware() {
	if p := r.unaware(); p != 0 {
		r.violate("retired", p, multicast.MessageID{}, "process %d was taken out of its group, and does not know it", p)
	}
}
