package primcast

import (
	"slices"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// # Amnesia
//
// A process may lack records that were written and not synced (Output.Sync) after its machine has lost power.
// Its driver reports the loss (Config.Amnesiac). The lost records are entries that joined T in E_cur, from
// some entry on, and ceilings of the clock. E_prom, E_cur, the T that E_cur began with, and rosters are
// synced before any message depends on them: they are never lost. Let p be such a process, and L its E_cur at
// the loss. p is amnesiac as long as its E_cur is L (A1). L is recorded, so that p remains amnesiac if it
// restarts.
//
//	A1  An amnesiac process sends no ACK, BUMP or ACCEPT, delivers nothing, and proposes nothing. It promises,
//	    reports that it is amnesiac, and installs the T of an epoch.
//	A2  An epoch begins with the promises of a quorum (R1) of members that are not amnesiac, or with those of
//	    all members. T_max is the T of the highest epoch, and the longest in it, of all promises. So if too
//	    few members remember, and all are back, the most advanced log of all of them is the one that counts.
//	A3  A member that is to be replaced is not one of all members in A2 if this process has run for
//	    goneAfter and no link to that member has started since. The quorum stays.
//
// Claim: if epochs begin with quorums that remember, Lemma 3 holds, also for what amnesiac processes have
// acknowledged before.
//
//  1. Let a quorum Q have acknowledged an entry in epoch E, and let the promises of S, members that remember,
//     begin the epoch E' > E. Some r is in Q and S. If r has lost its memory since it acknowledged, at a loss
//     with E_cur = E, its E_cur at the promise is above E, by A1 and since it remembers. Then it has
//     installed the T of an epoch between E and E', which has the entry by induction. Else r acknowledged
//     before it promised, its T had the entry then, and has it when it promises; if r lost power between
//     both, its E_cur at the promise is above the one at the loss, and the first case holds with that epoch.
//  2. An acknowledgement that p gave before the loss may still be counted anywhere, and later than p has
//     returned. 1. does not ask when acknowledgements are counted. No process needs to know how often p has
//     restarted: E' is the fence. r acknowledges entries in E only before it promises E'.
//  3. A promise that p gave before the loss may be counted, too. p gave it with the T that it had. It is
//     synced, so p acknowledges nothing in lower epochs after it. If p was to be the source of T_max and lost
//     that T, its next promise shows it, and the candidate gathers anew (askAgain).
//  4. Clocks (lines 28, 29 and 68) hold by the same intersection: the clocks that p sent before the loss
//     count for quorums. Each of these meets S in a process that sent its clock and remembers it, or has
//     installed a later T with a clock as high (line 73). p is the primary of no epoch that it can forget to
//     have proposed in: a primary that lost power is amnesiac in its epoch, and leads again only in a new
//     one.
//  5. p has the T of E' durably when it installs it. From then on all that it sends is true again.
//  6. The state machine of p may hold more messages than its log. They were delivered, so they are in the T
//     of E', and p does not deliver them again. The clock of p begins above them.
//  7. Coverage: the driver syncs the log before the state machine, so that I9 holds after a loss.
//
// With the promises of all members instead of a quorum that remembers, entries may be lost that only amnesiac
// processes have acknowledged: T_max has all that is left. All processes continue with this T. Messages that
// a state machine holds beyond it stay there alone, see docs/limits-operations.md. By A3 the T of a member
// that never returns may be missing, too: the request for its replacement decides that. Entries that a quorum
// has synced are never lost: the quorum that promises has one of its members.
//
// Liveness: an amnesiac process informs its group (SILENT). The primary then starts an epoch (bringBack). If
// the process itself was the primary, it is suspected.
//
// This is proved for a group whose entries concern that group alone, as the order of a partition does: other
// groups do not learn of epochs by promises. The order between partitions is synced always (package order).

// loseMemory records a loss of power. The only member of a group knows all that is left.
func (c *variables) loseMemory() {
	if !c.config.Amnesiac {
		return
	}
	for _, at := range c.config.Delivered {
		c.clock = max(c.clock, at.Final)
	}
	if len(c.own.electors()) > 1 {
		c.lost = c.current
		c.log.lost(c.lost)
	}
}

// sendAmnesia informs another member that this process has no vote.
func (q *peer) sendAmnesia(c *delivery) {
	if q.group == c.own && q != c.self {
		q.frame = (&silentPacket{c.promised, true}).append(q.frame)
	}
}

// isAmnesiac reports whether this process is amnesiac, as A1 defines it.
func (c *variables) isAmnesiac() bool {
	return c.lost != (Epoch{}) && c.current.Compare(c.lost) <= 0
}

// Amnesiac reports whether this process has lost power, and is without a vote until it has the state of
// members that remember.
func (c *Core) Amnesiac() bool { return c.isAmnesiac() }

// mayBegin reports whether the promises are enough for an epoch, by R1 and A2.
func (c *Core) mayBegin() bool {
	promised := func(q *peer) bool { return c.campaign.promises[q.id] != nil }
	remembers := func(q *peer) bool { return promised(q) && !c.campaign.promises[q.id].amnesiac }
	if c.own.agrees(remembers) {
		return true
	}
	return c.own.agrees(promised) && allOf(c.own.electors(), func(q *peer) bool { return promised(q) || c.isGone(q, c.now) })
}

// goneAfter is the time for which an epoch waits for a member that is to be replaced (A3).
const goneAfter = 30 * time.Second

// isGone reports whether q does not count as one of all members in A2, because it is to be replaced (A3).
func (c *change) isGone(q *peer, now time.Duration) bool {
	replaced := slices.ContainsFunc(c.replacements, func(r multicast.Replacement) bool { return r.Old == q.id })
	return replaced && !q.linked && now-c.began >= goneAfter
}

func allOf(peers []*peer, has func(*peer) bool) bool {
	return !slices.ContainsFunc(peers, func(q *peer) bool { return !has(q) })
}
