package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/pkg/multicast/check"
)

// complete reports whether all messages are delivered and no process waits.
func (r *tramRun) complete() bool {
	if r.barrierAt > 0 && r.generation == 0 {
		r.changeTree()
		return false
	}
	type place struct {
		process multicast.ProcessID
		id      multicast.MessageID
	}
	have := map[place]bool{}
	for _, d := range r.history.Deliveries {
		have[place{d.Process, d.ID}] = true
	}
	for _, m := range r.history.Multicasts {
		if m.Lost && !r.delivered[m.ID] {
			continue
		}
		for _, id := range r.ids {
			if p := r.processes[id]; p.up && slices.Contains(m.Dest, p.group.ID) && !have[place{id, m.ID}] {
				return false
			}
		}
	}
	for _, id := range r.ids {
		if p := r.processes[id]; p.up && p.pending() > 0 {
			return false
		}
	}
	return true
}

// judge checks the history: all properties except those of final timestamps, which TRAM does not have.
func (r *tramRun) judge(reach *tramReach) error {
	h := &r.history
	for _, id := range r.ids {
		p := r.processes[id]
		h.Processes = append(h.Processes, check.Process{ID: id, Group: p.group.ID, Correct: p.up})
		s := p.core.Stats()
		reach.Campaigns += s.Campaigns
		reach.Led += s.Led
		reach.Adopted += s.Adopted
		reach.Dropped += s.Dropped
		reach.Helped += s.Helped
		reach.Reborn += s.Reborn
		reach.Failed += s.Failed
		if s.Malformed > 0 {
			r.errs = append(r.errs, fmt.Errorf("process %d: %d malformed", id, s.Malformed))
		}
	}
	s := r.net.Stats()
	reach.fabric.Halved += s.Halved
	reach.fabric.Torn += s.Torn
	reach.fabric.Lost += s.Lost
	reach.fabric.LandedLate += s.LandedLate
	reach.fabric.LostReplies += s.LostReplies
	reach.fabric.Denied += s.Denied
	reach.killed += r.reach.killed
	reach.paused += r.reach.paused
	reach.cuts += r.reach.cuts
	reach.tramRestarts.add(&r.reach.tramRestarts)
	found := slices.Concat(check.Integrity(h), check.PrefixOrder(h), check.AcyclicOrder(h), check.Agreement(h), check.Validity(h))
	r.errs = append(r.errs, r.samePlaces()...)
	if r.generation == 0 {
		r.errs = append(r.errs, r.strangers()...) // the groups on the way change with the tree
	}
	if r.upper != nil {
		r.errs = append(r.errs, r.upper.judge()...)
	}
	for _, id := range r.ids {
		if p := r.processes[id]; p.up && p.pending() > 0 {
			r.errs = append(r.errs, fmt.Errorf("process %d still waits for others: %d", id, p.pending()))
		}
	}
	if len(found) > 0 || len(r.errs) > 0 {
		return fmt.Errorf("%d processes in %d groups, parents %v, %d messages, at %v:\n%v\n%s",
			len(r.ids), len(r.groups), r.parents, len(h.Multicasts), r.net.Now(), r.errs[:min(10, len(r.errs))], check.Describe(found))
	}
	return nil
}

// samePlaces: the members of a group deliver a message at the same place of the log, in ascending order.
func (r *tramRun) samePlaces() (errs []error) {
	type place struct {
		group multicast.GroupID
		at    multicast.Timestamp
	}
	message, last := map[place]multicast.MessageID{}, map[multicast.ProcessID]multicast.Timestamp{}
	for _, d := range r.history.Deliveries {
		at := place{r.processes[d.Process].group.ID, d.Final}
		if first, ok := message[at]; ok && first != d.ID {
			errs = append(errs, fmt.Errorf("process %d delivers %v at %d, another member %v", d.Process, d.ID, d.Final, first))
		}
		message[at] = d.ID
		if d.Final <= last[d.Process] {
			errs = append(errs, fmt.Errorf("process %d delivers %v at %d after %d", d.Process, d.ID, d.Final, last[d.Process]))
		}
		last[d.Process] = d.Final
	}
	return errs
}

// path gives the groups that take part in a message: the lca of the destinations and all below on the way.
func (r *tramRun) path(dest []multicast.GroupID) (lca multicast.GroupID, all map[multicast.GroupID]bool) {
	up := func(g multicast.GroupID) (way []multicast.GroupID) {
		for {
			way = append(way, g)
			next, ok := r.parents[g]
			if !ok {
				slices.Reverse(way)
				return way
			}
			g = next
		}
	}
	common := up(dest[0])
	for _, g := range dest {
		way, n := up(g), 0
		for n < min(len(way), len(common)) && way[n] == common[n] {
			n++
		}
		common = common[:n]
	}
	all = map[multicast.GroupID]bool{}
	for _, g := range dest {
		for _, h := range up(g)[len(common)-1:] {
			all[h] = true
		}
	}
	return common[len(common)-1], all
}

// strangers checks that a process contacts another one only when a message was multicast that concerns both:
// the sender and the lca, a group on the path, or one and its child (the paper's partial genuineness, link by
// link).
func (r *tramRun) strangers() (errs []error) {
	type link struct{ a, b multicast.GroupID }
	type client struct {
		p multicast.ProcessID
		g multicast.GroupID
	}
	links, clients := map[link]time.Duration{}, map[client]time.Duration{}
	for _, m := range r.history.Multicasts {
		lca, all := r.path(m.Dest)
		if _, ok := clients[client{m.ID.Sender, lca}]; !ok {
			clients[client{m.ID.Sender, lca}] = m.At
		}
		for g := range all {
			for _, l := range []link{{g, g}, {g, r.parents[g]}, {r.parents[g], g}} {
				if at, ok := links[l]; all[l.a] && all[l.b] && (!ok || m.At < at) {
					links[l] = m.At
				}
			}
		}
	}
	for pair, at := range r.sends {
		from, to := r.processes[pair[0]].group.ID, r.processes[pair[1]].group.ID
		fine := from == to && r.restarted(from) // a process that restarts informs its group
		for _, since := range []struct {
			at time.Duration
			ok bool
		}{lookUp(links, link{from, to}), lookUp(clients, client{pair[0], to}), lookUp(clients, client{pair[1], from})} {
			fine = fine || since.ok && since.at <= at
		}
		if !fine {
			errs = append(errs, fmt.Errorf("process %d of group %d turns to process %d of group %d at %v: no message concerns both", pair[0], from, pair[1], to, at))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errs
}

func lookUp[K comparable](m map[K]time.Duration, key K) (found struct {
	at time.Duration
	ok bool
}) {
	found.at, found.ok = m[key]
	return found
}
