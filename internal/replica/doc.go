// Package replica is one replica of one partition as a pure core: two multicast protocols, the
// metadata state machine, client sessions, commands of several partitions and causal reads in one deterministic
// object (thesis section 3.4; DESIGN sections 5.1, 5.2). It owns no goroutine, socket, file or
// clock; internal/driver runs it for real and internal/sim in virtual time.
//
// # Two orders
//
// A client's update of one partition is multicast to the partition's group, together with the client's vector and
// the time at which the proposing replica took it: the order of the partition. On delivery every
// replica executes it in the same order; the one that proposed it answers. A query is executed by one replica
// once that has seen what the client has (T 3.4.1).
//
// An update of several partitions is multicast to just their groups in a second order, the order between
// partitions. Timestamps of genuine multicast make a process wait: for the clocks of all destinations, far ones and ones that
// are cut off included, and everything behind in the order waits too. With two orders only commands of several
// partitions wait for each other, and a region's own work goes on. What the order between partitions
// delivers is put into the order of the partition (relay.go); state changes only there.
//
// # Commands of several partitions: uncoordinated (T 3.4.1)
//
// Something new in another partition than its directory: each of the two executes its part alone when it is relayed there
// (uncoordinated.go). It is as if it was executed at the moment at which the directory's partition does that.
//
// # Commands of several partitions: coordinated (T 3.4.1)
//
// A relayed command is prepared: the partition looks what it would do, holds what that depends on (package meta), and votes.
// Votes go to the replicas of the other parties (votes.go). The decision, all votes in one message of the order of
// the partition, executes the command or drops it. Nobody waits for a command that holds something: who meets it
// is told so (EREMOTE) and tries again, so nothing can deadlock, and as all partitions prepare commands in one acyclic
// order, some first one always gets all it needs.
//
// Why updates are sequentially consistent: each partition executes its updates in one order. A command of several holds all that
// it reads and changes from its vote to its decision in each of them, so it is as if it was executed at one moment between its last vote
// and its first decision. Commands that meet at two partitions are ordered alike at both: by the holds, if they conflict;
// otherwise their order does not matter.
//
// Why reads are causal: an answer names, for each party of a command, the command's place in the order between
// partitions; a replica answers a client that knows the place only when all up to it is decided there. What one partition learns from
// another comes with all that the other had seen: votes and posts carry its vector.
//
// # Who asks
//
// A request of a client machine comes with its name and its authority (Client), as the asked replica's server has proved them. Both
// travel with what is ordered, and all replicas of all parties execute the command within that authority (package meta). A session
// belongs to the name that opened it: its number is part of the ids of the blocks it has written, which every reader sees. Requests of
// the cluster's own processes have no Client, and look on the wire and in logs as they always did.
//
// Clients are trusted with two things: vectors, which say what they have seen, are believed (one that is made up can make a
// partition wait for what never comes), and blocks are read by who knows their ids.
//
// # Stored
//
// In the same ordered keys and the same batches as the metadata (whose keys start below 0x40):
//
//	0x40                          position applied, last relay, commands prepared, time of the order, vector
//	0x41 session                  renewals, counter seen at the last one, horizon of blocks, inodes held; the name of the client that opened it, if it has one
//	0x42 session seq              done, answer
//	0x43 number                   a command of several partitions: place, parties, whose answer it is, vote, decided
//	0x44                          what is to take the place of the log (transfer.go)
//	0x45 time session             a session that has ended (session.go)
//
// # Invariants
//
//	I1  counter = number of deliveries of the partition's order applied; position and counter are stored in the
//	    batch of what they count, so a restart applies each delivery exactly once.
//	I2  an update (session, seq) is executed at most once: its answer is kept until the
//	    client says that it is done with it, and the highest done is kept as long as the
//	    session; session numbers are never used again: that one has ended is
//	    known for a week. One of several partitions is admitted by the one that answers:
//	    its refusal is a vote, or has the inode unmade that was made without one.
//	I3  answers leave only after the batch that they speak of is committed.
//	I4  an unlinked inode is reaped only when each live session has, since it was unlinked,
//	    said that it does not hold it (session.go).
//	    A block is told to be garbage only if nothing names it nor ever will (garbage.go).
//	I5  relays are executed in the order between partitions, each once (relay.go).
//	I6  a vote is kept until all parties are past the command: a decision can always be made from what replicas
//	    have stored, whatever minority of each party is gone.
package replica
