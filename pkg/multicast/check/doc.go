// Package check finds the properties of atomic multicast that a recorded run has violated.
//
// A History has the events that an observer outside all processes has seen: the messages, their senders and
// times, the deliveries, their processes and times, and the processes that took part. Each check is a pure
// function from a History to the violations in it. The description of a violation is complete by itself. The
// same checks serve all protocols and the simulator.
//
//	Validity, Integrity, Agreement    thesis 2.2.1 (Integrity also checks the order in time)
//	PrefixOrder, AcyclicOrder         thesis 2.2.1 (the thesis calls acyclic order "global total order")
//	AtomicGlobalOrder                 thesis 5.2.2; not every protocol promises it
//	Timestamps                        package multicast: final timestamps agree and grow
//	Genuineness                       thesis 2.2.1; needs History.Steps or Sends
//	Latency                           thesis 4.1.2; needs a run with fixed delays
//
// The checks are independent: each check reports only violations of its own property. They use deliveries
// only; no check except Timestamps uses a timestamp.
//
// With History.Conflict, the checks of prefix order, acyclic order and timestamps are those for a multicast
// that orders only conflicting messages (T 4.4.3). With History.Classes, they are those for a multicast that
// orders only messages with the same destinations.
//
// # Cost
//
// Apart from sorting, the time of each check is linear in the number of deliveries times the number of
// destination groups of a message. No check compares all pairs of messages. Let R be a union of sequences,
// and N the relation of the neighbours in these sequences: R and N have the same transitive closure, so R has
// a cycle if and only if N has one. The relation "multicast after delivery" of thesis 5.2.2 has a quadratic
// number of pairs, too. The check replaces it by a chain of the moments of delivery, which has the same
// closure. With History.Conflict all pairs must be compared, because the relation is not transitive.
package check
