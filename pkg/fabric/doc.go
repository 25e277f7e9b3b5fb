// Package fabric defines the vocabulary and the contract of one-sided memory, as RDMA offers it. A node
// registers regions of its memory. It grants other nodes the right to read or to write a region, and can
// revoke the right. A node with the right reads and writes the region without the help of a program on the
// node that owns it. The package contains no provider; these packages implement Endpoint:
//
//	fabricsim  virtual time, with all faults that the contract allows; for tests and models
//	soft       stream connections; a goroutine of the target acts as its network interface
//	shm        processes of one host; rings in shared memory, from which the target executes operations; and
//	           streams, as soft, to processes of other hosts
//	verbs      RDMA network interfaces; only in programs that are built with -tags verbs
//
// Package fabrictest has one conformance suite for all providers.
//
// # Queues
//
// All operations of one node on one region of one other node form a queue. A node also has queues to itself.
//
//	Q1  Operations of a queue are executed one after the other, in the order of Post. The effect of an
//	    operation is visible to the target, and to every later read, before the effect of the next one is.
//	    Nothing is promised between queues.
//	Q2  Completions of a queue come in the order of Post, one for each operation.
//	Q3  Status OK: the operation was executed completely, before the completion.
//	Q4  After an operation has failed, the queue is broken: the operations behind it fail, until a Reset of
//	    the queue has completed with OK.
//	Q5  Status Denied: the target has refused. Status Lost: the connection or the target has failed. In both
//	    cases the operation may have been executed completely, in part or not at all. After Lost, the
//	    operation and those behind it may still be executed, until a Reset of the queue has completed with OK:
//	    then never more.
//	Q6  Status Flushed: the operation was not executed, and never will be.
//
// # Memory
//
//	M1  A region is zeroed when it is registered. A node that stops loses its regions.
//	M2  Eight bytes at an address divisible by eight are read and written at once, if one operation covers
//	    them. A longer write becomes visible in pieces, in any order, and may stay incomplete if it fails.
//	    Readers find complete writes by a check in the content.
//	M3  When Revoke returns, no write of that peer changes the region any more, and no read of it sees the
//	    region's later content. Operations that have not been executed fail. This holds until a Grant.
//
// An RDMA provider fulfils Q1 to Q6 with one reliable connection (RC queue pair) for each queue, and M3
// with the access flags of the queue pair at the target, and a reset that ends the operations under way. M2
// asks for less than network interfaces provide in practice: the verbs specification promises no order
// within a write, so users of this package must not rely on one.
//
// # Providers and the verbs specification
//
//	                          verbs specification (RC)    fabricsim           soft                shm
//	executes an operation     network interface           simulated interface goroutine of target process of target
//	target's program stopped  goes on                     goes on             waits               waits
//	order within a queue      order of posts              order of posts      order of posts      order of posts
//	order between queues      none                        none                by connection       by connection
//	visible order in a write  none is promised            any, in words       pieces of 64 KiB    pieces, as room allows
//	a word (M2)               not promised, given by all  whole               whole               whole
//	completion with success   executed: data acknowledged executed            executed            executed
//	                          by the remote interface
//	completion with an error  may be executed             may be executed     may be executed     may be executed
//	death of the peer         retry timeout               Config              end of connection,  end of connection,
//	                                                                          or Config.Timeout   or Config.Timeout
//	revocation                access flags of the QP,     lock of the event   region's lock       region's lock
//	                          then its reset
//	after a refused operation both QPs are in error       queue is broken     queue is broken     queue is broken
//
// Provider verbs implements the first column with one queue pair for each queue; it treats the end of a
// connection beside the queue pairs as the death of the peer. A network interface changes memory without an
// event, so its Wait also returns after a time (Config.Look).
//
// A program that relies only on Q1 to Q6 and M1 to M3 runs on all providers.
//
// Treat the content of a region like a frame from the network: the node that writes it may be faulty.
package fabric
