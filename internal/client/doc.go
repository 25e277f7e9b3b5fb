// Package client is a client of the file system (thesis 3.5.1, 3.8). It offers operations on names,
// attributes, open files, content, locks and placements, and transfers blocks. Mounts and the tools are built
// on it:
//
//	package mount, tools
//	package client           file operations, caches, handles, blocks
//	   |         |
//	   |      block stores   contents of files
//	package route            commands: sessions, choice of replicas, vector, retries
//	   |
//	replicas of partitions   metadata
//
// A Client consists of parts with one responsibility each: Names, Attributes, Handles, Reader, Writer, Locks,
// Placing, Collection, Copier, Persister. All methods may be called concurrently.
//
// # Guarantees for callers
//
// Package route keeps C1, C2, C5 and C6; its documentation states them in full.
//
//	C1  Every error is a posix.Code.
//	C2  An update is executed at most once, whatever fails. ETIMEDOUT, and EIO after the loss of a session,
//	    mean that it may or may not have been executed.
//	C3  Reads are causally consistent (T 3.4.1); with Config.Linearizable a read sees all operations that
//	    ended before it began, of all clients. View may use extents from an earlier answer, but only if this
//	    client has seen nothing newer of the partition since; blocks never change.
//	C4  Blocks are stored in all regions of the file's partition that can be reached, in a majority at least,
//	    before the write that names them is multicast (T 3.4.2). When Write returns, the write is as durable
//	    as the deployment makes it; Persist also waits for the disks of the servers.
//	C5  An inode that is open is not reaped when its last name goes, as long as the session lives.
//	C6  Every operation ends within Config.Timeout; with Config.Hard, when it was served or its caller's
//	    context ends. No operation waits for space (ENOSPC) or for the repair of damaged blocks.
//	C7  An operation may concern any number of partitions: it is executed in all of them or in none. An
//	    operation on a partition that cannot be reached ends with ETIMEDOUT, and does not delay others. The
//	    exception are changes that were answered there and are not ordered (Config.Delegate): later changes
//	    wait for them. No operation returns EXDEV.
//
// # Updates of names
//
// An update of a name is sent to the partition of the directory. If the named inode is in another partition,
// it is sent to all partitions that it concerns together (settle.go). EREMOTE means that a command met an
// inode of another partition, or one that another command is changing. The partition then has changed
// nothing, and the client looks up the inodes and tries again. A client reports each open inode to the home
// of the inode, wherever the inode is.
//
// # Open files
//
// Open first adds the inode to the held inodes, and then reads its attributes. If the inode was unlinked
// before, Open finds that it has no name, and refuses (C5). Create learns the number of its inode only from
// the answer; if a renewal was sent in between, Create checks the inode again.
//
// # Another process
//
// Suspend stops a client without ending its sessions. A client with Config.Resume continues them, with open
// files, locks and the vector. Snapshot saves the same state for the case that the process dies. The next
// client skips the numbers of updates and blocks that may have been used since, so C2 holds. The outcome of
// an update that was under way is never known.
//
// # Limits
//
// A directory that is renamed into another partition stays in its partition, with its contents; a file with
// one name moves. The blocks of the file follow in the background (copy.go), or when they are read, or with a
// mover. While the partition of their writing is out of reach, blocks that have not followed cannot be read.
// If a session expires (the client was cut off for longer than the lease), inodes that it held open without a
// name may be gone: ESTALE.
package client
