package meta

import (
	"github.com/globalfs/globalfs/internal/posix"
)

// Op is an update or a query, numbered for ever: it is on the wire and in logs.
type Op uint8

// Updates, which are multicast.
const (
	OpMknod       Op = 1 + iota // Ino=parent Name Mode Rdev -> Attr; also mkdir and symlink (Data=target) by the type in Mode; Flags: Exclusive for regular files; in another partition if the rule of the parent says so: see pool.go
	OpLink                      // Ino NewParent NewName -> Attr
	OpUnlink                    // Ino=parent Name -> Attr of the unlinked inode (Nlink after)
	OpRmdir                     // Ino=parent Name -> Attr of the removed directory
	OpRename                    // Ino=parent Name NewParent NewName Flags: RenameNoReplace, RenameExchange -> Attr of the moved inode
	OpSetAttr                   // Ino Set Attr -> Attr
	OpWrite                     // Ino Offset Data|Blocks Length Flags: Append -> Attr, Number=offset written at
	OpFallocate                 // Ino Offset Length Flags: Fallocate* -> Attr
	OpSetXattr                  // Ino Name Data Flags: XattrCreate, XattrReplace
	OpRemoveXattr               // Ino Name
	OpMove                      // Child Target -> Attr: the inode with all it holds goes to partition Target; its number and names stay
	OpPlace                     // Ino=directory Data=an encoded Rule: where new children go, and the table of partition 0; Target Flags: PlaceMove -> existing children are to be moved to Target
	OpTask                      // Ino Target Length=inodes moved so far Flags: TaskPause, TaskResume, TaskDone: tells of a task
	OpLock                      // Ino Offset Length (0: to the end) Owner PID Flags: LockWrite, LockUnlock, LockFlock -> EAGAIN if others hold it; goes to the home of the inode
	OpGone                      // Child Target: to the home of an inode: it has no name any more, at Target (Outbox)
	OpReleased                  // Child: to where an inode is: nobody holds it open (Outbox)
	OpNumbers                   // Length: asks for numbers for inodes to be made there (Outbox)
	OpMake                      // Child Data=an encoded inode: it has got a name where this is from (Outbox)
	OpDropped                   // Blocks (without lengths): to their home: nothing holds them any more, where they were held (Outbox)
	OpCollected                 // Blocks (without lengths), which were in the queue of dropped blocks: their copies are deleted -> Number=of how many this was new
	OpGranted                   // Child Length: numbers from Child on, of the partition that posts, are for the receiver to use (Outbox)
	OpDelegate                  // as OpMknod of a directory, Offset=number of the session's log -> Attr, Number=partition, Number2=the first of the numbers for the session, which holds the directory exclusively; without Name: Ino=an existing directory to hold, Length=number of the request, Set and Attr.Ctime: as the client knows the directory -> Attr of it if it is held, Data=the time; without Ino: numbers only (package delegation)
	OpBatch                     // Data=an encoded delegation.Batch -> Data=an encoded delegation.Done
	opUpdateEnd
)

// Queries, which one replica answers.
const (
	OpLookup    Op = 64 + iota // Ino=parent Name -> Attr; only Attr.Ino and the type are set if the inode is in another partition
	OpGetAttr                  // Ino -> Attr
	OpReadlink                 // Ino -> Data
	OpReadDir                  // Ino Offset=cookie after which to start (0: from the start) Length=max entries, at most MaxEntries -> Entries; none at the end
	OpGetXattr                 // Ino Name -> Data
	OpListXattr                // Ino -> Data: names, each ended by a NUL
	OpExtents                  // Ino Offset Length -> Attr, Extents that overlap the range, in order, clipped to it; gaps are holes; Number=up to which offset they are all, less than asked for if there are very many
	OpStatFS                   // -> Number=inodes in use, Number2=bytes in use
	OpRule                     // Ino=directory -> Attr, Data=its encoded Rule, which says nothing if it has none
	OpRules                    // Ino=row after which to start, Length=max rows, at most MaxRows -> Data=encoded Placements, Number=how many; of partition 0
	OpTasks                    // Ino=task after which to start, Length=max tasks, at most MaxRows -> Data=encoded Tasks, Number=how many
	OpScan                     // Data=key after which to start, Length=max bytes -> Data=encoded Pairs: the keys of meta as they are stored; none at the end
	OpGetLock                  // Ino Offset Length Owner Flags as of Lock -> Data=the first FileLock of another owner that is in the way; none if it would be granted
	OpChain                    // Ino=directory -> Attr.Ino=the first directory above it that is in another partition, 0 if there is none up to the root; Number=its partition, as far as known
	OpQueue                    // Offset=place in the queue of dropped blocks after which to start, Length=max blocks, at most MaxIDs, Time: dropped before -> Data=encoded BlockUsage and Dropped (DecodeQueue), Number=how many
	OpGarbage                  // Blocks (without lengths) -> Data: for each whether it is garbage (DecodeGarbage); of their home, Fresh
	OpCarry                    // Ino=directory that the client holds, Offset=cookie after which to start, Length=about how many bytes -> Data: the directory (from the start only) and its files as Adopt reads them, Number=cookie after which to go on, 0 at the end
	opQueryEnd
)

// IsUpdate reports whether op must be multicast.
func (op Op) IsUpdate() bool { return op >= OpMknod && op < opUpdateEnd }

// IsPost reports whether only partitions say op to each other (Outbox).
func (op Op) IsPost() bool {
	switch op {
	case OpGone, OpReleased, OpDropped, OpNumbers, OpGranted, OpMake:
		return true
	}
	return false
}

// IsQuery reports whether op only reads.
func (op Op) IsQuery() bool { return op >= OpLookup && op < opQueryEnd }

// Flags of a Command, by operation.
const (
	Exclusive         uint32 = 1 << iota // Mknod: EEXIST if the name exists; without it an existing regular file is opened
	Truncate                             // Mknod that found an existing file: cut it to size 0 (O_CREAT|O_TRUNC in one step)
	Append                               // Write: at the end of the file as it is when delivered
	RenameNoReplace                      // Rename: EEXIST if the target exists
	RenameExchange                       // Rename: swap the two
	FallocatePunch                       // Fallocate: make a hole; the size stays
	FallocateZero                        // Fallocate: make the range zeros
	FallocateKeepSize                    // Fallocate: do not grow the file
	XattrCreate                          // SetXattr: EEXIST if it exists
	XattrReplace                         // SetXattr: ENODATA if it does not
	PlaceMove                            // Place: existing children, too
	TaskPause                            // Task: stop for now
	TaskResume                           // Task: go on
	TaskDone                             // Task: nothing is left to do
	LockWrite                            // Lock: exclusive; without it shared
	LockUnlock                           // Lock: let the range go
	LockFlock                            // Lock: the whole file, apart from the ranges of fcntl
	TellDir                              // Mknod, Unlink, Rmdir, Link, Rename of one partition: the result has the directory and Others, too
	TellRights                           // Extents: the result has the rights to read the blocks, too, if the client is bound
	OnDisk                               // Batch: ordered with multicast.Message.Durable; the answer tells the place
	AwaitLock                            // GetLock: the replica keeps the query while there is a conflict, for a second at most; earlier versions answer at once
)

// Fields of Command.Attr that SetAttr sets. Unset times are left alone; SetMtimeNow and
// SetAtimeNow take Command.Time.
const (
	SetMode uint32 = 1 << iota
	SetUID
	SetGID
	SetSize
	SetAtime
	SetMtime
	SetAtimeNow
	SetMtimeNow
	SetCtime
	KillSetID // clear set-user-id and set-group-id as a write by a non-owner does
)

// Command is one update or query. The comment beside an Op names the fields that the operation uses; the
// others are zero. The sender that multicasts a command chooses its Time; a replica that applies the command
// never does.
type Command struct {
	Op        Op
	Cred      posix.Cred
	Time      posix.Time
	Ino       posix.Ino
	Name      string
	NewParent posix.Ino
	NewName   string
	Mode      posix.Mode
	Rdev      uint32
	Flags     uint32
	Set       uint32
	Attr      posix.Attr
	Offset    uint64
	Length    uint64
	Data      []byte
	Blocks    []Block

	// Of commands over several partitions: the inodes and partitions that the client has found. An operation
	// that finds others gives EREMOTE and changes nothing.
	Child    posix.Ino   // the inode of Name; of Link and Move the inode itself; of Mknod in a Batch the number of the new inode, which stays in the partition of its directory. 0: in one partition only
	NewChild posix.Ino   // the inode of NewName, 0 if there is none
	Target   uint16      // partition to which an inode moves
	Chain    []posix.Ino // Rename of a directory: NewParent, and each directory above it whose child on the way is in another partition
	Back     []posix.Ino // the same from Ino, when NewName is a directory that is exchanged

	Owner   uint64 // of Lock: tells the owners of a session apart
	PID     uint32 // of Lock: shown in answers
	Session uint64 // of the client that asks: set by the replica, not part of the encoding, like
	Horizon uint64 // below which all counters of blocks of the session are decided, and
	Client  string // its name, as it was proved; empty: the cluster's own
	// Authority has the users and groups for which the client may speak; nil: all, root included. It is set
	// by the replica, too.
	Authority *posix.Authority
}

// Block is a piece of new content: the first Length bytes of a block. The pieces of a
// Write follow each other in the file. Each is a new block, of the partition that executes the Write, of the
// session that orders it and not below the session's horizon: EINVAL otherwise.
type Block struct {
	ID     posix.BlockID
	Length uint32
}

// Extent says where the bytes [Offset, Offset+Length) of a file are: in Data, or from
// byte Skip of a block on.
type Extent struct {
	Offset uint64
	Length uint64
	Data   []byte        // literal content; nil if Block holds it
	Block  posix.BlockID // if Data is nil
	Skip   uint32
	Right  posix.BlockRight // to read Block; only in answers to bound clients that ask for it (TellRights), not stored
}

// Entry is one name in a directory.
type Entry struct {
	Name   string
	Cookie uint64     // where ReadDir goes on after this entry; grows; stable while the entry exists
	Attr   posix.Attr // only Ino and the type in Mode if the inode is in another partition
	At     uint16     // partition where the inode is, as far as this one knows
}

// Result is the answer to a Command. With EREMOTE, Attr.Ino is the inode that is missing here, and Number the
// partition where that inode is, as far as this partition knows. Lookup gives Number in the same sense
// always.
type Result struct {
	Code    posix.Code
	Attr    posix.Attr
	Data    []byte
	Entries []Entry
	Extents []Extent
	Number  uint64
	Number2 uint64
	Dir     posix.Attr // of the directory that has changed, for a client that asks for it (TellDir); of Rename that of the old name
	// Others are the further inodes that a Rename has changed, after the change, for a client that asks
	// for them (TellDir): the directory of the new name if it is another one, and the inode that had the
	// new name.
	Others []posix.Attr
}

// Limits of one command, checked where commands come in.
const (
	MaxLiteral = 4 << 10 // bytes of content in Command.Data; larger content travels as blocks
	MaxBlock   = 1 << 20 // bytes in one block
	MaxBlocks  = 64      // blocks in one Write
	MaxIDs     = 1 << 10 // blocks in one command that only names them
	MaxExtents = 1 << 15 // extents in one answer
	MaxChain   = 4 << 10 // directories in Chain and in Back: more than a path has names
	MaxBatch   = 1 << 20 // bytes of Data in a Batch
)
