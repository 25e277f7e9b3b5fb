// Package replica is one replica of one partition as a pure core: the multicast protocol, the
// metadata state machine, client sessions and causal reads in one deterministic
// object (thesis section 3.4; DESIGN sections 5.1, 5.2). It owns no goroutine, socket, file or
// clock; internal/driver runs it for real and internal/sim in virtual time.
//
// A client's update is multicast to the partition's group together with the
// client's vector and the time at which the proposing replica took it. On delivery every
// replica executes it in the same order; the one that proposed it
// answers. A query is executed by one replica once its own counter has reached
// the client's (T 3.4.1).
//
// What is stored, in the same ordered keys and the same batches as the metadata (whose
// keys start below 0x40):
//
//	0x40                          position applied, time of the order, vector
//	0x41 session                  renewals, counter seen at the last one, inodes held
//	0x42 session seq              done, answer
//
// Invariants:
//
//	I1  counter = number of deliveries applied; position and counter are stored in the
//	    batch of what they count, so a restart applies each delivery exactly once.
//	I2  an update (session, seq) is executed at most once: its answer is kept until the
//	    client says that it is done with it, and the highest done is kept as long as the
//	    session; session numbers are never used again.
//	I3  answers leave only after the batch that they speak of is committed.
//	I4  an unlinked inode is reaped only when each live session has, since it was unlinked,
//	    said that it does not hold it (session.go).
package replica
