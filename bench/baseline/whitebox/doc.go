// Package whitebox is White-Box atomic multicast (Gotsman, Lefort, Chockler, DSN 2019), told in thesis
// section 4.6.2: the protocol to compare PrimCast with. It is for benchmarks only.
//
//  1. The sender sends MULTICAST(m) to the leader of each destination group.
//  2. A leader gives m a local timestamp from its clock and sends ACCEPT(m, local) to every process of every
//     destination group.
//  3. A process with the ACCEPTs of all destination groups moves its clock to the highest local
//     timestamp, which is the final one, and sends ACCEPT_ACK(m) to the leaders of all destination groups.
//  4. A leader with all ACCEPTs and the acks of a quorum of each destination group commits m, delivers it
//     when no message is before it, and sends DELIVER(m, final) to its followers.
//  5. Followers deliver in the order of the DELIVERs.
//
// Leaders deliver three communication steps after the multicast, followers four; five and six
// if other messages are in the way.
//
// Differences from the paper: the leader of a group is its first member and stays it; there is no leader
// change, nothing is recorded, and Replay always gives an error. Links must not restart once they have
// started. Ballots are therefore not on the wire, and messages that ask for multicast.AtomicGlobal are
// refused. Everything that matters for speed is as in the paper and its prototype: the content travels in
// MULTICAST and in the ACCEPT of every destination group, acks and DELIVERs name the message only, and every
// process keeps a message, as the recovery of the paper would need it, until all its destinations have
// delivered it.
//
// # Forgetting
//
// A process tells the leaders of the groups that it shares messages with how far it has
// delivered (DELIVERED), and a leader tells its followers up to where all is delivered by all
// destinations (FORGET). Both ride on the next frame to that process, or go alone after a
// tenth of a second, so that a group that falls silent holds up nobody.
//
// # Invariants
//
//	I1  clock is at least every local timestamp given here and every final timestamp computed here.
//	I2  at a leader, each message that waits for delivery is in a heap by (bound, id). The bound is the local
//	    timestamp, and the final one once m is committed: no lower one can come (I1), so a committed message
//	    at the top is next.
//	I3  a sender numbers upwards and links are FIFO: at a leader MULTICASTs, and at a follower its leader's
//	    ACCEPTs, come in the order of numbers. A message at or below the highest number (peer.high) that is
//	    not kept has been forgotten.
//	I4  a process does not ack a message that it has delivered: its leader had a quorum of acks, which went to
//	    all leaders. So no ack follows the DELIVERED that covers its message.
package whitebox
