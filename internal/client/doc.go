// Package client is a client of the file system: sessions, routing, the vector clock and block
// I/O behind operations on inodes (thesis 3.4.1, 3.4.2, 3.5.1; DESIGN 5.1, 5.2). A mount and
// the Go library stand on it. All methods may be called by many goroutines.
//
// # What a caller can rely on
//
//	C1  Every error is a posix.Code.
//	C2  An update is executed at most once, whatever fails: a retry through another
//	    replica carries the same (session, number). ETIMEDOUT, and EIO after the loss of
//	    a session, mean that it may or may not have been executed.
//	C3  Reads are causally consistent: each request carries the vector of all answers
//	    seen before, and a replica answers once it is as new (T 3.4.1). Observe and Wait
//	    adopt the vector of another client. With Config.Linearizable a read sees all that
//	    ended anywhere before it began. View may use an answer of some time ago to know where the content of a file is, but none
//	    that is older than anything this client has seen of the partition since; blocks never change.
//	C4  Blocks are stored in all regions of the partition where the file is that can be reached, a majority at
//	    least, before the write that names them is multicast (T 3.4.2). When Write returns, the write is as durable as the
//	    deployment makes it: there is nothing left for an fsync to do.
//	C5  An inode that is open is not reaped when its last name goes, as long as the
//	    session lives.
//	C6  Every operation ends within Config.Timeout. The end of a caller's context ends
//	    a query at once; it ends an update with EINTR only as long as nothing was
//	    multicast, after that the outcome is awaited. With Config.Hard an operation ends when it was served,
//	    however long that takes, or its caller's context ends: then a query ends at once, an update with EINTR if
//	    nothing was multicast, and otherwise within Config.Timeout from there on, with ETIMEDOUT. Cause
//	    ErrAbandoned ends everything at once. ENOSPC and damaged blocks are not waited for.
//	C7  An operation may concern any number of partitions: it is executed in all of them or in
//	    none. One that concerns a partition that cannot be reached ends with ETIMEDOUT, and
//	    is not in the way of others. EXDEV is never given.
//
// # Where an inode is
//
// The number of an inode says where it was made, its home. It may live elsewhere: the client asks
// where it believes it to be (at), which it learns from names, answers and redirections; home always knows. An inode
// that is nowhere gives ESTALE: only home's word counts. What is open is told to the home, wherever the inode is. Updates of names
// go to the partition of the directory, alone or, if what is named is elsewhere, together
// with all others concerned (settle.go). EREMOTE says that a command met something that is elsewhere, or that another command is
// just changing: nothing was done, and the client looks and tries again.
//
// # Why C5 holds
//
// A partition reaps an unlinked inode once each session has renewed at or after the unlink's
// place in the order without naming it. A renewal therefore takes the vector first and the set
// of open inodes after it; Open adds the inode to the set first and looks at it after. An
// inode missing in the renewal is thus looked at with a vector that is not older, and if it
// was unlinked before, Open sees that and refuses. What Create made is unknown until the
// answer arrives: if a renewal fell in between, Create looks again.
//
// # Another process
//
// Suspend stops a client without ending its sessions; who makes another with Config.Resume goes on: open files, locks and what was seen
// stay. Snapshot does so for one that may die: who resumes that leaves out numbers of updates and blocks that may have been used, so C2
// holds, but an update that was under way may have been executed without anybody knowing.
//
// # Limits
//
// A directory that is renamed into another partition stays where it is, with what is below it; a file with one name moves. Its
// blocks come after it in the background (follow), with who reads them, or with a mover: while the partition where they were written
// is out of reach, what was not brought cannot be read. If a session expires (the client was cut off for longer than the lease), inodes that it
// held open without a name may be gone: ESTALE.
package client
