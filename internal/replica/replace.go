package replica

import (
	"maps"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// replaceAgain is the time after which a replacement that is not done is requested again.
const replaceAgain = time.Second

// seats has the requests of operators about the members of the group: to replace members, and to lead.
type seats struct {
	replace []multicast.Replacement // requested replacements that are not known to be done, oldest first
	askAt   time.Duration           // time of the next request to the orders
	lead    bool                    // this replica must lead its group
}

// Lead makes this replica lead its group in both orders from the next step on, if the group agrees. No entry
// is lost.
func (r *Replica) Lead() { r.seats.lead = true }

// leads reports whether this replica is to lead from this step on.
func (s *seats) leads(asked bool) bool {
	lead := s.lead || asked
	s.lead = false
	return lead
}

// Replace requests that a process takes the place of a member of the group, in both orders, unless it has
// done so. In a chain of replacements, the earlier ones must be requested first.
func (r *Replica) Replace(p multicast.Replacement) {
	r.seats.replace = append(r.seats.replace, p)
	r.seats.askAt = r.now.Mono
}

// pursueReplacements requests from the orders the replacements that are not done. Of a chain, only the last
// process joins, because the others may be lost.
func (r *Replica) pursueReplacements() {
	s := &r.seats
	if len(s.replace) == 0 || r.now.Mono < s.askAt {
		return
	}
	var gone []multicast.ProcessID // processes that were replaced by a present member
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

// wanted returns the replacements with the last process of each chain.
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

// refuseAll refuses all calls, because this replica has left its group. An update that it has proposed may
// still be ordered. A client that repeats it under the same number at another replica gets the outcome.
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
