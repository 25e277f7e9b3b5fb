package meta

import (
	"github.com/globalfs/globalfs/internal/posix"
)

// Op is an operation: an update or a query. The values are stable: they are on the wire and in logs.
type Op uint8

// Updates, which are ordered. Each comment has the form: fields of the Command -> fields of the Result.
// "Outbox" marks posts, which only partitions send to each other.
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
	OpTask                      // Ino Target Length=inodes moved so far Flags: TaskPause, TaskResume, TaskDone: changes or reports the state of a task
	OpLock                      // Ino Offset Length (0: to the end) Owner PID Flags: LockWrite, LockUnlock, LockFlock -> EAGAIN if others hold it; goes to the home of the inode
	OpGone                      // Child Target: to the home of an inode: the inode, in partition Target, has no name any more (Outbox)
	OpReleased                  // Child: to the partition of an inode: no session holds the inode open (Outbox)
	OpNumbers                   // Length: requests numbers for inodes that the receiver will make (Outbox)
	OpMake                      // Child Data=an encoded inode: the sender has given it a name, and the receiver must make it (Outbox)
	OpDropped                   // Blocks (without lengths): to their home: the partition that held them has dropped them (Outbox)
	OpCollected                 // Blocks (without lengths), which were in the queue of dropped blocks: their copies are deleted -> Number=how many of them were still queued
	OpGranted                   // Child Length: numbers of the sending partition from Child on, which the receiver may use (Outbox)
	OpDelegate                  // as OpMknod of a directory, Offset=number of the session's log -> Attr, Number=partition, Number2=the first of the numbers for the session, which holds the directory exclusively; without Name: Ino=an existing directory to hold, Length=number of the request, Set and Attr.Ctime: as the client knows the directory -> Attr of it if it is held, Data=the time; without Ino: numbers only (package delegation)
	OpBatch                     // Data=an encoded delegation.Batch -> Data=an encoded delegation.Done
	opUpdateEnd
)

// Queries, which one replica answers. The comments have the same form as those of the updates.
const (
	OpLookup    Op = 64 + iota // Ino=parent Name -> Attr; only Attr.Ino and the type are set if the inode is in another partition
	OpGetAttr                  // Ino -> Attr
	OpReadlink                 // Ino -> Data
	OpReadDir                  // Ino Offset=cookie after which to start (0: from the start) Length=maximum number of entries, at most MaxEntries -> Entries; none at the end; Number=the last cookie that the directory has given
	OpGetXattr                 // Ino Name -> Data
	OpListXattr                // Ino -> Data: names, each followed by a NUL
	OpExtents                  // Ino Offset Length -> Attr, Extents that overlap the range, in order, clipped to it; gaps are holes; Number=offset up to which they are complete, before the end of the range if there are very many
	OpStatFS                   // -> Number=inodes in use, Number2=bytes in use
	OpRule                     // Ino=directory -> Attr, Data=its encoded Rule, which is empty if it has none
	OpRules                    // Ino=row after which to start, Length=maximum number of rows, at most MaxRows -> Data=encoded Placements, Number=how many; only in partition 0
	OpTasks                    // Ino=task after which to start, Length=maximum number of tasks, at most MaxRows -> Data=encoded Tasks, Number=how many
	OpScan                     // Data=key after which to start, Length=maximum bytes -> Data=encoded Pairs: the stored keys of meta; none at the end
	OpGetLock                  // Ino Offset Length Owner Flags as of Lock -> Data=the first FileLock of another owner that conflicts; none if the lock would be granted
	OpChain                    // Ino=directory -> Attr.Ino=the first directory above it that is in another partition, 0 if there is none up to the root; Number=its partition, as far as known
	OpQueue                    // Offset=place in the queue of dropped blocks after which to start, Length=maximum number of blocks, at most MaxIDs, Time: only blocks dropped before -> Data=encoded BlockUsage and Dropped (DecodeQueue), Number=how many
	OpGarbage                  // Blocks (without lengths) -> Data: for each whether it is garbage (DecodeGarbage); at their home, Fresh
	OpCarry                    // Ino=directory that the client holds, Offset=cookie after which to start, Length=approximate maximum bytes -> Data: the directory (from the start only) and its files for Adopt, Number=cookie after which to continue, 0 at the end
	opQueryEnd
)

// IsUpdate reports whether op must be ordered.
func (op Op) IsUpdate() bool { return op >= OpMknod && op < opUpdateEnd }

// IsPost reports whether op is a post, which only partitions send to each other (Outbox).
func (op Op) IsPost() bool {
	switch op {
	case OpGone, OpReleased, OpDropped, OpNumbers, OpGranted, OpMake:
		return true
	}
	return false
}

// IsQuery reports whether op only reads.
func (op Op) IsQuery() bool { return op >= OpLookup && op < opQueryEnd }

// Flags of a Command, with the operations that use them.
const (
	Exclusive         uint32 = 1 << iota // Mknod: EEXIST if the name exists; without it an existing regular file is opened
	Truncate                             // Mknod that found an existing file: cut it to size 0 (O_CREAT|O_TRUNC in one step)
	Append                               // Write: at the end of the file at the command's place in the order
	RenameNoReplace                      // Rename: EEXIST if the target exists
	RenameExchange                       // Rename: swap the two
	FallocatePunch                       // Fallocate: make a hole; the size does not change
	FallocateZero                        // Fallocate: make the range zeros
	FallocateKeepSize                    // Fallocate: do not change the size
	XattrCreate                          // SetXattr: EEXIST if it exists
	XattrReplace                         // SetXattr: ENODATA if it does not
	PlaceMove                            // Place: move existing children, too
	TaskPause                            // Task: pause it
	TaskResume                           // Task: continue it
	TaskDone                             // Task: it is finished
	LockWrite                            // Lock: exclusive; without it shared
	LockUnlock                           // Lock: unlock the range
	LockFlock                            // Lock: a lock of flock on the whole file, independent of locks of fcntl
	ReturnDir                            // Mknod, Unlink, Rmdir, Link, Rename of one partition: the result has the directory and Others, too
	ReturnRights                         // Extents: the result has the rights to read the blocks, too, if the client is bound
	OnDisk                               // Batch, Write: ordered with multicast.Message.Durable; the answer names its place in the order (of Write: Data=the place)
	AwaitLock                            // GetLock: the replica keeps the query while there is a conflict, for at most a second; older versions answer at once
	NumberGrant                          // Delegate of an existing directory: the grant gets a number; only if all replicas of the partition know that
)

// Fields of Command.Attr that SetAttr sets; other times do not change. SetMtimeNow and SetAtimeNow set
// Command.Time.
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

// Command is one update or query. The comment of its Op names the fields that the operation uses; the other
// fields are zero. The sender that orders a command chooses its Time, so that all replicas use the same.
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

	// For commands of several partitions: the inodes and partitions that the client has found. If an
	// operation finds other ones, it returns EREMOTE and changes nothing.
	Child    posix.Ino   // the inode of Name; of Link and Move the inode itself; of Mknod in a Batch the number of the new inode, which is made in the partition of its directory. 0: the command is of one partition
	NewChild posix.Ino   // the inode of NewName; 0: there is none
	Target   uint16      // partition to which an inode moves
	Chain    []posix.Ino // of a Rename of a directory: NewParent, and each directory above it whose child on the way is in another partition
	Back     []posix.Ino // the same for Ino, if a directory with NewName is exchanged

	Owner   uint64 // of Lock: distinguishes the owners of a session
	PID     uint32 // of Lock: shown in answers
	Session uint64 // the session of the client. This field and the next three are set by the replica, and are not encoded
	Horizon uint64 // the counters of blocks of the session below it were written or given up
	Client  string // the verified name of the client; empty: a process of the cluster
	// Authority has the users and groups for which the client may act; nil: all, including root.
	Authority *posix.Authority
}

// Block is a piece of new content: the first Length bytes of a block. The pieces of a Write are consecutive
// in the file. Each must be a new block whose home is the executing partition, of the session that orders the
// Write, and not below the session's horizon; otherwise the Write gets EINVAL.
type Block struct {
	ID     posix.BlockID
	Length uint32
}

// Extent is the location of the bytes [Offset, Offset+Length) of a file: they are Data, or begin at byte Skip
// of a block.
type Extent struct {
	Offset uint64
	Length uint64
	Data   []byte        // the bytes; nil: they are in Block
	Block  posix.BlockID // if Data is nil
	Skip   uint32
	Right  posix.BlockRight // the right to read Block; not stored, only in answers to bound clients that request it (ReturnRights)
}

// Entry is one name in a directory.
type Entry struct {
	Name   string
	Cookie uint64     // position after which ReadDir continues; ascending, and stable while the entry exists
	Attr   posix.Attr // only Ino and the type in Mode, if the inode is in another partition
	At     uint16     // partition of the inode, as far as the answering partition knows
}

// Result is the result of a Command. With EREMOTE, Attr.Ino is the inode that is not in this partition, and
// Number its partition, as far as this partition knows. Lookup always sets Number in this sense.
type Result struct {
	Code    posix.Code
	Attr    posix.Attr
	Data    []byte
	Entries []Entry
	Extents []Extent
	Number  uint64
	Number2 uint64
	Dir     posix.Attr // the changed directory, for a client that requests it (ReturnDir); of Rename the directory of the old name
	// Others are the further inodes that a Rename has changed, after the change, for a client that requests
	// them (ReturnDir): the directory of the new name if it is another one, and the inode that had the new
	// name.
	Others []posix.Attr
}

// Limits of one command. They are checked when the command is decoded.
const (
	MaxLiteral = 4 << 10 // bytes of content in Command.Data; larger content travels as blocks
	MaxBlock   = 1 << 20 // bytes in one block
	MaxBlocks  = 64      // blocks in one Write
	MaxIDs     = 1 << 10 // blocks in one command that only names them
	MaxExtents = 1 << 15 // extents in one answer
	MaxChain   = 4 << 10 // directories in Chain and in Back: more than the number of names in a path
	MaxBatch   = 1 << 20 // bytes of Data in a Batch
)
