// Package primcast is PrimCast: genuine atomic multicast that delivers at every destination three
// communication steps after a message is multicast, five under conflict (thesis chapter 4, T). It is
// a multicast.Core: Algorithms 1 and 2 line by line, in
//
//	propose.go  lines 31-39   a-multicast, START, the primary's proposal
//	ack.go      lines 9-18, 40-52   ACK, BUMP, local-ts, the clocks
//	deliver.go  lines 19-30, 53-56  min-ts, deliverable, SAFE-TS of T 4.4.2
//	recover.go  records, restart, what may be forgotten
//
// The state of Algorithm 3 (epochs, promises) is in the types; a primary does not change yet: the
// first member of a group leads its only epoch, and while it is down the group delivers nothing new.
//
// # Where it differs from the listing, and why that is right
//
// The payload travels once. START carries it from the sender to each destination process; ACK
// and BUMP carry ids and timestamps. So a follower that has the primary's ACK and not yet START cannot make
// the payload durable: it keeps what the primary says in a queue, in order, until START is here (line 42). It
// does not believe the primary's clock meanwhile either: otherwise line 28 would let it deliver
// something above a proposal that is not yet in its T. START needs one step and the primary's ACK two, so with
// equal delays nothing waits. For the same reason a remote ACK does not stand for START (line 47): a
// primary proposes only what START gave it.
//
// Lines 19-23 and 30: instead of min-ts of every pending message, a heap holds the maximum of its
// timestamp in T and of the local timestamps decided. The two give the same answer for every message that
// lines 28 and 29 let pass: they bound final-ts by the clocks, and where line 22 or 23 is the smaller term
// of min-ts, min-ts is above those clocks, as is the timestamp in T. So the head of the heap is the
// only candidate, and a step costs O(log pending) a message.
//
// D, the set of delivered messages, is a position: deliveries are in the order of (final-ts, id)
// (Lemma 7). M forgets: a sender's STARTs arrive in the order of its numbers and are proposed in that order,
// so what is not above the highest number of the sender in T, and not in M, was in T.
//
// # Restarts
//
// What a message reveals is recorded before it is sent (the gate of multicast.Output): the entries of T with
// their payload, and a ceiling of the clock, taken in strides, for BUMPs. A process goes on in its epoch
// where its records end: they hold all that it ever said. When a link starts anew, each side
// says again what the other may need: STARTs of its own messages, ACKs for all that it keeps of T, in
// order, and its clock; everything is received idempotently, and the position in T that the own
// group's ACKs carry keeps a follower's T a prefix of the primary's (Lemma 2).
//
// A message is forgotten when all processes of all its destinations have said that their state machines
// hold it durably (a position, carried by every frame). Final timestamps are recorded before
// this process says so: whoever hears it may forget the ACKs.
//
// # Invariants
//
//	I1  T is appended to at its end only, in one epoch by the order of its primary; a
//	    follower's T is a prefix of the primary's (Lemma 2).
//	I2  a local timestamp that a quorum acknowledged never changes (Lemma 4).
//	I3  deliveries grow strictly in (final-ts, id) (Lemma 7).
//	I4  E_cur <= E_prom.
//	I5  the clock never goes back, and nothing above the recorded ceiling or T was said.
//
// # Limits
//
// A sender outside the destinations that dies for ever with START sent to some of them only blocks
// those until helping arrives with primary changes. A process that lost its disk cannot come
// back.
package primcast
