// Package meta is the metadata of one partition as a deterministic state machine (thesis section 3.5.3).
// Apply executes an update in the order of the multicast, Query reads. It has no clock and no randomness:
// times come with the command. Replicas that apply the same updates hold the same bytes.
//
// Semantics are those of Linux. An operation that fails changes nothing. atime changes only by SetAttr, as in
// the thesis.
//
// # Permissions
//
// The kernel of a client machine checks the permissions of each of its users. A command without an Authority
// is from a client that may be root, and no more checks are made. A command with an Authority is from a
// machine that speaks for some users and groups only, independently of the claims of its kernel and its
// programs (bind, permit.go):
//
//   - Names, attributes and xattrs are changed by a user. He is the one that the command says, if the machine
//     may speak for him; root becomes nobody. The rules are those of Linux, by the state that the command
//     meets in the order: a chmod that was ordered before counts.
//   - The content of files and of directories is reached through descriptors that were opened when that was
//     allowed, maybe for another user of the machine who has passed them on; and the owner may do anything,
//     as he could have changed the mode, and writes to a file that he has just created without permission to
//     write. So access to content is judged for the machine: it is allowed if any user of the machine is
//     allowed. Queries do not name a user at all.
//   - A write takes the set-id bits away. A set-group-id bit is only for groups of the machine. Devices are
//     for root.
//   - Attributes, the targets of symlinks, rules and ways up can be seen by every client that was told the
//     number of an inode. Directories on a path protect names. The asked replica verifies that the client
//     was told the numbers that its command names (named.go).
//   - All that is about more than an inode and its names (Move, Collected, posts, Scan, Queue, Garbage,
//     Rules) is refused; of tasks, those of own directories are shown. So a bound client cannot number an
//     inode itself (made.go).
//
// All parties of a command know its Authority and see the same scene, so they decide alike. Locks are kept at
// the home of an inode, which does not know the owner of one that lives elsewhere: that can be locked by all.
//
// # Where inodes are
//
// An inode keeps its number, and with it its home partition, for ever. It lives there, or elsewhere, and then
// its home has a forwarding. Any entry may name any inode; of one that is not here it has a hint of where it
// was. A partition that is asked for an inode that is not there answers EREMOTE and where it is if it is the
// home, and ESTALE otherwise: the home then knows. The root directories of partitions (Birth) never move and
// are otherwise in the way (EBUSY).
//
// A command that meets an inode elsewhere gives EREMOTE with that inode; it must be multicast to all the
// partitions it concerns (thesis section 3.5.3). Each executes it by Prepare, which gives a vote, and Decide,
// which has all votes (cross.go); from Prepare to Decide the partition holds the state on which the command
// depends (hold.go). A command that meets such a hold changes nothing, gives EHELD, and is to be tried again
// later.
//
// Something new in another partition than its directory is an update of the directory's partition alone,
// which has numbers of the other one in a pool; a post has the inode made there (pool.go). Until then queries
// and updates of it give EHELD there.
//
// A block stays where it was written when its file moves, and in the care of that partition (block.go,
// queue.go).
//
// When an inode away from home loses its last name, a post tells its home (outbox.go), since the home knows
// the clients that hold it open. When no client does, another post tells the partition of the inode.
//
// # Keys
//
// Numbers in keys are big endian and of 8 bytes; values are varints (package varint) unless said.
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
//	I4  an inode has no link if and only if it is an orphan, where it is and, as soon as that is told, at
//	    home. A removed directory is empty and stays so.
//	I5  each entry is stored by name and by cookie alike; cookies of a directory only grow, from 3 on
//	    (1 and 2 are left to "." and ".."), and an entry keeps its own, also when it
//	    comes to name another inode.
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
