package primcast

import (
	"slices"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// The members of a group are those of an epoch, its roster. A new epoch may have another roster than the one
// before, so that the change is ordered with all else by the change of the primary. The process that leaves
// may live on and may be cut off from some of the others. So neither side of a change may go on without the
// other until the change is made.
//
// A roster is ⟨since, R, B⟩: R are the members, since is the epoch that they came in with, and B are the
// members before, or none once an epoch with these members is known to be active. A process knows one roster
// and with it latest, the latest epoch that it knows to have it. It takes a roster with a higher latest, and
// drops B as soon as it learns that an epoch with the same since is active. PROMISE, NEW-EPOCH and NEW-STATE
// carry the roster that the sender knows, and so does the log.
//
//	R1  A candidate of E needs promises from a quorum of R and, if there is B, from a quorum of B (line 65).
//	    It counts them by the roster with the highest latest that any promise names, and gives up if that is
//	    not below E. The roster of E is the same; or, if there is no B, ⟨E, R', R⟩, where R' is R with one
//	    change and has the candidate in it.
//	R2  E is active once a quorum of R and, if there is B, a quorum of B have accepted it (line 76).
//	R3  Acknowledgements in E are counted among R of E, and only while no later roster is known. A process
//	    acknowledges in E once it knows that E is active, and then its roster has no B.
//	R4  A process that is no longer in R is informed for good once a quorum of R has acknowledged in epochs
//	    from since on.
//
// # Safety
//
// M(E) is E_max of the promises for E. An epoch exists once its candidate has the promises of R1. The latest
// of the roster that a process knows is not below its E_cur.
//
//	(1) Let D be active, let no epoch between D and E be active, and let each epoch X in (D, E] that exists
//	    have M(X) >= D. Then the roster of X has R = R(D) or B = R(D). By induction on X. The roster that its
//	    candidate counts by has a latest in [D, X), so it is that of D or of another such X. If it has B, X
//	    has the same roster. If it has none, its R is R(D), since only an active epoch lets B be dropped; X
//	    keeps R, or changes it and has it for B.
//	(2) If E is active and E' > E exists, M(E') >= E. By induction on E'. Assume that it fails; let E be the
//	    lowest such epoch, D the active epoch before it, and v the latest that the candidate of E' counts by.
//	    Then v >= M(E') >= D. It is enough to find an active F with E <= F < E' such that its
//	    acceptors meet the promises: a process that is in both accepted F before it promised E', so that
//	    M(E') >= F. If v < E: by (1) the promises contain a quorum of R(D), and so do the acceptors of E; F
//	    = E. If v >= E: let F be the last active epoch up to v. By (1), with F for D, the promises contain a
//	    quorum of R(F), and so do the acceptors of F. This assumes that the candidate counts B, if the
//	    roster of v has one. If not, an active G <= v has the same since, and so the same R, and the
//	    promises meet the acceptors of G. If G >= E, take F = G. If G <= D, then since <= D, and by (1) R of
//	    v is R(D): the promises contain a quorum of it.
//	(3) Lemma 3: the T of each E' > E has all entries that a quorum of R(E) acknowledged in E. M(E') >= E by
//	(2).
//	    If it is higher, T of that epoch has them by induction. If M(E') = E, no epoch in (E, v] is active, or
//	    the promises would meet its acceptors as in (2). Then the promises contain a quorum of R(E), by R1 if
//	    v = E and by (1) if not. It meets the quorum that acknowledged.
//	(4) Lines 28 and 29: the clocks that a quorum of R(E) has sent in epochs up to E bound the clock of each
//	    later epoch from below, as in (3).
//	(5) Lines 10 and 17: other groups, and members that missed an epoch, count by R(E) too (R3). They learn
//	    the roster of E before any ACK in E: a process that acknowledges sends it first, on the same link.
//
// Nothing here asks how R and R' differ; one change at a time is for liveness. When a process joins or
// leaves, each quorum of R meets each of R' anyway: of n and n+1 processes, quorums have ⌊n/2⌋+1 and
// ⌊(n+1)/2⌋+1, together n+2, more than the n+1 there are. When one takes the place of another, {1,2,3}
// and {1,2,4} have the quorums {1,3} and {2,4}, which do not meet: hence B.
//
// A process that left can do no harm: promises and acceptances of it count among B only, and there is no B
// any more. It leads no epoch, as R does not have it.
//
// # Liveness
//
// If the processes of a group finally receive each other's messages, any quorum of R with any quorum of B
// makes progress: during the change, and after it, before that is known. If no running process knows of the
// change, a quorum of the roster before is enough. More is impossible. Take {1,2,3}, with 3 to be replaced by
// 4. Let 1 have accepted the new epoch, and 2 and 4 be silent.
//
//   - Perhaps 2 has accepted, too, and decides with 4. Then 1 and 3 must not go on without both.
//   - Perhaps 2 has not accepted. Then 1 and 3 are the majority of an active roster.
//
// 1 and 3 cannot distinguish the two cases, so they wait for 2 or for 4. It would also be safe to count no
// new process. But then they would wait for 2 alone, for ever if it is gone.
//
// By R4 a quorum of R knows that the change is made before any process that left gets the last notice of it,
// and its log has that before it acknowledges. Each quorum of R has one of these, so that from then on the
// group needs no B: a process that has Output.Retired can be wiped. A change does not begin before the new
// process has a link to the primary.

// roster is ⟨since, R, B⟩ with latest, in the form of packets and records.
type roster struct {
	since  Epoch                 // the epoch in which the members joined; zero: they are configured
	latest Epoch                 // the latest epoch that is known to have these members
	ids    []multicast.ProcessID // R
	before []multicast.ProcessID // B
}

// seating is the roster of a group, with references to the processes.
type seating struct {
	seats  []*peer // R, the members
	quorum int     // size of a quorum of R
	before []*peer // B, the members before the last change; none once an epoch with seats is known to be active
	since  Epoch   // the epoch in which the members joined; zero: they are configured
	latest Epoch   // the latest epoch that is known to have these members
}

// seat sets the roster. members and before are the processes that r names.
func (s *seating) seat(r roster, members, before []*peer) {
	s.seats, s.before, s.quorum = members, before, len(members)/2+1
	s.since, s.latest = r.since, r.latest
}

// learns takes a roster from another process, or of a new epoch. It reports whether the caller must seat its
// members.
func (s *seating) learns(r *roster) bool {
	same := r.since == s.since
	switch order := r.latest.Compare(s.latest); {
	case order > 0 && same && len(s.before) == 0:
		s.latest = r.latest
		return false
	case order > 0:
	case same && len(r.before) == 0 && len(s.before) > 0:
		r.latest = s.latest
	default:
		return false
	}
	return true
}

// members returns R. The caller must not change it.
func (s *seating) members() []*peer { return s.seats }

// majority returns the size of a quorum of R.
func (s *seating) majority() int { return s.quorum }

// isChanging reports whether a change of the members is not known to be done, so that B counts, too.
func (s *seating) isChanging() bool { return len(s.before) > 0 }

// from returns the epoch in which the members joined; seatedIn returns the latest epoch that is known to have
// them.
func (s *seating) from() Epoch { return s.since }

func (s *seating) seatedIn() Epoch { return s.latest }

// Members returns the members of a group in its latest epoch that is known to be active; nil if there is no
// such group. The caller owns the result.
func (c *Core) Members(id multicast.GroupID) []multicast.ProcessID {
	g := c.groups[id]
	if g == nil {
		return nil
	}
	return idsOf(g.settled())
}

// settled returns the members in the latest epoch that is known to be active.
func (s *seating) settled() []*peer {
	if len(s.before) > 0 {
		return s.before
	}
	return s.seats
}

func idsOf(peers []*peer) []multicast.ProcessID {
	var ids []multicast.ProcessID
	for _, q := range peers {
		ids = append(ids, q.id)
	}
	return ids
}

func (s *seating) roster() roster {
	return roster{since: s.since, latest: s.latest, ids: idsOf(s.seats), before: idsOf(s.before)}
}

// elects reports whether q counts for the choice of the primary of g: it is in R or B.
func (g *group) elects(q *peer) bool {
	return q.group == g && q.member >= 0 || slices.Contains(g.before, q)
}

// electors returns the processes of R and B.
func (s *seating) electors() []*peer {
	all := slices.Clone(s.seats)
	for _, q := range s.before {
		if q.member < 0 {
			all = append(all, q)
		}
	}
	return all
}

// agrees reports whether has is true for a quorum of R and for a quorum of B (R1, R2).
func (s *seating) agrees(has func(*peer) bool) bool {
	return hasQuorum(s.seats, has) && (len(s.before) == 0 || hasQuorum(s.before, has))
}

func hasQuorum(of []*peer, has func(*peer) bool) bool {
	count := 0
	for _, q := range of {
		if has(q) {
			count++
		}
	}
	return count > len(of)/2
}

// counts reports whether acknowledgements in the epoch of g's T count among the known members (R3).
func (g *group) counts() bool { return g.since.Compare(g.epoch) <= 0 }

// isKnown reports whether a quorum of R knows that R are the members (R4).
func (s *seating) isKnown() bool {
	return len(s.before) == 0 && hasQuorum(s.seats, func(q *peer) bool { return q.acked.Compare(s.since) >= 0 })
}

// mayLead reports whether the roster that this candidate knows lets it lead the epoch which it has promised
// (R1).
func (c *variables) mayLead() bool {
	return c.self.member >= 0 && c.own.latest.Compare(c.promised) < 0
}
