package replica

import (
	"maps"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// replaceAgain is the time between two requests to the orders for a replacement that is not done.
const replaceAgain = time.Second

// seats are the operators' requests for the members of the group.
type seats struct {
	replace []multicast.Replacement // not known to be done, oldest first
	askAt   time.Duration           // when the orders are asked for them, or asked again
	lead    bool                    // this replica is to lead its group
}

// Lead makes this replica lead its group in both orders from the next step on, if the group follows. No entry
// is lost by it.
func (r *Replica) Lead() { r.seats.lead = true }

// leads reports whether this replica is to lead from this step on.
func (s *seats) leads(asked bool) bool {
	lead := s.lead || asked
	s.lead = false
	return lead
}

// Replace asks for a process to take the place of a member of the partition's group, in both orders, if it
// has not yet. For a chain of replacements the earlier ones are given first.
func (r *Replica) Replace(p multicast.Replacement) {
	r.seats.replace = append(r.seats.replace, p)
	r.seats.askAt = r.now.Mono
}

// pursueReplacements asks the orders for the replacements that are not done. Of a chain only the last process
// comes in: the others may be gone.
func (r *Replica) pursueReplacements() {
	s := &r.seats
	if len(s.replace) == 0 || r.now.Mono < s.askAt {
		return
	}
	var gone []multicast.ProcessID // replaced by a process that is a member now
	for i := len(s.replace) - 1; i >= 0; i-- {
		p := s.replace[i]
		if slices.Contains(gone, p.New) || r.orders.HasMember(p.New) {
			gone = append(gone, p.Old)
			s.replace = slices.Delete(s.replace, i, i+1)
		}
	}
	if len(s.replace) > 0 {
		s.askAt = r.now.Mono + replaceAgain
		r.orders.Replace(s.wanted())
	}
}

// wake returns the time of the next request to the orders; 0: there is none.
func (s *seats) wake() time.Duration {
	if len(s.replace) == 0 {
		return 0
	}
	return max(s.askAt, 1)
}

// wanted returns the replacements with the final process of each place.
func (s *seats) wanted() []multicast.Replacement {
	all := slices.Clone(s.replace)
	for i := range all {
		for _, next := range s.replace {
			if next.Old == all[i].New {
				all[i].New = next.New
			}
		}
	}
	return all
}

// refuseAll answers all calls at this replica, which has left its group. An update that it has proposed may
// still be ordered: a client that repeats it elsewhere under the same number gets the outcome.
func (r *Replica) refuseAll(out *turn.Output) {
	var tokens []uint64
	for _, id := range slices.SortedFunc(maps.Keys(r.updates.proposed), multicast.MessageID.Compare) {
		tokens = append(tokens, r.updates.proposed[id].tokens...)
	}
	for _, u := range r.updates.blocked {
		tokens = append(tokens, u.tokens...)
	}
	r.updates = newUpdates()
	for _, p := range r.persists {
		tokens = append(tokens, p.Token)
	}
	r.persists = nil
	tokens = append(append(tokens, r.cross.TakeCalls()...), r.queries.TakeCalls()...)
	tokens = append(append(tokens, r.watches.takeCalls()...), r.lockWaits.takeCalls()...)
	out.Replies = r.replyAll(tokens, ask.Replaced, nil, out.Replies)
}
