package primcast

import (
	"slices"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// # Amnesia
//
// A process whose machine has lost power may lack records that were written and not synced (Output.Sync). Its
// driver tells it so (Config.Amnesiac). Lost are entries that joined T in E_cur, from some entry on, and
// ceilings of the clock. E_prom, E_cur, the T that E_cur began with, and rosters are synced before they are
// spoken of: they are never lost. Let p be such a process, and L its E_cur at the loss. p is amnesiac as long
// as its E_cur is L (A1). L is recorded, so that p remains amnesiac if it restarts.
//
//	A1  An amnesiac process sends no ACK, BUMP or ACCEPT, delivers nothing, and proposes nothing. It promises,
//	    tells that it is amnesiac, and installs the T of an epoch.
//	A2  An epoch begins with the promises of a quorum (R1) of members that are not amnesiac, or with those of
//	    all members. T_max is the T of the highest epoch, and the longest in it, of all promises. So if too few
//	    members remember, and all are back, the most advanced log of all of them is the one that counts.
//	A3  A member that is to be replaced, and of which this process has not heard anything for goneAfter since it
//	    started, is not one of all members in A2. The quorum stays.
//
// Claim: if epochs begin with quorums that remember, Lemma 3 holds, also for what amnesiac processes have
// acknowledged before.
//
//  1. Let a quorum Q have acknowledged an entry in epoch E, and let S be the members that remember with whose
//     promises the epoch E' > E begins. Some r is in Q and S. If r has lost its memory since it acknowledged,
//     at a loss with E_cur = E, its E_cur at the promise is above E, by A1 and since it remembers. Then it has
//     installed the T of an epoch between E and E', which has the entry by induction. Else r acknowledged before
//     it promised, its T had the entry then, and has it when it promises; if r lost power between both, its
//     E_cur at the promise is above the one at the loss, and the first case holds with that epoch.
//  2. An acknowledgement that p gave before the loss may still be counted anywhere, and later than p has
//     returned. 1. does not ask when acknowledgements are counted. No process needs to know how often p has
//     restarted: E' is the fence. What r acknowledges in E it acknowledges before it promises E'.
//  3. A promise that p gave before the loss may be counted, too. p gave it with the T that it had. It is
//     synced, so p acknowledges nothing in lower epochs after it. If p was to be the source of T_max and lost
//     that T, its next promise says so, and the candidate gathers anew (askAgain).
//  4. Clocks (lines 28, 29 and 68) hold by the same intersection: what p said of its clock before the loss
//     counts for quorums, each of which meets S in a process that said its clock and remembers it, or has
//     installed a later T with a clock as high (line 73). p is the primary of no epoch that it can forget to
//     have proposed in: a primary that lost power is amnesiac in its epoch, and leads again only in a new one.
//  5. p has the T of E' durably when it installs it. From then on all that it says is true again.
//  6. The state machine of p may hold more than its log. What it holds was delivered, so it is in the T of E',
//     and p does not deliver it again. Its clock begins above what it holds.
//  7. Coverage: the driver syncs the log before the state machine, so that I9 holds after a loss.
//
// With the promises of all members instead of a quorum that remembers, entries may be lost that only amnesiac
// processes have acknowledged: T_max has all that is left. All processes continue with this T. What a state
// machine holds beyond it stays there alone, see docs/limits.md. By A3 the T of a member that never returns may
// lack, too: whoever asks for its replacement decides that. What a quorum has synced is never lost: the quorum that
// promises has one of its members.
//
// Liveness: an amnesiac process tells its group (SILENT). The primary then starts an epoch (bringBack). If the
// process itself was the primary, it is suspected.
//
// This is proved for a group whose entries concern that group alone, as the order of a partition does: other
// groups do not learn of epochs by promises. The order between partitions is synced always (package order).

// loseMemory notes a loss of power. The only member of a group knows all that is left.
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

// tellAmnesia tells another member that this process has no vote.
func (q *peer) tellAmnesia(c *delivery) {
	if q.group == c.own && q != c.self {
		q.frame = (&silentPacket{c.promised, true}).append(q.frame)
	}
}

// isAmnesiac is A1.
func (c *variables) isAmnesiac() bool {
	return c.lost != (Epoch{}) && c.current.Compare(c.lost) <= 0
}

// Amnesiac reports whether this process has lost power, and is without a vote until it has the state of
// members that remember.
func (c *Core) Amnesiac() bool { return c.isAmnesiac() }

// mayBegin is R1 and A2: the promises are enough for an epoch.
func (c *Core) mayBegin() bool {
	promised := func(q *peer) bool { return c.campaign.promises[q.id] != nil }
	remembers := func(q *peer) bool { return promised(q) && !c.campaign.promises[q.id].amnesiac }
	if c.own.agrees(remembers) {
		return true
	}
	return c.own.agrees(promised) && allOf(c.own.electors(), func(q *peer) bool { return promised(q) || c.isGone(q, c.now) })
}

// goneAfter is for how long a member is waited for that is to be replaced (A3).
const goneAfter = 30 * time.Second

// isGone is A3.
func (c *change) isGone(q *peer, now time.Duration) bool {
	replaced := slices.ContainsFunc(c.replacements, func(r multicast.Replacement) bool { return r.Old == q.id })
	return replaced && !q.linked && now-c.began >= goneAfter
}

func allOf(peers []*peer, has func(*peer) bool) bool {
	return !slices.ContainsFunc(peers, func(q *peer) bool { return !has(q) })
}
