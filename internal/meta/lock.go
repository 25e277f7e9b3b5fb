package meta

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
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
// waiting is the task of the client. A lock is stored under two keys, to be found by inode and by session.
// Both begin with 0x10, and numbers have 8 bytes:
//
//	0 ino kind session owner start   end, exclusive, pid
//	1 session ino kind owner start   nothing
type FileLock struct {
	Session uint64
	Owner   uint64 // distinguishes the owners of a session
	PID     uint32 // the process that requested the lock
	Flock   bool   // flock's kind; otherwise fcntl's
	Write   bool   // exclusive; otherwise shared
	Start   uint64
	End     uint64
}

const (
	lockByIno     byte = 0
	lockBySession byte = 1
)

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

// EndSession removes the locks of a client whose session has ended. Like Apply, all replicas call it at the
// same place of the order.
func (m *Machine) EndSession(session uint64) {
	prefix := binary.BigEndian.AppendUint64([]byte{prefixLock, lockBySession}, session)
	for key := range m.keys.Scan(prefix, keyAfter(prefix)) {
		m.keys.Delete(swapLockKey(key))
		m.keys.Delete(key)
	}
}

// CountLocks returns the number of locks of a session in the partition, at most most.
func CountLocks(m *Machine, session uint64, most int) (n int) {
	prefix := binary.BigEndian.AppendUint64([]byte{prefixLock, lockBySession}, session)
	for range m.keys.Scan(prefix, keyAfter(prefix)) {
		if n++; n >= most {
			break
		}
	}
	return n
}

// endFileLocks removes all locks on an inode that does not exist any more.
func (m *Machine) endFileLocks(ino posix.Ino) {
	prefix := binary.BigEndian.AppendUint64([]byte{prefixLock, lockByIno}, uint64(ino))
	for key := range m.keys.Scan(prefix, keyAfter(prefix)) {
		m.keys.Delete(swapLockKey(key))
		m.keys.Delete(key)
	}
}

// fileLocks returns the locks of a kind on an inode, by session, owner and start.
func (m *Machine) fileLocks(ino posix.Ino, flock bool) (locks []FileLock) {
	prefix := append(binary.BigEndian.AppendUint64([]byte{prefixLock, lockByIno}, uint64(ino)), kindOf(flock))
	for key, value := range m.keys.Scan(prefix, keyAfter(prefix)) {
		r := varint.NewReader(value)
		l := readFileLock(key, r)
		invariant.Check(r.Done() == nil, "stored lock %x: %v", key, r.Err())
		locks = append(locks, l)
	}
	return locks
}

// readFileLock reads a lock from its key by inode and its value.
func readFileLock(key []byte, r *varint.Reader) FileLock {
	return FileLock{
		Session: binary.BigEndian.Uint64(key[11:]), Owner: binary.BigEndian.Uint64(key[19:]), Start: binary.BigEndian.Uint64(key[27:]),
		Flock: key[10] != 0, End: r.Uint64(), Write: r.Uint(1) != 0, PID: r.Uint32(),
	}
}

func (m *Machine) putFileLock(ino posix.Ino, l *FileLock) {
	b := varint.AppendUint(nil, l.End)
	b = varint.AppendUint(b, kindOf(l.Write))
	key := lockKey(ino, l)
	m.keys.Set(key, varint.AppendUint(b, l.PID))
	m.keys.Set(swapLockKey(key), nil)
}

func (m *Machine) deleteFileLock(ino posix.Ino, l *FileLock) {
	key := lockKey(ino, l)
	m.keys.Delete(key)
	m.keys.Delete(swapLockKey(key))
}

// lockKeyLength is the length of both keys of a lock.
const lockKeyLength = 2 + 8 + 1 + 8 + 8 + 8

func lockKey(ino posix.Ino, l *FileLock) []byte {
	k := append(make([]byte, 0, lockKeyLength), prefixLock, lockByIno)
	k = binary.BigEndian.AppendUint64(k, uint64(ino))
	k = append(k, kindOf(l.Flock))
	k = binary.BigEndian.AppendUint64(k, l.Session)
	k = binary.BigEndian.AppendUint64(k, l.Owner)
	return binary.BigEndian.AppendUint64(k, l.Start)
}

// swapLockKey returns the other key of the same lock.
func swapLockKey(key []byte) []byte {
	k := append(make([]byte, 0, lockKeyLength), prefixLock, 1-key[1])
	if key[1] == lockByIno {
		k = append(k, key[11:19]...) // session
		k = append(k, key[2:11]...)  // ino kind
	} else {
		k = append(k, key[10:19]...) // ino kind
		k = append(k, key[2:10]...)  // session
	}
	return append(k, key[19:]...)
}

func kindOf(set bool) uint8 {
	if set {
		return 1
	}
	return 0
}

// keyAfter returns the first key after all keys that begin with prefix. prefix must not consist of 0xff only.
func keyAfter(prefix []byte) []byte {
	k := append([]byte(nil), prefix...)
	for i := len(k) - 1; ; i-- {
		if k[i]++; k[i] != 0 {
			return k[:i+1]
		}
	}
}

func (l *FileLock) append(b []byte) []byte {
	b = varint.AppendUint(b, l.Session)
	b = varint.AppendUint(b, l.Owner)
	b = varint.AppendUint(b, l.PID)
	b = varint.AppendUint(b, kindOf(l.Flock))
	b = varint.AppendUint(b, kindOf(l.Write))
	b = varint.AppendUint(b, l.Start)
	return varint.AppendUint(b, l.End)
}

// DecodeFileLock decodes the lock in the answer to OpGetLock.
func DecodeFileLock(b []byte) (FileLock, error) {
	r := varint.NewReader(b)
	l := FileLock{
		Session: r.Uint64(), Owner: r.Uint64(), PID: r.Uint32(),
		Flock: r.Uint(1) != 0, Write: r.Uint(1) != 0, Start: r.Uint64(), End: r.Uint64(),
	}
	return l, r.Done()
}
