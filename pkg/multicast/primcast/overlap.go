package primcast

// # Overlap
//
// With Config.Overlap an update waits for one sync of a disk and not for two. The primary's proposals, and
// content, leave while the primary's log is being written (multicast.Output.Early). The followers sync at
// the same time. What leaves early, and the reason why it may:
//
//	O1  START says what a message contains. It is true without any record. A sender that restarts uses new
//	    numbers (multicast.MessageID).
//	O2  An entry that its primary proposes says only what the primary proposes in E. It is no
//	    acknowledgement: it counts for no quorum, and carries no clock of the primary that counts (line
//	    16).
//	O3  All other packets wait for the records: PROMISE, ACK, BUMP, ACCEPT, NEW-STATE, HAVE, coverage. So
//	    does the primary's ACK to itself. Proposals to other groups wait, too: the order between
//	    partitions does not use Overlap, so nothing that one partition states to another is early.
//	O4  The packets to a peer keep their order. Only packets at the start of a frame leave early, so that
//	    the receiver sees the same sequence as without Overlap, a part of it earlier.
//	O5  Before its first early proposal in E, the primary has E in its log (recordOverlap). The proposals
//	    of that step are not early. The driver does not release Early before the records of earlier steps.
//	O6  A process that begins with its log, and has E_cur = E_prom = E of O5, has resigned: it proposes
//	    nothing in E, acknowledges nothing in E, and sends no clock. It starts the next epoch once a
//	    member of its group follows E or a quorum has accepted E, or when the oracle asks for it. It may
//	    promise, and its T serves others. Another mode of the log after the restart changes nothing: the
//	    log decides, not the configuration.
//
// The hazard is a primary that stops between both: a follower has the entry P with index i and timestamp
// ts, and the primary's log does not have it. Without O6 the primary would go on in E, and propose
// something else at i, or send a clock of ts or more while others do not know P.
//
// Claim: Lemmas 2 to 4 and I1 to I9 hold.
//
//  1. Before the mark of O5, proposals of E wait for their records, and no restart forgets them. After it,
//     they are made in one life of the primary (O6), which numbers them without gaps. So the T of each
//     process in E is a prefix of one sequence (Lemma 2, I2). The T of the resigned primary is one, too. It
//     may be shorter than that of a follower. A process that the resigned primary gives T' of E
//     (NEW-STATE), or entries of E (stream), gets a prefix of the sequence.
//  2. An entry is decided if a quorum has it in its logs in E, since each ACK waits for the records of its
//     process (O3). The primary need not be in that quorum. If the primary has forgotten such an entry,
//     each quorum of promises for an epoch E' > E contains a process that has it. T_max then has it: the
//     promise with the highest E_cur and the longest T wins, and by 1. the longest T in E contains the
//     shorter ones (Lemma 3). So what a quorum accepted is kept. What no quorum accepted may be dropped: P
//     is proposed again then.
//  3. Timestamps. The primary counts for lines 17 and 28 only with clocks that it has sent in ACKs and
//     BUMPs, and these wait for the records of all its proposals up to them (I5). In E the resigned
//     primary sends no clock (O6). Otherwise a follower without P could take the new clock, which begins
//     at the ceiling of the log and may be above ts, as the proof that no proposal up to it is missing,
//     and deliver past P.
//  4. Clocks of E'. If P is in T_max, a promise has a clock of at least ts, since its process has P in T
//     (line 44). So the clock of the primary of E' begins at or above ts (lines 68 and 73). If P is not in
//     T_max, no quorum acknowledges P in E: a quorum has promised E' without P. Then ts was never a local
//     timestamp, and another message may get it, or P a lower one. Positions stay unique by their ids.
//     Nothing relied on ts: clocks of followers that were raised by P are their own, and count as theirs.
//  5. I1 is about clocks that were sent. An early proposal is none (O2), and the process sends nothing
//     else of that step.
//  6. The activity of E does not depend on the step. The primary is active by ACCEPTs of a quorum, which
//     its processes have recorded. Rosters of the activation are in the log before O5 allows an early
//     proposal.
//  7. A loss of power: the record of O5 is synced. A primary that is amnesiac (amnesia.go) has no vote in
//     E either way, which is stricter than O6.
//  8. Adopt keeps the mark of O5. It is of this process, so the state of another process does not have it.
//     If the T that is taken over is of E, 1. holds for it.
//
// Liveness: the resigned primary asks the members with PING when their links start. A member that follows
// E answers with its ACK. If the group has moved on, the ACKs are of later epochs, and the process follows
// these.

// overlap is the state of proposals that leave early.
type overlap struct {
	epoch    Epoch // the epoch that O5 has recorded; zero: none
	resigned Epoch // epoch as it was in the log at the start of this process (O6)
	open     bool  // proposals of this step may leave early
}

// beginOverlap decides whether proposals of this step leave early. The first time in an epoch, it records the
// epoch (O5) instead.
func (c *variables) beginOverlap() {
	c.overlap.open = c.config.Overlap && c.state == Primary && c.overlap.epoch == c.current
	if c.config.Overlap && !c.overlap.open && c.state == Primary && len(c.fresh) > 0 && len(c.own.electors()) > 1 {
		c.overlap.epoch = c.current
		c.log.overlap(c.current)
	}
}

// sendProposal sends an own proposal, early if O2 and O3 permit it.
func (c *variables) sendProposal(q *peer, p *entryPacket) {
	if c.overlap.open && q.group == c.own {
		q.replaceEarly(p.append(q.frame))
		return
	}
	q.frame = p.append(q.frame)
}

// replaceEarly replaces the frame of q by frame, which has one more packet. The packet depends on no
// record, and leaves early if all packets before it do (O4).
func (q *peer) replaceEarly(frame []byte) {
	if q.early == len(q.frame) {
		q.early = len(frame)
	}
	q.frame = frame
}

// earlyPart returns the length of the part of q's frame that leaves early.
func (c *system) earlyPart(q *peer) int {
	if !c.config.Overlap || q.group != c.own || q == c.self {
		return 0
	}
	return q.early
}

// hasResigned reports whether this process has resigned as primary (O6).
func (c *variables) hasResigned() bool {
	return c.overlap.resigned != (Epoch{}) && c.current == c.overlap.resigned && c.promised == c.current
}
