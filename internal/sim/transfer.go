package sim

import (
	"slices"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// transferLater transfers the state of another member to a process whose core is behind its group. It does so
// after the time that a transfer takes, and repeats the attempt until it succeeds.
func (r *run) transferLater(p multicast.ProcessID) {
	m := r.machines[p]
	if m.transferring {
		return
	}
	m.transferring = true
	incarnation := r.net.Incarnation(p)
	r.net.Schedule(r.net.Now()+r.between(r.cfg.LatencyMin, 2*r.cfg.LatencyMax), func() {
		m.transferring = false
		if !r.net.processes[p].runs(incarnation) {
			return
		}
		if !r.transfer(p) {
			r.transferLater(p)
		}
	})
}

// transfer tries the other members in random order. It reports whether p has taken over a state.
func (r *run) transfer(p multicast.ProcessID) bool {
	for _, i := range r.net.Rand().Perm(len(r.net.ids)) {
		if r.transferFrom(r.net.processes[r.net.ids[i]], p) {
			return true
		}
	}
	return false
}

// takeOver makes the other members take over the state of one member, if the state is valid for them.
func (r *run) takeOver(from multicast.ProcessID) {
	for _, id := range r.net.ids {
		if r.net.Up(id) {
			r.transferFrom(r.net.processes[from], id)
		}
	}
}

// learn adds the deliveries of the state machine of a random other member to that of p.
func (r *run) learn(p multicast.ProcessID) {
	other := r.net.ids[r.net.Rand().IntN(len(r.net.ids))]
	if from := r.machines[other]; from != nil && r.machines[p] != nil && r.groupOf(other) == r.groupOf(p) {
		r.machines[p].learn(from)
	}
}

// transferFrom transfers the state of a donor to p. It returns false unless the donor is an idle live member
// of the same group and its state is valid for p.
func (r *run) transferFrom(donor *process, p multicast.ProcessID) bool {
	if donor.id == p || !donor.up || donor.disk.busy() || r.groupOf(donor.id) != r.groupOf(p) {
		return false
	}
	to, from := r.net.Node(p).(*coreNode).core.(multicast.Transferable), donor.node.(*coreNode)
	if r.machines[p].isAheadOf(from.machine) {
		return false
	}
	record, at, err := to.Adopt(from.core.(multicast.Transferable).State())
	if err == nil {
		r.adopt(p, from.machine, record, at)
	}
	return err == nil
}

// groupOf returns the group of a member or of a spare.
func (r *run) groupOf(p multicast.ProcessID) multicast.GroupID {
	if m := r.machines[p]; m != nil && m.replaces != 0 {
		return r.groupOf(m.replaces)
	}
	return r.net.groupOf(p).ID
}

// adopt replaces the log and the state machine of a process by those of another, and restarts it.
func (r *run) adopt(id multicast.ProcessID, donor *machine, record []byte, at multicast.Progress) {
	r.net.mark(Transferred)
	p, m := r.net.processes[id], r.machines[id]
	p.stop()
	p.disk.records = [][]byte{slices.Clone(record)}
	for _, from := range donor.lines {
		l := m.line(from.class)
		for i, d := range from.history[:from.applied] {
			if i < len(l.history) {
				if l.history[i] != d {
					r.violate("transfer", id, d.ID, "process %d has %v where process %d has %v", id, l.history[i], donor.self, d)
				}
				continue
			}
			l.history = append(l.history, d)
			r.transferred(id, d)
		}
		l.durable = from.applied
	}
	if !m.progress().Equal(at) {
		r.violate("transfer", id, multicast.MessageID{}, "process %d says it has delivered up to %v, and its state machine has %v", donor.self, at, m.progress())
	}
	p.restart()
}
