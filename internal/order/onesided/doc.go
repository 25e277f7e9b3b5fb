// Package onesided lets TRAM (package tram) order a partition: a Core is an order.Core of one group over
// one-sided memory. The caller registers Regions and passes them to Attach before the first step. It gives
// the completions of operations to Complete before each step. After the records of the step it changes the
// rights and begins the operations of Effects, in this order.
//
// # Long messages
//
// A message of TRAM fits into a slot. A Core multicasts a longer one in pieces. TRAM keeps the order of the
// messages of one sender, so the pieces of a message follow each other among the messages of the sender. A
// message is delivered at the place of its last piece.
//
//	P1  The set of complete messages is a function of the log. An incomplete message is void once
//	    its first piece is expireAfter entries behind, or its sender has begun another message or life. A
//	    sender that lives multicasts a void message again.
//	P2  A process that restarts needs the pieces before its state machine's place if their messages end behind
//	    it. So the log is kept from the first piece of each such message on, and all that it has is delivered
//	    to the Core again (tram.Config.Redeliver). It is not kept for deliveries that complete no message.
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
// order, Leads). So a leader sends a frame now and then. A member that hears nothing for silenceAfter
// multicasts a probe, which is work.
package onesided
