// Package multicast defines the vocabulary and the contract of atomic multicast: the types that all protocol
// cores, drivers and checkers share. It contains no protocol.
//
// Processes belong to disjoint groups. A message is multicast to a set of
// destination groups and delivered by their processes. Every protocol below
// this package keeps (thesis "Scaling Strongly Consistent Replicated Systems",
// section 2.2.1, T below):
//
//   - validity: every correct destination process delivers in the end each message that a correct process
//     multicasts;
//   - uniform integrity: a process delivers a message at most once, only if it
//     was multicast, and only if it is a destination;
//   - uniform agreement: every correct destination process delivers in the end each message that any process
//     delivers;
//   - uniform prefix order: of two messages with common destinations, no two
//     processes deliver each one without the other before it;
//   - uniform acyclic order: the union of all delivery orders has no cycle.
//
// Beside them: each delivery carries its final timestamp; the pairs
// (final timestamp, message id) grow strictly at each process; nothing at or
// below Output.Safe is delivered any more; a message id is delivered once,
// however often it is proposed.
//
// # Atomic global order
//
// A message may ask for Order AtomicGlobal. Let m < m' if some process delivers m before m', or if
// m' was multicast after m had been delivered by some process. Among the messages that ask for it
// and those that go to one group only, this relation has no cycle
// (T 5.2.2). Replicas that execute their deliveries are then linearizable without further coordination.
//
// # Classes
//
// The messages with the same destination groups are a Class. A core may be made to order by classes: then
// prefix order, acyclic order and the growth of positions hold within each class, messages of different
// classes are independent, and there is no atomic global order. Deliveries, coverage and forgotten messages
// have a position for each class (Progress). A message that waits for a group that cannot be reached then
// delays those of its own class, and pins nothing else.
//
// # Cores and drivers
//
// A driver steps a Core; the Core never runs by itself: it owns no goroutine, socket, file or clock. The
// driver gathers the ready events into an Input, calls Step once, makes Output.Records durable and only then
// lets the frames and deliveries leave, in order. So a crash loses nothing that was sent or delivered.
package multicast
