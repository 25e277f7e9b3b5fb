// Package posix holds the nouns of the file system: inode numbers, modes,
// attributes, credentials, and Code, the one table of errors. Permission rules are pure
// functions. It imports nothing of the project.
package posix

import (
	"encoding/binary"
	"fmt"
	"time"
)

// Ino is an inode number: home partition (16 bits) and counter (48 bits). It
// never changes and is never used again.
type Ino uint64

// Root is the inode of "/": counter 1 of partition 0. The root directory of
// every partition has counter 1.
const Root Ino = 1

// CounterBits is the width of the counter in an Ino.
const CounterBits = 48

// MakeIno composes an inode number; counter must be below 2^48.
func MakeIno(partition uint16, counter uint64) Ino {
	return Ino(uint64(partition)<<CounterBits | counter)
}

// Partition returns the home partition, which made the inode.
func (i Ino) Partition() uint16 { return uint16(i >> CounterBits) }

// Counter returns the number of the inode in its home partition.
func (i Ino) Counter() uint64 { return uint64(i) & (1<<CounterBits - 1) }

// Mode is st_mode: the type of a file and its permission bits, as Linux numbers them.
type Mode uint32

// Types and bits of a Mode.
const (
	TypeMask    Mode = 0o170000
	TypeSocket  Mode = 0o140000
	TypeSymlink Mode = 0o120000
	TypeRegular Mode = 0o100000
	TypeBlock   Mode = 0o060000
	TypeDir     Mode = 0o040000
	TypeChar    Mode = 0o020000
	TypeFIFO    Mode = 0o010000
	SetUID      Mode = 0o4000
	SetGID      Mode = 0o2000
	Sticky      Mode = 0o1000
	PermMask    Mode = 0o7777
)

// Type returns the type bits.
func (m Mode) Type() Mode { return m & TypeMask }

// Perm returns the permission bits with set-id and sticky.
func (m Mode) Perm() Mode { return m & PermMask }

// IsDir reports whether m is a directory's.
func (m Mode) IsDir() bool { return m.Type() == TypeDir }

// IsRegular reports whether m is a regular file's.
func (m Mode) IsRegular() bool { return m.Type() == TypeRegular }

// Time is nanoseconds since the Unix epoch, UTC.
type Time int64

// Std converts t to the standard library's time.
func (t Time) Std() time.Time { return time.Unix(0, int64(t)) }

// Attr is the result of stat. The caller derives st_blocks from Bytes.
type Attr struct {
	Ino   Ino
	Mode  Mode
	Nlink uint32
	UID   uint32
	GID   uint32
	Rdev  uint32
	Size  uint64 // bytes; of a symlink, the length of its target
	Bytes uint64 // bytes held by extents
	Atime Time
	Mtime Time
	Ctime Time
}

// Cred is the user and the group of a request. Root is UID 0.
type Cred struct {
	UID, GID uint32
}

// Limits of the file system.
const (
	MaxName   = 255       // bytes in one name
	MaxTarget = 4095      // bytes in a symlink's target
	MaxXattr  = 64 << 10  // bytes in one xattr's value, as Linux limits it
	MaxSize   = 1<<63 - 1 // bytes in a file
	MaxLinks  = 1<<31 - 1 // links to one inode
)

// BlockID names an immutable data block for ever: partition (2 bytes), session of its
// writer (6 bytes) and the writer's counter (8 bytes), big endian.
type BlockID [16]byte

// String returns the id in hexadecimal.
func (id BlockID) String() string { return fmt.Sprintf("%x", id[:]) }

// BlockRight proves to storage servers that a replica has given a client the place of a block of a file that
// the client may read. The zero BlockRight proves nothing.
type BlockRight [16]byte

// Ticket proves to replicas that a client has learnt the number of an inode from a replica. It is two tags of
// 8 bytes, by the newest and the last key. The zero Ticket proves nothing.
type Ticket [16]byte

// MaxBlock is the size of the largest block in bytes.
const MaxBlock = 1 << 20

// MakeBlockID composes a block id; session must be below 2^48.
func MakeBlockID(partition uint16, session uint64, counter uint64) BlockID {
	var id BlockID
	id[0], id[1] = byte(partition>>8), byte(partition)
	for i := range 6 {
		id[2+i] = byte(session >> (8 * (5 - i)))
	}
	for i := range 8 {
		id[8+i] = byte(counter >> (8 * (7 - i)))
	}
	return id
}

// Partition returns the partition that the block was written for: its home.
func (id BlockID) Partition() uint16 { return binary.BigEndian.Uint16(id[:2]) }

// Session returns the session of the block's writer.
func (id BlockID) Session() uint64 { return binary.BigEndian.Uint64(id[:8]) & (1<<48 - 1) }

// Counter distinguishes the blocks of a session.
func (id BlockID) Counter() uint64 { return binary.BigEndian.Uint64(id[8:]) }
