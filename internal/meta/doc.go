// Package meta is the metadata of one partition as a deterministic state machine (DESIGN
// section 5; thesis section 3.5.3): Apply executes an update in the order of the multicast, Query reads.
// It has no clock and no randomness: times come with the command. Replicas that apply the same updates hold
// the same bytes.
//
// Semantics are those of Linux; permissions are checked by the client's kernel. An operation that fails changes
// nothing. An inode number that is not in use here gives ESTALE, also one of another partition; link and
// rename give EXDEV for such. An entry may name the root directory of another partition (Birth): it can be
// looked up and listed, and is otherwise in the way (EBUSY). atime changes only by SetAttr, as
// in the thesis.
//
// # Keys
//
// Numbers in keys are big endian and of 8 bytes; values are varints (package varint) unless said.
//
//	0x01                  format, partition, newest inode, inodes, bytes, blocks dropped, newest in the queue
//	0x02 ino              inode (inode.go)
//	0x03 dir name         ino, type, cookie
//	0x04 dir cookie       ino, type, name: the same entry for ReadDir
//	0x05 ino end          0, content: a literal extent; or 1, block, length, skip. The key has the
//	                      offset of its end, so that a forward scan finds what overlaps a range
//	0x06 ino name         an xattr's value
//	0x07 ino              an orphan: the counter of the update that took the last name
//	0x08 block            references, place in the queue if there are none
//	0x09 place            block: the queue of dropped blocks, in the order in which they were dropped
//
// # Invariants
//
// Check verifies all of them on a stored state.
//
//	I1  an entry names an inode of this partition that is there and of the type that the entry
//	    says, or the root directory of another partition.
//	I2  nlink is the number of entries that name the inode; of a directory 2 plus its
//	    subdirectories, 0 once it is removed. Size of a directory is the number of its entries.
//	I3  a directory has exactly one name, in its parent, and the parents lead to the root.
//	I4  an inode has no link if and only if it is an orphan. A removed directory is empty and stays so.
//	I5  each entry is stored by name and by cookie alike; cookies of a directory only grow, from 3 on
//	    (1 and 2 are left to "." and ".."), and an entry keeps its own, also when it
//	    comes to name another inode.
//	I6  extents of a file do not overlap, and none ends after its size; a literal one has at
//	    most MaxLiteral bytes, a block at most MaxBlock.
//	I7  a block's references are the extents that hold a part of it. Without any it is in the queue, once;
//	    with some it is not. So what is in the queue is needed by nobody.
//	I8  the counters of the partition are the sums over its inodes. Inode numbers are
//	    never used again.
package meta
