// Package onesided lets TRAM (package tram) order a partition: a Core is an order.Core of one group over
// one-sided memory. It adds to TRAM long messages, the replacement of members, and a leader of idle groups.
// Before the first step the caller registers Regions and passes them to Attach. For each step it
//
//  1. passes the completed operations to Complete,
//  2. calls Step, and makes the records of the step durable,
//  3. changes the rights, and then begins the operations, which Effects returns.
//
// # Long messages
//
// A message of TRAM fits into a slot. A Core multicasts a longer one in pieces. TRAM keeps the order of the
// messages of one sender, so the pieces of a message follow each other among the messages of the sender. A
// message is delivered at the place of its last piece.
//
//	P1  The set of complete messages is a function of the log. An incomplete message becomes void when its
//	    first piece is expireAfter entries old, when its sender begins another message, or when its sender
//	    begins another life (a start of the process). A sender that lives multicasts its void messages again.
//	P2  A message may begin before the durable place of the state machine and end after it. A process that
//	    restarts needs all of its pieces. So the log is kept from the first piece of each such message on, and
//	    is delivered to the Core again from there (tram.Config.Redeliver). Deliveries that complete no message
//	    keep no log.
//
// # Seats
//
// TRAM has a fixed number of members. They are the seats of the group: a process that takes the place of
// another one is a new node with the same seat, and has lost its memory (package tram, life.go). The caller
// decides on one process for each generation of a seat, and has at most one seat of a group taken over at a
// time. A replaced process learns that it has left from the order between partitions (Leave). Members cannot
// be added or removed.
//
// # Idle groups
//
// TRAM replaces a leader only if work waits for it. Replicas need a leader also without proposals (package
// order, Leads). So a leader sends a frame now and then. A member that receives nothing for silenceAfter
// multicasts a probe, which is work.
package onesided
