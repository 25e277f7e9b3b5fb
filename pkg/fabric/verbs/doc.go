// Package verbs is a fabric of RDMA network interfaces (package fabric), by libibverbs of rdma-core. It is
// part of a program only with build tag verbs, since it needs cgo; in other programs New fails and names the
// remedy.
//
// The package does not open connections. Config.Dial opens a connection, and the application passes each
// accepted connection, with the number of its authenticated peer, to Serve. A connection carries the set-up
// of queue pairs; operations do not use it. Its end means that the peer has died: all its queues are lost.
//
// # Queue pairs
//
// Each queue is a reliable connection (RC) of its own: a refused operation breaks both ends of its queue, and
// no other queue. A Reset takes both ends through RESET, INIT and RTR to RTS, the target first. After that
// the network interface of the target accepts no packet that was sent before the Reset (fabric Q5). The
// completions of a queue pair have the order of its work requests (Q2), and a success means that the remote
// interface has acknowledged the data (Q3). A refused request ends with REM_ACCESS_ERR or REM_INV_REQ_ERR
// (Denied), the requests after it with WR_FLUSH_ERR (Flushed). All other errors are Lost.
//
// Each region has a protection domain of its own, and the target's ends of its queues are in it: a queue pair
// for one region reaches no other one, even with its key.
//
// # Rights
//
// The access flags of the target's queue pair are the rights of the peer. Revoke changes the flags, and
// then takes the queue pair through RESET to RTS with the packet numbers of before. The flags refuse the
// operations that begin afterwards. The reset ends with the packet that the interface executes at that
// moment, and drops all others (M3). The flags alone are not enough: with soft-RoCE of Linux 6.12, on a
// loaded machine, a write that had been checked before the change of the flags once landed after it.
//
// A peer without a refused operation does not notice the reset: it sends the dropped packets again, at the
// latest after a seventh of its Config.Timeout. Its next operation without the right is Denied, and it
// needs a Reset then. In two cases its operations are Lost after Config.Timeout instead: a packet was
// executed between the reading of the packet number and the reset, or the queue pair was not connected
// again. A long operation that is interrupted by a Revoke is Denied, even if it has its right.
//
// With soft-RoCE of Linux 6.12, the test of the conformance suite in which writes and revocations race passed
// 25 of 25 times. No network interface was tested.
//
// # Writes
//
// Operations go through 128 slots of 4 KiB of registered memory for each queue. A larger operation has
// several work requests, whose borders are between words (M2). The specification promises nothing about the
// order within a work request. That a word is not torn is a property of the interfaces.
//
// A message with the place of the write (a note) follows each write with Notify. A faulty peer can send notes
// without writes, so the receiver of a notification must validate the memory itself.
//
// # Failure of the device
//
// After a fatal error of the device (IBV_EVENT_DEVICE_FATAL, IBV_EVENT_CQ_ERR) all operations are lost,
// and Post returns the error. The application must close the endpoint, and create a new one with new memory
// when the device works again. A port that is down is no fatal error: operations are lost after
// Config.Timeout, and a Reset succeeds once the port is up.
//
// # Setting up
//
// All numbers are little-endian. A request is region (4 bytes) and the address of the initiator's queue pair:
// number (4), first packet number (4), LID (2), MTU (1), GID (16). A reply is status (1; 0: ready, 1: no such
// region, 2: no queue pair can be made), incarnation (8), the address of the target's queue pair, and key
// (4), address (8) and size (8) of the region.
package verbs
