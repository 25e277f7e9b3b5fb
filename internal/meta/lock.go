package meta

import (
	"math"
	"slices"

	"github.com/globalfs/globalfs/internal/posix"
)

// MaxFileLocks bounds the locks on one inode, for each of the two kinds. Beyond it a lock gets ENOLCK. Each
// update of locks reads all locks of the inode.
const MaxFileLocks = 4096

// FileLock is a lock on the bytes from Start to End, both included. Locks of flock and locks of fcntl are
// independent. Within a kind, overlapping locks of different owners are all shared. Locks of one owner do not
// overlap, and do not touch if they have the same mode.
//
// Locks are state of the home partition of an inode, wherever the inode lives, because sessions hold it open
// there. They end with the session, or with the inode. A lock that conflicts with another owner's is refused;
// waiting is the task of the client.
type FileLock struct {
	Session uint64
	Owner   uint64 // distinguishes the owners of a session
	PID     uint32 // the process that requested the lock
	Flock   bool   // flock's kind; otherwise fcntl's
	Write   bool   // exclusive; otherwise shared
	Start   uint64
	End     uint64
}

// lastByte is the last byte of a file that a lock can cover: OFFSET_MAX of the kernel.
const lastByte = math.MaxInt64

// lockFile executes OpLock with the semantics of F_SETLK: the range gets the wanted mode, or no lock,
// whatever mode the owner had there before.
func (m *Machine) lockFile(c *Command) Result {
	want, code := m.wantedLock(c)
	if code != posix.OK {
		return failed(code)
	}
	unlock := c.Flags&LockUnlock != 0
	held := m.fileLocks(c.Ino, want.Flock)
	var own []FileLock
	for i := range held {
		switch {
		case held[i].sameOwner(&want):
			own = append(own, held[i])
		case !unlock && held[i].conflicts(&want):
			return failed(posix.EAGAIN)
		}
	}
	gone, made := setRange(own, want, unlock)
	if more := len(made) - len(gone); more > 0 && len(held)+more > MaxFileLocks {
		return failed(posix.ENOLCK)
	}
	for i := range gone {
		m.deleteFileLock(c.Ino, &gone[i])
	}
	for i := range made {
		m.putFileLock(c.Ino, &made[i])
	}
	return Result{}
}

// fileLocked answers OpGetLock: Data has the first lock, by its start, that conflicts with the wanted one.
func (m *Machine) fileLocked(c *Command) Result {
	want, code := m.wantedLock(c)
	if code == posix.OK && c.Flags&LockUnlock != 0 {
		code = posix.EINVAL
	}
	if code != posix.OK {
		return failed(code)
	}
	var first *FileLock
	held := m.fileLocks(c.Ino, want.Flock)
	for i := range held {
		l := &held[i]
		if !l.sameOwner(&want) && l.conflicts(&want) && (first == nil || l.Start < first.Start) {
			first = l
		}
	}
	if first == nil {
		return Result{}
	}
	return Result{Data: first.append(nil)}
}

// wantedLock returns the lock that a command requests. As in fcntl, length 0 means all bytes from the offset
// on.
func (m *Machine) wantedLock(c *Command) (FileLock, posix.Code) {
	l := lockOf(c)
	if c.Ino.Partition() != m.cfg.Partition || c.Ino.Counter() == 0 || c.Ino.Counter() > m.state.last {
		return l, posix.ESTALE
	}
	if code := m.mayLock(c); code != posix.OK {
		return l, code
	}
	if !l.Flock && (l.Start > lastByte || c.Length > lastByte-l.Start+1) {
		return l, posix.EINVAL
	}
	return l, posix.OK
}

// lockOf returns the lock that a command requests, without a check of the range.
func lockOf(c *Command) FileLock {
	l := FileLock{
		Session: c.Session, Owner: c.Owner, PID: c.PID,
		Flock: c.Flags&LockFlock != 0, Write: c.Flags&LockWrite != 0,
		End: lastByte,
	}
	if !l.Flock {
		l.Start = c.Offset
		if c.Length > 0 {
			l.End = l.Start + c.Length - 1
		}
	}
	return l
}

// LockTable is a copy of the locks on an inode, to check many requests for locks.
type LockTable struct{ held []FileLock }

// LocksOn returns the locks on an inode.
func LocksOn(m *Machine, ino posix.Ino) *LockTable {
	return &LockTable{append(m.fileLocks(ino, false), m.fileLocks(ino, true)...)}
}

// Conflicts reports whether a lock in the table conflicts with the lock that a command requests.
func (t *LockTable) Conflicts(c *Command) bool {
	want := lockOf(c)
	return slices.ContainsFunc(t.held, func(l FileLock) bool {
		return l.Flock == want.Flock && !l.sameOwner(&want) && l.conflicts(&want)
	})
}

// Add adds the lock that a command requests.
func (t *LockTable) Add(c *Command) { t.held = append(t.held, lockOf(c)) }

func (l *FileLock) sameOwner(other *FileLock) bool {
	return l.Session == other.Session && l.Owner == other.Owner
}

// conflicts reports whether different owners cannot have l and other at the same time.
func (l *FileLock) conflicts(other *FileLock) bool {
	return l.Start <= other.End && other.Start <= l.End && (l.Write || other.Write)
}

// setRange returns the locks that end and the locks that begin when an owner with the locks own gets the lock
// want, or unlocks the range of want.
func setRange(own []FileLock, want FileLock, unlock bool) (gone, made []FileLock) {
	start, end := want.Start, want.End
	for _, l := range own {
		switch {
		case !unlock && l.Write == want.Write && l.Start <= end+1 && start <= l.End+1:
			want.Start, want.End = min(want.Start, l.Start), max(want.End, l.End)
		case l.Start > end || start > l.End:
			continue
		default:
			before, behind := l, l
			if before.End = start - 1; l.Start < start {
				made = append(made, before)
			}
			if behind.Start = end + 1; l.End > end {
				made = append(made, behind)
			}
		}
		gone = append(gone, l)
	}
	if !unlock {
		made = append(made, want)
	}
	return gone, made
}

// AddsLocks reports whether the execution of a lock command would increase the number of locks of its owner:
// the release of a range may divide a lock.
func AddsLocks(m *Machine, c *Command) bool {
	want, code := m.wantedLock(c)
	if code != posix.OK {
		return false
	}
	own := slices.DeleteFunc(m.fileLocks(c.Ino, want.Flock), func(l FileLock) bool { return !l.sameOwner(&want) })
	gone, made := setRange(own, want, c.Flags&LockUnlock != 0)
	return len(made) > len(gone)
}
