// Package route sends the commands of one client to the partitions of a cluster, and returns their results
// (thesis 3.4.1, 3.4.2). For each request it chooses the partition by the inode, the replica by its distance,
// and the time after which it tries the next replica. A Router holds the client's sessions, which make
// retries safe, and its vector clock, which makes reads causal. Package client builds the file operations on
// it.
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
//  1. A partition reaps an unlinked inode once each session has made a renewal, at or after the unlink's
//     place in the order, that does not name the inode.
//  2. A renewal reads the vector first, and the set of held inodes afterwards. A caller adds an inode to the
//     set first, and reads the inode afterwards.
//  3. So if a renewal does not name the inode, the caller reads the inode with a vector that is not older
//     than that of the renewal. If the inode was unlinked before, the caller learns it, and must not use the
//     inode.
//
// If a client with an Authority holds too many inodes, the partition refuses its renewal, and nothing
// changes. The client then renews without a vector: a renewal with an older vector than an earlier one only
// extends the lease, and the session keeps the inodes that it held. An inode that the client has opened after
// the last accepted renewal, and that is unlinked later, may be reaped after one lease to two: then the
// replicas assume that the client has seen the removal.
//
// # Another process
//
// Suspend stops a router without ending its sessions. Another router that adopts its State continues them. A
// state that was taken while the router ran (Snapshot of package client) may be old: the other router skips
// the numbers of updates and blocks that may have been used, so C2 holds. The outcome of an update that was
// under way is never known.
package route
