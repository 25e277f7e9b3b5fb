// Package meta is the metadata of one partition as a deterministic state machine (thesis section 3.5.3):
// inodes, names, extents, xattrs, locks and rules in ordered keys (Keys).
//
//	Apply(update) -> Result            an update of one partition, at its place in the order
//	Prepare(update) -> Vote            an update of several partitions: the vote of this one, and holds
//	Decide(votes) -> Result            its outcome, which is a function of the votes of all parties
//	Query(query) -> Result             a read
//	Outbox, ExecutePosts               posts: changes that follow in other partitions, and cannot fail
//
// It has no clock and no randomness: times come with the commands. Replicas that apply the same updates have
// the same bytes in their stores. A command reads and changes a scene (scene.go): the inodes and entries that
// it concerns. With one partition, look finds the scene and the checks decide. With several, each partition
// puts its part of the scene into its vote, and combine applies the same checks to the scene of all votes.
//
// The semantics are those of Linux. An operation that fails changes nothing. atime changes only by SetAttr,
// as in the thesis.
//
// # Permissions
//
// The kernel of a client machine checks the permissions of its users. A command without an Authority comes
// from a client that may act as root, and is not checked further. A command with an Authority comes from a
// machine that may act only for some users and groups, whatever its kernel and its programs claim. It is
// checked here (bind, permit.go):
//
//   - Names, attributes and xattrs are changed on behalf of one user: the user in the command, if the machine
//     may act for that user; root counts as nobody. The rules are those of Linux, applied to the state at the
//     command's place in the order, so a chmod that was ordered before counts.
//   - Content of files and directories is accessed for the whole machine: access is allowed if any user of
//     the machine is allowed. The machine accesses content by descriptors, which may have been opened
//     earlier, or by another of its users. An owner may also access any content, because the owner could
//     change the mode, and may write to a file that was created without write permission. Queries name no
//     user.
//   - A write clears the set-id bits. A set-group-id bit can be set only for groups of the machine. Only root
//     makes devices.
//   - A client that has received the number of an inode in an answer may read its attributes, symlink
//     target, rule and parents. Directories on a path protect only names. The asked replica verifies, by
//     tickets, that the client has received the numbers in its command (named.go).
//   - Commands that concern more than an inode and its names are refused: Move, Collected, posts, Scan,
//     Queue, Garbage, Rules. Tasks are returned for own directories only. So a client with an Authority
//     cannot choose the number of an inode (mknod.go).
//
// All parties of a command know its Authority and see the same scene, so they decide alike. Locks are kept at
// the home of an inode. The home does not know the owner of an inode that lives elsewhere, so every client
// may lock such an inode.
//
// # Where inodes are
//
// An inode keeps its number for ever, and the number contains its home partition. The inode lives at its
// home, or in another partition; then its home has a forwarding, which names that partition. An entry (a
// name in a directory) may name any inode. If the inode is in another partition, the entry has a hint of
// that partition, which may be out of date. A partition that is asked for an inode that it does not have
// answers EREMOTE with the partition of the inode if it is the home, else ESTALE: the client then asks the
// home. The root directories of partitions (Birth) never move, and commands that would remove or replace
// them get EBUSY.
//
// An update that concerns an inode of another partition gets EREMOTE with that inode. The client then orders
// it as a command of all partitions that it concerns (thesis section 3.5.3). Each of them executes Prepare,
// which returns a vote, and Decide, which gets all votes (cross.go). From Prepare to Decide it holds the
// state on which the command depends (hold.go). A command that meets such a hold changes nothing, gets EHELD,
// and must be tried again later.
//
// To make an inode in another partition than its directory, only the partition of the directory executes an
// update. It takes the number from a pool of numbers of the other partition, and a post makes the inode there
// (pool.go). Until then, queries and updates of the inode get EHELD there.
//
// A block stays where it was written when its file moves, and its home remains responsible for it (block.go,
// queue.go).
//
// When an inode away from home loses its last name, a post informs its home (outbox.go), because the home
// knows the sessions that hold the inode open. When no session does, another post informs the partition of
// the inode.
//
// # Keys
//
// Numbers in keys are big endian and have 8 bytes, and values are varints (package varint), unless this list
// says otherwise.
//
//	0x01                  format, partition, newest inode, inodes, bytes; of the blocks of this home those in
//	                      use and their bytes; blocks in the queue, bytes of those of this home; the newest
//	                      place and its time
//	0x02 ino              inode (inode.go)
//	0x03 dir name         ino, type, hint of its partition, cookie
//	0x04 dir cookie       ino, type, hint, name: the same entry for ReadDir
//	0x05 ino end          0, content: a literal extent; or 1, block, length, skip. The key has the
//	                      offset of its end, so that a forward scan finds the extents that overlap a range
//	0x06 ino name         an xattr's value
//	0x07 ino              an orphan: the counter of the update that took the last name
//	0x08 block            state (block.go), references or place in the queue, length at its home
//	0x09 place            block, time: the queue of dropped blocks, in the order in which they were dropped
//	0x0a ino              the partition of an inode of this home that lives elsewhere
//	0x0b number           an undecided command, its parties, whether it waits, the vote given, its holds,
//	                      the name of its client; its Authority, if it has one
//	0x0c partition number  a post: command (outbox.go); the partition is of 2 bytes
//	0x0d ino              a directory's rule (place.go)
//	0x0e ino              a row of the table of placements
//	0x0f ino              a task (task.go)
//	0x10                  locks on files (lock.go)
//	0x11 number/64        numbers in the pools of other partitions, or named there, that no inode has yet, as
//	                      bits (reserve.go)
//	0x12 partition        the exchange with another partition: newest post, last one executed, whether it was
//	                      asked for numbers, the pool of its numbers (peer.go); the partition is of 2 bytes
//	0x13                  the partitions of the region, if there are several (shards.go)
//
// # Invariants
//
// Check verifies all of them on a stored state of one partition, as far as it can tell; CheckAll on all.
//
//	I1  an entry names an inode that is here and of the type that the entry says, or one elsewhere: such an
//	    inode has another home or a forwarding, or is one of this home that is reserved, and on its way to be
//	    made. An inode that is forwarded is not here.
//	I2  nlink is the number of entries that name the inode, in all partitions; of a directory 2 plus its
//	    subdirectories, 0 once it is removed. Size of a directory is the number of its entries.
//	I3  a directory has exactly one name, in its parent, and the parents lead to a root, through
//	    whichever partitions.
//	I4  an inode has no link if and only if it is recorded as an orphan in its partition. Its home records it,
//	    too, after a post. A removed directory is empty and stays empty.
//	I5  each entry is stored twice, by name and by cookie. The cookies of a directory only grow, from 3 on (1
//	    and 2 are for "." and ".."). An entry keeps its cookie when it gets another inode.
//	I6  extents of a file do not overlap, and none ends after its size; a literal one has at
//	    most MaxLiteral bytes, a block at most MaxBlock.
//	I7  a block belongs to one inode. Its references are the extents that hold a part of it. It is in the
//	    queue, once, as soon as the last of them is gone, wherever that was. A block that was in the queue
//	    once is never referenced again.
//	I8  the counters of the partition are the sums over its inodes. Inode numbers are
//	    never used again; a reserved one is not in use, and in one pool at most.
//	I9  the home of a block, the partition that it was written for, has a record of it from the write on until
//	    OpCollected: it is held here, away, or in the queue. It is away if and only if another partition holds
//	    it, or it is on its way between two, or a post is on its way home that says that it was dropped.
package meta
