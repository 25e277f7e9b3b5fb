// Package skeen is Skeen's atomic multicast: thesis Algorithm 4. It is the
// smallest correct core, the worked example of package multicast.
//
// Skeen tolerates no failures. A group is one process. It records nothing, so a process that ends cannot come
// back, and Replay always returns an error. Links must not restart after they have started.
//
// A process gives each message a local timestamp from its logical clock, and sends it to all destinations.
// The highest of these timestamps is the final one. Messages are delivered in the order of (final timestamp,
// id). Algorithm 4 breaks ties by partition, which makes timestamps pairs. Here ids break ties, because
// package multicast orders by ids. Collision-free latency is two communication steps, failure-free latency
// four.
//
// # Invariants
//
//	I1  clock is at least every local timestamp that this process gave, and every final timestamp that
//	    it knows. So later messages are ordered behind both.
//	I2  the local timestamp of an undelivered message is a lower bound of its final timestamp. So this
//	    process delivers no other message that may be ordered behind it.
//	I3  high[p] is the highest number of a message of sender p that got a local timestamp. Senders number
//	    their messages upwards and links are FIFO, so a message with this number or a lower one is a
//	    repetition.
//	I4  with InOrder: when a process acknowledges m, its clock has reached the final timestamp of m. Each
//	    message that precedes m here, and requests atomic global order, has been acknowledged by all its
//	    destinations, or is addressed to all destinations of m.
//
// # Atomic global order
//
// The parts of Algorithm 4 in gray are for atomic global order. A message that requests this order, and has
// several destinations, is delivered only after all of them have acknowledged it. A message to one group
// needs no acknowledgement.
//
// In the thesis a process acknowledges a message as soon as it knows the final timestamp (Decided, line 16).
// This is not enough: it excludes cycles of two messages, and permits cycles of three. TestDecidedIsNotEnough
// plays such a cycle.
//
// The remedy is a later acknowledgement: InOrder, which keeps I4. docs/papers/algorithm4.md has the cycle,
// the proof that InOrder has no cycles and no deadlocks, and its latency. An alternative would acknowledge m
// only after the delivery of all messages before m. Then only one message to the same destinations could be
// delivered in each communication step.
//
// Messages that do not request atomic global order may be ordered between those that do. The promise then
// holds for the messages that request it and for messages to one group.
package skeen
