// Package route sends the commands of one client to the partitions of a cluster and returns their results. It
// knows where inodes are, which replica to ask and when to ask the next; it holds the client's sessions and
// its vector clock (thesis 3.4.1, 3.4.2; DESIGN 5.1). Package client builds the file operations on it.
//
// # Contract
//
// Package client promises C1 to C7 to its callers. The following are kept here:
//
//	C1  Every error is a posix.Code.
//	C2  An update is executed at most once, whatever fails: a retry through another replica carries the
//	    same (session, number). ETIMEDOUT, and EIO after the loss of a session, mean that it may or may
//	    not have been executed.
//	C3  Queries are causally consistent: each request carries the vector of all earlier answers, and a
//	    replica answers once it is as new (T 3.4.1). Observe and Wait adopt the vector of another client.
//	    A fresh query, and with Config.Linearizable every query, sees all that ended anywhere before it
//	    began: a quorum is asked.
//	C5  An inode that is held (Hold) is not reaped when its last name goes, as long as the session lives.
//	C6  Every call ends within Config.Timeout. The end of a caller's context ends a query at once. It ends
//	    an update with EINTR if nothing was multicast; otherwise the outcome is awaited. With Config.Hard a
//	    call ends when it was served, however long that takes, or when its caller's context ends: then a
//	    query ends at once, an update with EINTR if nothing was multicast, and otherwise within
//	    Config.Timeout from there on, with ETIMEDOUT. Cause ErrAbandoned ends every call at once.
//
// # Where an inode is
//
// The number of an inode says where it was made, its home. It may live elsewhere. A command to an inode goes
// to the partition where the inode is believed to be (At): by what answers and redirections have said,
// otherwise to its home. The home always knows: an inode is gone only if its home says ESTALE. EREMOTE says
// that an inode is in another partition, or that another command is just changing it: nothing was done, and
// the router tries again. A command to a given partition, or to several, is sent once: the caller handles
// EREMOTE.
//
// # Why C5 holds
//
// A partition reaps an unlinked inode once each session has renewed at or after the unlink's place in the
// order without naming the inode. A renewal therefore takes the vector first and the set of held inodes after
// it. A caller adds an inode to the set first and looks at it after. An inode that is missing in the renewal
// is thus looked at with a vector that is not older. If it was unlinked before, the look shows that, and the
// caller must not use it.
//
// A renewal that is refused, as a bound client holds too many, changes nothing. The client then renews without
// a vector: a renewal that has seen less than an earlier one extends the lease only. What is unlinked after the
// last renewal that was accepted is not reaped, so nothing that is held goes.
//
// # Another process
//
// Suspend stops a router without ending its sessions. Another router that adopts its State goes on with them.
// A state that was taken while the router ran (Snapshot of package client) may be old: the other router
// leaves out the numbers of updates and blocks that may have been used, so C2 holds, but the outcome of an
// update that was under way is never known.
package route
