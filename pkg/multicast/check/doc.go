// Package check says which properties of atomic multicast a recorded run broke.
//
// A History has the events that an observer outside all processes saw: the messages, their senders and times,
// the deliveries, their processes and times, and the processes that took part. Each check is a pure function
// from a History to the violations in it, readable by themselves. One set of checks serves every protocol,
// and the simulator.
//
//	Validity, Integrity, Agreement    thesis 2.2.1 (the middle one with its order in time)
//	PrefixOrder, AcyclicOrder         thesis 2.2.1 ("global total order" is the acyclic one)
//	AtomicGlobalOrder                 thesis 5.2.2; not every protocol promises it
//	Timestamps                        package multicast: final timestamps agree and grow
//	Genuineness                       thesis 2.2.1; needs History.Steps or Sends
//	Latency                           thesis 4.1.2; needs a run with fixed delays
//
// The checks are independent: a run that breaks one property is reported by the
// check of that property and, unless it breaks others too, by no other.
// Only deliveries decide; no check but Timestamps believes a timestamp.
//
// With History.Conflict, prefix order, acyclic order and the growth of positions are those of a multicast
// that orders only messages that conflict (T 4.4.3).
//
// With History.Classes, they are those of a multicast that orders the messages with the same destinations
// only.
//
// # Cost
//
// All checks are linear in the deliveries times the destination groups of a
// message, apart from sorting. The orders are never compared pair by pair: a
// relation that is the union of sequences has a cycle if and only if the relation
// of the neighbours in these sequences has one, since each is the other's
// transitive closure. The relation "multicast after delivery" of thesis 5.2.2 has a
// quadratic number of pairs, too; it is threaded through a chain of the moments of
// delivery, which has the same closure. With History.Conflict there is no way around the pairs: the relation
// is not transitive.
package check
