// Package verbs is a fabric of RDMA network interfaces (package fabric), by libibverbs of rdma-core. It is
// part of a program only with build tag verbs, since it needs cgo; in other programs New fails and names the
// remedy.
//
// The package makes no connections. Config.Dial makes them, and Serve takes those of others, together with
// the name of the peer: the caller authenticates peers first. A connection carries the set-up of queue pairs;
// operations do not use it. Its end means that the peer has died: all queues on it are lost.
//
// # Queue pairs
//
// Each queue is one reliable connection (RC) of its own: an operation that is refused breaks both ends of it,
// and no other queue. A Reset takes both ends through RESET, INIT and RTR to RTS, the target first: after
// that the network interface of the target accepts nothing of the time before (fabric Q5). Completions of a
// queue pair come in the order of its work requests (Q2), and a success means that the remote interface has
// acknowledged the data (Q3). A request that the target refuses ends as REM_ACCESS_ERR or REM_INV_REQ_ERR
// (Denied), those behind it as WR_FLUSH_ERR (Flushed). All other errors are Lost.
//
// Each region has a protection domain of its own, and the target's ends of its queues are in it: a queue pair
// for one region reaches no other one, even with its key.
//
// # Rights
//
// The access flags of the target's queue pair are the rights of the peer. Revoke changes the flags: 50 to 300
// us with soft-RoCE. A queue pair in error takes no flags, and is reset instead. In soft-RoCE, no byte of 32
// writes under way changed after the call in 10 of 10 runs, and the conformance suite has raced it. Once,
// on a loaded machine with Linux 6.12, the write that was being executed landed after the call: there M3
// does not hold. Other interfaces were not tried. A refused write costs the writer a Reset: 1 to 3 ms
// there.
//
// # Writes
//
// Operations go through 128 slots of 4 KiB of registered memory for each queue. A larger operation has
// several work requests, whose borders are between words (M2). The specification promises nothing about the
// order within a work request. That a word is not torn is a property of the interfaces.
//
// A write with Notify has a message behind it, which says the place. A broken peer can send such messages
// without a write, so a notification means: look.
//
// # Failure of the device
//
// After a fatal error of the device (IBV_EVENT_DEVICE_FATAL, IBV_EVENT_CQ_ERR) all operations are lost,
// and Post returns the error. The owner closes the endpoint, and makes a new one with new memory when the
// device works again. A port that is down is no such error: operations are lost after Config.Timeout, and
// a Reset works again when the port is up.
//
// # Setting up
//
// All numbers are little-endian. A request is region (4 bytes) and the address of the initiator's queue pair:
// number (4), first packet number (4), LID (2), MTU (1), GID (16). A reply is status (1; 0: ready, 1: no such
// region, 2: no queue pair can be made), incarnation (8), the address of the target's queue pair, and key
// (4), address (8) and size (8) of the region.
package verbs
