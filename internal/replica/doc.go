// Package replica is one replica of one partition as a pure core (thesis section 3.4). It composes the orders
// (package order), the metadata state machine (package meta), client sessions (package session), commands of
// several partitions (package cross) and queries that wait (package reads) in one deterministic object. It
// owns no goroutine, socket, file or clock: package driver steps it in real time, and package sim in virtual
// time.
//
// # Updates of one partition
//
// The asked replica proposes an update in the partition's own order, together with the client's vector and
// the time. Every replica executes the update at its place; the asked replica answers. An update that meets a
// hold of a command of several partitions has no effect: the asked replica proposes it again when the hold is
// released. Before it proposes an update, the asked replica waits for the commands that the client has seen
// committed elsewhere and that touch the update's objects.
//
// # Updates of several partitions, queries
//
// Package cross executes updates of several partitions, and states why updates are sequentially consistent
// and reads are causal. Package reads holds the queries that have to wait.
//
// # Clients
//
// A request of a client machine comes with its name and its authority (ask.Client), as the server of the
// asked replica has verified them. Both travel with the entry, and all replicas of all parties execute the
// command within that authority (package meta). A session belongs to the name that opened it. Requests of the
// cluster's own processes have no Client.
//
// # Stored keys
//
// In the same ordered keys and the same batches as the metadata, which has the keys below 0x40:
//
//	0x40           position of the last entry executed, highest time of an entry
//	0x41 0x42 0x45 sessions (package session)
//	0x43 0x46-0x48 commands of several partitions, positions of their classes, the vector, tombstones (package
//	               cross)
//	0x44           the record that is to replace the log (transfer.go)
//	0x4a-0x4e      directories that clients hold exclusively (package delegation)
//	0x49           the digest of all other keys but 0x44, and without the answers of 0x42 (digest.go)
//
// # Invariants
//
//	I1  position and count are stored in the batch of the entries that they count: a restart executes each
//	    entry once.
//	I2  an update (session, number) is executed at most once (package session).
//	I3  replies leave only after the batch of their entries is committed.
//	I4  an unlinked inode is reaped only when each session has seen its unlink and does not hold it (package
//	    session). A session of a bound client counts as having seen it after two leases (reap.go). A block is
//	    reported as garbage only if no extent names it, and none ever will (garbage.go).
//	I5  an entry that this version cannot execute stops the replica: it never skips one.
//	I6  the state after an entry is a function of the entries up to it. So replicas that have taken a digest
//	    after the same entry have equal digests, or one of them is damaged or not deterministic (digest.go).
//	I7  an update that touches a directory which a client holds exclusively takes effect only as an operation
//	    of a batch of this client (package delegation, delegations.go).
package replica
