package meta

import (
	"encoding/binary"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// A lock is stored under two keys, to be found by inode and by session. Both begin with 0x10, the prefix of
// locks. Numbers have 8 bytes; kind is 1 for locks of flock, and 0 for locks of fcntl:
//
//	0 ino kind session owner start   end, exclusive, pid
//	1 session ino kind owner start   nothing
const (
	lockByIno     byte = 0
	lockBySession byte = 1
)

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
	prefix := append(binary.BigEndian.AppendUint64([]byte{prefixLock, lockByIno}, uint64(ino)), bit(flock))
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
	b = varint.AppendUint(b, bit(l.Write))
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
	k = append(k, bit(l.Flock))
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

// bit encodes a boolean.
func bit(set bool) uint8 {
	if set {
		return 1
	}
	return 0
}

func (l *FileLock) append(b []byte) []byte {
	b = varint.AppendUint(b, l.Session)
	b = varint.AppendUint(b, l.Owner)
	b = varint.AppendUint(b, l.PID)
	b = varint.AppendUint(b, bit(l.Flock))
	b = varint.AppendUint(b, bit(l.Write))
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
