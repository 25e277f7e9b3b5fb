// Package client is a client of the file system: operations on names, attributes, open files, content, locks
// and placements, and block I/O (thesis 3.5.1, 3.8; DESIGN 5.1, 5.2). Package route carries its commands:
// sessions, choice of replicas, vector clock. Mounts stand on this package. All methods may be called
// concurrently.
//
// # Guarantees for callers
//
// Package route keeps C1, C2, C5 and C6; its documentation states them in full.
//
//	C1  Every error is a posix.Code.
//	C2  An update is executed at most once, whatever fails. ETIMEDOUT, and EIO after the loss of a session,
//	    mean that it may or may not have been executed.
//	C3  Reads are causally consistent (T 3.4.1); with Config.Linearizable a read sees all that ended
//	    anywhere before it began. View may use an answer of some time ago to know where the content of a
//	    file is, but none that is older than anything this client has seen of the partition since; blocks
//	    never change.
//	C4  Blocks are stored in all regions of the partition where the file is that can be reached, a
//	    majority at least, before the write that names them is multicast (T 3.4.2). When Write returns, the
//	    write is as durable as the deployment makes it: there is nothing left for an fsync to do.
//	C5  An inode that is open is not reaped when its last name goes, as long as the session lives.
//	C6  Every operation ends within Config.Timeout; with Config.Hard, when it was served or its caller's
//	    context ends. ENOSPC and damaged blocks are not waited for.
//	C7  An operation may concern any number of partitions: it is executed in all of them or in none. One
//	    that concerns a partition that cannot be reached ends with ETIMEDOUT, and is not in the way of
//	    others. EXDEV is never given.
//
// # Updates of names
//
// An update of a name goes to the partition of the directory. If the named inode is elsewhere, it goes to all
// partitions concerned together (settle.go). EREMOTE means that a command met an inode that is elsewhere, or
// that another command is changing: the partition did nothing, and the client looks and tries again. A client
// reports an open inode to the home of the inode, wherever the inode is.
//
// # Open files
//
// Open first adds the inode to the held inodes and then looks at it; if the inode was unlinked before, Open
// finds it without a name and refuses (C5). Create learns the number of its inode only from the answer: if a
// renewal was sent in between, Create looks again.
//
// # Another process
//
// Suspend stops a client without ending its sessions. A client with Config.Resume continues them: open files,
// locks and the vector stay. Snapshot does so for a client that may die: the next client skips numbers of
// updates and blocks that may have been used, so C2 holds. The outcome of an update that was under way is
// never known.
//
// # Limits
//
// A directory that is renamed into another partition stays in its partition, with its contents; a file with
// one name moves. The blocks of the file follow in the background (copy.go), or when they are read, or with a
// mover. While the partition of their writing is out of reach, blocks that have not followed cannot be read.
// If a session expires (the client was cut off for longer than the lease), inodes that it held open without a
// name may be gone: ESTALE.
package client
