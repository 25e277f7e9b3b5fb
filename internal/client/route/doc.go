// Package route sends the commands of one client to the partitions of a cluster and returns their results. It
// knows the partitions of inodes. It chooses the replica of each request and the time of a retry at the next
// one. It holds the client's sessions and its vector clock (thesis 3.4.1, 3.4.2). Package client
// builds the file operations on it.
//
// # Contract
//
// Package client guarantees C1 to C7 to its callers. Package route keeps the following:
//
//	C1  Every error is a posix.Code.
//	C2  An update is executed at most once, whatever fails: a retry through another replica carries the
//	    same (session, number). ETIMEDOUT, and EIO after the loss of a session, mean that it may or may
//	    not have been executed.
//	C3  Queries are causally consistent: each request carries the vector of all earlier answers, and a
//	    replica answers once it is as new (T 3.4.1). Observe and Wait adopt the vector of another client.
//	    A fresh query, and with Config.Linearizable every query, sees all operations that ended before it
//	    began, of all clients: it asks a quorum.
//	C5  An inode that is held (Hold) is not reaped when its last name goes, as long as the session lives.
//	C6  Every call ends within Config.Timeout. The end of a caller's context ends a query at once. It ends
//	    an update with EINTR if nothing was multicast; otherwise the outcome is awaited. With Config.Hard a
//	    call ends when it was served, however long that takes, or when its caller's context ends: then a
//	    query ends at once, an update with EINTR if nothing was multicast, and otherwise within
//	    Config.Timeout from there on, with ETIMEDOUT. Cause ErrAbandoned ends every call at once.
//
// # The place of an inode
//
// The number of an inode names the partition in which it was made, its home. The inode may be elsewhere. A
// command to an inode goes to the partition of the client's last information (At), from answers and
// redirections, otherwise to the home. The home always knows: an inode is gone only if its home returns
// ESTALE. EREMOTE means that an inode is in another partition, or that another command is changing it: the
// partition did nothing, and the router tries again. A command to a given partition, or to several, is sent
// once: the caller handles EREMOTE.
//
// # Why C5 holds
//
//  1. A partition reaps an unlinked inode once each session has renewed at or after the unlink's place in the
//     order without naming the inode.
//  2. A renewal therefore takes the vector first and the set of held inodes after it. A caller first adds an
//     inode to the set and then looks at it.
//  3. By 2, if an inode is missing in a renewal, the look at it carries a vector that is not older than the
//     renewal's. If the inode was unlinked before, the look shows that, and the caller must not use it.
//
// A renewal that is refused, because a bound client holds too many inodes, changes nothing. The client then
// renews without a vector: a renewal that has seen less than an earlier one extends the lease only. Inodes
// that are unlinked after the last accepted renewal are not reaped, so no held inode is lost.
//
// # Another process
//
// Suspend stops a router without ending its sessions. Another router that adopts its State continues them. A
// state that was taken while the router ran (Snapshot of package client) may be old: the other router skips
// the numbers of updates and blocks that may have been used, so C2 holds. The outcome of an update that was
// under way is never known.
package route
