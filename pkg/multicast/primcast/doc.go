// Package primcast is PrimCast, the genuine atomic multicast of the thesis "Scaling Strongly
// Consistent Replicated Systems", chapter 4: each destination delivers after three
// communication steps. Comments name the lines of its Algorithms 1 and 2. The
// state of Algorithm 3 (epochs, promises) is in the types; primaries do not change yet: a group whose
// primary is down waits until it is back.
//
// # In short
//
// The sender sends START(m), with the content, to all processes of m.dest (propose.go). In each
// destination group the primary appends m with the next timestamp of its clock to its log T, and
// sends an ACK to all of m.dest; its followers do the same when they hear it (ack.go). A
// quorum of ACKs decides the group's local timestamp; the highest local timestamp is
// the final one. ACKs of other groups push clocks forward, and a BUMP tells the own group
// so (bump.go). A process delivers m once the primary's and a quorum's clocks are at the final
// timestamp and no other message can come before (deliver.go).
//
// # Invariants
//
//	I1  The clock never goes back, and what was said of it is in the log: not even by a restart.
//	I2  T grows by one index at a time with ascending timestamps; a follower's T is a prefix of the
//	    primary's (Lemma 2).
//	I3  Positions of deliveries ascend strictly (Lemma 7), over restarts too.
//	I4  E_cur <= E_prom.
//	I5  min-clock(primary) is ts only if all its proposals up to ts are known. What is
//	    delivered is in T, durably.
//	I6  A local timestamp that a quorum acknowledged never changes (Lemma 4).
//	I7  Output.Safe never goes back, and each delivery is above all Safes before it.
//
// # Crashes and links
//
// The paper's processes stop for ever; its r-multicast is reliable and FIFO. Ours come back with
// their log, and links restart, losing what was on the way (multicast.Frame).
//
//   - Durability before speech. An entry of T is recorded with its content before it is
//     acknowledged. It implies the clock. A BUMP has no entry: the log holds a ceiling, ahead
//     of the clock by a stride, and a restarted clock begins at the ceiling. So most BUMPs
//     cost no write, and no promise, ACK or BUMP goes below an earlier one.
//   - When a link starts, each side says again what the other may need: START of own messages that the
//     other did not acknowledge, the ACKs of T in the order of T, the clock, and how far it is
//     covered. All handlers are idempotent: an ACK is a bit, a clock a maximum, START known or
//     not.
//   - ACKs carry the index in T, and BUMPs the last index. A follower takes the primary's next
//     index only; after a gap it hears neither ACK nor clock of the primary until the
//     link's start fills the gap. This keeps I2 and I5 (Lemma 6, third case) without trust in links.
//   - Process and link restarts are all there is: replaying, each process stands where its last
//     durable step left it, as if its messages since had been slow.
//
// # The content travels once
//
// ACKs hold an id, not m. A follower keeps the primary's proposals in order (Core.accepted) and appends,
// and acknowledges, each once its START is here too. Proposals that wait count as T in line 30.
// While START is missing, m.dest is unknown, and line 21 alone bounds min-ts: nothing that the
// primary proposed later is delivered before, and so what is delivered is in T. Three steps suffice as before: START leaves the sender for all at once,
// one step before a primary's ACK can arrive, and lines 40-45 wait for the later of the two.
//
// Line 47 makes START(m) known to whoever hears a remote ACK, so that m survives its sender. Here
// START comes from the sender, which repeats it when a link starts. If the sender crashed before,
// START is fetched (fetch.go): whoever acknowledged m has it in T, and keeps it until this
// process covers it. An own message is not recorded at its sender: it survives the sender's
// crash once a primary has it in T, and none of its destinations delivers it otherwise. Reply to
// clients after delivery.
//
// # What is forgotten
//
// A process tells, on frames that it sends anyway, up to which position its state machine is durable
// (Input.Covered). When all members of all groups in m.dest cover m, no process can need its
// content, its ACKs or its START again, and it leaves M and T (trim.go). A process that
// restarts can need ACKs for an entry that it has delivered before, to know that it did; hence final
// timestamps of messages to several groups are recorded, without a write of their
// own, before coverage is told.
//
// What remains of a delivered message is its number in D (done.go). D is exact. It is small
// because a sender numbers its messages in ascending order over its whole life, restarts included, and
// START names the number sent to the group before. A process that is down for long makes its groups
// keep what it does not cover.
//
// The log shrinks by checkpoints: a record of the live state that replaces all before it (journal.go).
//
// # Genuineness
//
// Only the sender and m.dest take steps for m (Proposition 1): ACKs go to m.dest, BUMPs to the
// own group, HAVE to a sender outside of m.dest. There are no heartbeats.
package primcast
