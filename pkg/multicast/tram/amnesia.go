package tram

import (
	"slices"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// # Loss of memory
//
// A process that starts with Config.Amnesiac may have lost its promises and the entries that it held in
// earlier lives. In mode memory each restart is such a loss; in mode sync the loss of a disk is. The process
// is then called lost until it holds the whole log again.
//
//	L1  A lost process has no vote: its copy does not count for a decision (decide), and its log does not
//	    count for a new leader (mayLead).
//	L2  A process that has lost its memory in a life grants only timestamps that a candidate chose after it
//	    knew of the loss (note.askFor). Requests for lower timestamps are from before the loss.
//	L3  The process remembers again when it holds the log up to the point where the log ended at the begin
//	    of the term of such a timestamp (the third word of writeHeader).
//	L4  Each note within a group names the latest losses that its sender knows. A grant of a process counts
//	    for a candidate only if the candidate knows of no later loss of that process (granted).
//	L5  If the logs of all members were read, the most advanced one counts, as if all members remembered.
//	    This loses the entries that only the lost memories held. Without L5 the group would stop for ever.
//	L6  A process grants nothing to a life of a member from before the latest loss of that member that it
//	    knows of. After another node has taken the seat, the process of the earlier life may still run: it
//	    does not know of the loss, and would count its own vote beside the vote of the new node.
//
// Claim: without L5, an entry that was decided is in the log of each later leader (G4 with losses).
//
// Let a quorum Q hold entry e with timestamp t, and let a leader of u > t, the lowest one for which the claim
// is wrong, have read the quorum R, all of which remembered at their grants of u.
//
//  1. Let x be in Q and R, with no loss between its acceptance of e and its grant of u. Then x held e when it
//     granted, since it takes nothing with a lower timestamp after it (G2): the leader has read e.
//  2. Let each x in Q and R have had a loss in between. Let x be the first of them that remembered again, in
//     a term v, t < v or not. By L2, v was chosen after the loss. A leader of v has read a quorum V in which
//     x is not. If v > t, then v < u has e by the choice of u, and x has had e since (L3): its grant of u
//     came later, and the leader of u has read it.
//  3. If v < t: some y in V and Q granted v and accepted e in t. y granted t after v, and so it knew of the
//     loss of x when it granted t, and the leader of t did by L4, since the grants that it counts name the
//     losses. It counts no grant of x from before, and x cannot have held e in the life before: then e came
//     to x after the loss, against the assumption. If y, too, has had a loss in between, the same holds for
//     y, with an earlier loss: there is a first one.
//  4. The same argument with grants in place of acceptances shows that no two leaders decide differently: a
//     grant of u that x has forgotten counts for u only if no other member of R knew of the loss when it
//     granted u. Then all of R granted u before they granted the term v in which x remembered again, so v >
//     u.
//
// This is the argument of crash-consistent quorums (Michael et al., "Recovering shared objects without stable
// storage", DISC 2017), with the losses in place of crash vectors.

// lossOf returns the latest life in which a member has lost its memory, according to this process; 0: none.
func (c *durable) lossOf(p multicast.ProcessID) uint32 {
	return c.losses[slices.Index(c.group.Members, p)]
}

// learnLosses adds the losses of other members that a note names. A process knows its own losses best.
func (c *durable) learnLosses(n *note) {
	for i, loss := range n.losses {
		if i < len(c.group.Members) && i != c.index && loss <= maxLife {
			c.losses[i] = max(c.losses[i], loss)
		}
	}
}

// isLost reports whether a member has no vote (L1).
func (c *Core) isLost(m *member) bool {
	if m.id == c.cfg.Self {
		return c.lost
	}
	return c.peers[m.id].received.lost
}

// store records the entries that the leader has written into the log of this process. In mode sync the note
// that reports this (note.stored) leaves after the records are on disk.
func (c *durable) store() {
	if !c.cfg.Sync && !c.lost || c.promised == 0 {
		return
	}
	applied := c.ledger.applied
	c.stored = max(c.stored, applied)
	for c.stored < applied+uint64(c.cfg.Slots) {
		n := c.stored + 1
		slot := c.slot(logRegion, headerSize, n)
		e, ts, ok := decodeEntry(slot, n)
		if !ok || ts != c.promised {
			break
		}
		c.vote(n, ts, e.slot)
		c.stored = n
	}
	c.remember()
}

// remember ends the loss of memory as L3 says.
func (c *durable) remember() {
	if !c.lost {
		return
	}
	var word [8]byte
	c.memory[logRegion].Load(startWord, word[:])
	if start := le.Uint64(word[:]); start > 0 && c.stored+1 >= start {
		c.lost = false
		c.vow()
	}
}
