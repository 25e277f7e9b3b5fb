package meta_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// locker is one owner of locks of a machine.
type locker struct {
	f              *fs
	session, owner uint64
}

// command locks the bytes from start to end, both included.
func (l locker) command(op meta.Op, ino posix.Ino, start, end uint64, flags uint32) meta.Command {
	return meta.Command{Op: op, Ino: ino, Offset: start, Length: end - start + 1, Flags: flags, Session: l.session, Owner: l.owner, PID: 7}
}

func (l locker) lock(ino posix.Ino, start, end uint64, flags uint32) posix.Code {
	c := l.command(meta.OpLock, ino, start, end, flags)
	l.f.counter++
	r := l.f.m.Apply(&c, l.f.counter)
	require.Equal(l.f.t, meta.Result{Code: r.Code}, r)
	return r.Code
}

// blocker returns the lock that l would wait for; nil: none.
func (l locker) blocker(ino posix.Ino, start, end uint64, flags uint32) *meta.FileLock {
	c := l.command(meta.OpGetLock, ino, start, end, flags)
	r := l.f.m.Query(&c)
	require.Equal(l.f.t, posix.OK, r.Code)
	if r.Data == nil {
		return nil
	}
	lock, err := meta.DecodeFileLock(r.Data)
	require.NoError(l.f.t, err)
	return &lock
}

// stored counts the keys of locks.
func stored(keys *kv.Store) (byIno, bySession int) {
	for range keys.Scan([]byte{0x10, 0}, []byte{0x10, 1}) {
		byIno++
	}
	for range keys.Scan([]byte{0x10, 1}, []byte{0x10, 2}) {
		bySession++
	}
	return byIno, bySession
}

const (
	shared    = uint32(0)
	exclusive = meta.LockWrite
	unlock    = meta.LockUnlock
	flock     = meta.LockFlock
	toTheEnd  = uint64(math.MaxInt64)
)

func TestLockConflicts(t *testing.T) {
	for _, test := range []struct {
		name                   string
		held, wanted           uint32
		start, end             uint64 // wanted; 10 to 19 are held
		otherSession, sameFile bool
		code                   posix.Code
	}{
		{name: "two that share", held: shared, wanted: shared, start: 10, end: 19},
		{name: "exclusive against shared", held: shared, wanted: exclusive, start: 19, end: 19, code: posix.EAGAIN},
		{name: "shared against exclusive", held: exclusive, wanted: shared, start: 0, end: 10, code: posix.EAGAIN},
		{name: "all of the file", held: exclusive, wanted: exclusive, start: 0, end: toTheEnd, code: posix.EAGAIN},
		{name: "just before", held: exclusive, wanted: exclusive, start: 0, end: 9},
		{name: "just behind", held: exclusive, wanted: exclusive, start: 20, end: toTheEnd},
		{name: "the same owner of another client", held: exclusive, wanted: exclusive, start: 10, end: 10, otherSession: true, code: posix.EAGAIN},
		{name: "flock is apart from ranges", held: exclusive, wanted: exclusive | flock, start: 10, end: 10},
		{name: "two flocks", held: exclusive | flock, wanted: shared | flock, start: 90, end: 91, code: posix.EAGAIN},
		{name: "two that share a flock", held: shared | flock, wanted: shared | flock, start: 10, end: 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFS(t)
			ino := f.make(posix.Root, "f", 0o600)
			a, b := locker{f, 1, 100}, locker{f, 1, 200}
			if test.otherSession {
				b = locker{f, 2, 100}
			}
			require.Equal(t, posix.OK, a.lock(ino, 10, 19, test.held))
			before := snapshot(t, f.keys)
			blocker := b.blocker(ino, test.start, test.end, test.wanted)
			require.Equal(t, test.code != posix.OK, blocker != nil)
			require.Equal(t, test.code, b.lock(ino, test.start, test.end, test.wanted))
			if test.code == posix.OK {
				return
			}
			require.Equal(t, before, snapshot(t, f.keys), "what fails changes nothing")
			want := meta.FileLock{Session: 1, Owner: 100, PID: 7, Start: 10, End: 19, Write: test.held&exclusive != 0}
			if test.held&flock != 0 {
				want.Flock, want.Start, want.End = true, 0, toTheEnd
			}
			require.Equal(t, &want, blocker)
			require.Equal(t, posix.OK, a.lock(ino, 10, 19, test.held&flock|unlock))
			require.Equal(t, posix.OK, b.lock(ino, test.start, test.end, test.wanted))
		})
	}
}

func snapshot(t *testing.T, keys *kv.Store) []byte {
	var b bytes.Buffer
	require.NoError(t, meta.Snapshot(keys, &b))
	return b.Bytes()
}

func TestFlockChangesItsMode(t *testing.T) {
	f := newFS(t)
	ino := f.make(posix.Root, "f", 0o600)
	a, b := locker{f, 1, 1}, locker{f, 2, 2}
	require.Equal(t, posix.OK, a.lock(ino, 0, toTheEnd, shared|flock))
	require.Equal(t, posix.OK, b.lock(ino, 0, toTheEnd, shared|flock))
	require.Equal(t, posix.EAGAIN, a.lock(ino, 0, toTheEnd, exclusive|flock))
	require.Equal(t, posix.OK, b.lock(ino, 0, toTheEnd, unlock|flock))
	require.Equal(t, posix.OK, a.lock(ino, 0, toTheEnd, exclusive|flock))
	require.Equal(t, posix.EAGAIN, b.lock(ino, 0, toTheEnd, shared|flock))
	require.Equal(t, posix.OK, a.lock(ino, 0, toTheEnd, shared|flock))
	require.Equal(t, posix.OK, b.lock(ino, 0, toTheEnd, shared|flock))
}

func TestLocksThatCannotBe(t *testing.T) {
	f := newFS(t)
	ino := f.make(posix.Root, "f", 0o600)
	a := locker{f, 1, 1}
	for _, stale := range []posix.Ino{posix.MakeIno(1, ino.Counter()), ino + 1, 0} {
		require.Equal(t, posix.ESTALE, a.lock(stale, 0, 0, shared))
		f.fails(posix.ESTALE, meta.Command{Op: meta.OpGetLock, Ino: stale})
	}
	require.Equal(t, posix.EINVAL, a.lock(ino, toTheEnd+1, toTheEnd+1, shared))
	require.Equal(t, posix.EINVAL, a.lock(ino, 1, toTheEnd+1, shared))
	f.fails(posix.EINVAL, meta.Command{Op: meta.OpGetLock, Ino: ino, Flags: unlock})
	require.Equal(t, posix.OK, a.lock(ino, toTheEnd, toTheEnd, shared))
	require.Equal(t, posix.OK, a.lock(ino, 0, toTheEnd, unlock))
	f.must(meta.Command{Op: meta.OpLock, Ino: ino, Offset: 5, Owner: 2})
	require.Equal(t, toTheEnd, a.blocker(ino, 0, toTheEnd, exclusive).End, "a length of 0 means all that follows")

	_, err := meta.DecodeFileLock([]byte{1})
	require.Error(t, err)
}

func TestTooManyLocks(t *testing.T) {
	f := newFS(t)
	ino := f.make(posix.Root, "f", 0o600)
	a, b := locker{f, 1, 1}, locker{f, 1, 2}
	require.Equal(t, posix.OK, a.lock(ino, 0, 2*meta.MaxFileLocks-2, shared))
	for i := range uint64(meta.MaxFileLocks - 1) {
		require.Equal(t, posix.OK, a.lock(ino, 2*i+1, 2*i+1, unlock))
	}
	require.Equal(t, posix.ENOLCK, b.lock(ino, 0, 0, shared))
	require.Equal(t, posix.OK, b.lock(ino, 0, 0, shared|flock), "each kind for itself")
	require.Equal(t, posix.OK, a.lock(ino, 0, 2, shared), "this makes fewer")
	require.Equal(t, posix.OK, a.lock(ino, 10, 20, exclusive), "and this")
	require.Equal(t, posix.OK, a.lock(ino, 1<<40, 1<<40+9, shared))
	require.Equal(t, posix.OK, fill(b, ino), "up to the limit")
	before := snapshot(t, f.keys)
	require.Equal(t, posix.ENOLCK, a.lock(ino, 1<<40+3, 1<<40+3, unlock), "an unlock that splits")
	require.Equal(t, posix.ENOLCK, a.lock(ino, 1<<40+3, 1<<40+3, exclusive))
	require.Equal(t, before, snapshot(t, f.keys))
	require.Equal(t, posix.OK, a.lock(ino, 0, toTheEnd, unlock))
}

// fill takes locks far away until no more are to be had.
func fill(l locker, ino posix.Ino) (code posix.Code) {
	for i := uint64(0); code == posix.OK; i++ {
		code = l.lock(ino, 1<<50+2*i, 1<<50+2*i, shared)
	}
	if code == posix.ENOLCK {
		return posix.OK
	}
	return code
}

func TestLocksEndWithTheirSession(t *testing.T) {
	f := newFS(t)
	one, two := f.make(posix.Root, "1", 0o600), f.make(posix.Root, "2", 0o600)
	for _, l := range []locker{{f, 8, 1}, {f, 8, 2}, {f, 9, 1}} {
		require.Equal(t, posix.OK, l.lock(one, 10*l.owner*l.session, 10*l.owner*l.session+3, exclusive))
		require.Equal(t, posix.OK, l.lock(two, 0, 9, shared))
		require.Equal(t, posix.OK, l.lock(two, 0, 9, shared|flock))
	}
	again, err := meta.New(f.keys, meta.Config{})
	require.NoError(t, err)
	f.m = again
	f.m.EndSession(7)
	byIno, bySession := stored(f.keys)
	require.Equal(t, []int{9, 9}, []int{byIno, bySession})
	f.m.EndSession(8)
	byIno, bySession = stored(f.keys)
	require.Equal(t, []int{3, 3}, []int{byIno, bySession})
	other := locker{f, 10, 1}
	require.EqualValues(t, 9, other.blocker(one, 0, toTheEnd, shared).Session)
	f.m.EndSession(9)
	require.Equal(t, posix.OK, other.lock(two, 0, 9, exclusive))
}

func TestLocksEndWithTheInode(t *testing.T) {
	f := newFS(t)
	ino, other := f.make(posix.Root, "f", 0o600), f.make(posix.Root, "g", 0o600)
	a := locker{f, 1, 1}
	require.Equal(t, posix.OK, a.lock(ino, 0, 9, shared))
	require.Equal(t, posix.OK, a.lock(ino, 0, 9, shared|flock))
	require.Equal(t, posix.OK, a.lock(other, 0, 9, shared))
	f.must(meta.Command{Op: meta.OpUnlink, Ino: posix.Root, Name: "f"})
	byIno, _ := stored(f.keys)
	require.Equal(t, 3, byIno, "it is open")
	f.m.Reap(ino, 77)
	byIno, bySession := stored(f.keys)
	require.Equal(t, []int{1, 1}, []int{byIno, bySession})
}

func TestCheckOfLocks(t *testing.T) {
	for want, spoil := range map[string]func(keys *kv.Store, byIno, bySession []byte){
		"locks are stored by inode only": func(keys *kv.Store, _, bySession []byte) { keys.Delete(bySession) },
		"is stored by session only":      func(keys *kv.Store, byIno, _ []byte) { keys.Delete(byIno) },
		"is no range":                    func(keys *kv.Store, byIno, _ []byte) { keys.Set(byIno, []byte{4, 0, 0}) },
		"is not that of a lock":          func(keys *kv.Store, byIno, _ []byte) { keys.Set(append(bytes.Clone(byIno), 0), nil) },
		"two locks of one owner at 20":   func(keys *kv.Store, byIno, _ []byte) { keys.Set(byIno, []byte{20, 0, 0}) },
	} {
		t.Run(want, func(t *testing.T) {
			keys := kv.NewMemory()
			m, err := meta.New(keys, meta.Config{})
			require.NoError(t, err)
			f := &fs{t: t, keys: keys, m: m}
			ino := f.make(posix.Root, "f", 0o600)
			require.Equal(t, posix.OK, locker{f, 1, 1}.lock(ino, 10, 14, shared))
			require.Equal(t, posix.OK, locker{f, 1, 1}.lock(ino, 20, 24, shared))
			require.Empty(t, meta.Check(keys))
			spoil(keys, first(keys, 0), first(keys, 1))
			require.Contains(t, fmt.Sprint(meta.Check(keys)), want)
		})
	}
}

// first gives the first of one kind of the keys of locks.
func first(keys *kv.Store, kind byte) []byte {
	for key := range keys.Scan([]byte{0x10, kind}, []byte{0x10, kind + 1}) {
		return bytes.Clone(key)
	}
	return nil
}

// byteLocks is the naive model: for each owner the mode of each byte.
type byteLocks map[[2]uint64]*[64]uint8 // by session and owner; 1 shared, 2 exclusive

func (m byteLocks) set(who [2]uint64, start, end uint64, flags uint32) posix.Code {
	if m[who] == nil {
		m[who] = &[64]uint8{}
	}
	mode := uint8(1)
	if flags&exclusive != 0 {
		mode = 2
	}
	if flags&unlock != 0 {
		mode = 0
	}
	for i := start; i <= end; i++ {
		for other, held := range m {
			if other != who && held[i] != 0 && mode+held[i] > 2 && mode != 0 {
				return posix.EAGAIN
			}
		}
	}
	for i := start; i <= end; i++ {
		m[who][i] = mode
	}
	return posix.OK
}

// ranges counts the longest runs of bytes that are held alike by one owner.
func (m byteLocks) ranges() (count int) {
	for _, held := range m {
		last := uint8(0)
		for _, mode := range held {
			if mode != 0 && mode != last {
				count++
			}
			last = mode
		}
	}
	return count
}

// Random locks and unlocks on two machines, compared byte by byte with the model.
func TestLocksAreThoseOfTheModel(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			f, replica := newFS(t), newFS(t)
			ino := f.make(posix.Root, "f", 0o600)
			require.Equal(t, ino, replica.make(posix.Root, "f", 0o600))
			model := byteLocks{}
			for range 200 {
				who := [2]uint64{1 + random.Uint64N(2), random.Uint64N(3)}
				start := random.Uint64N(64)
				end := start + random.Uint64N(64-start)
				flags := []uint32{shared, exclusive, unlock, unlock}[random.IntN(4)]
				want := model.set(who, start, end, flags)
				require.Equal(t, want, locker{f, who[0], who[1]}.lock(ino, start, end, flags))
				require.Equal(t, want, locker{replica, who[0], who[1]}.lock(ino, start, end, flags))
				byIno, bySession := stored(f.keys)
				require.Equal(t, model.ranges(), byIno, "neighbours are one")
				require.Equal(t, byIno, bySession)
			}
			require.Equal(t, snapshot(t, f.keys), snapshot(t, replica.keys))
			nobody := locker{f, 9, 9}
			for i := range uint64(64) {
				var held uint8
				for _, bytes := range model {
					held = max(held, bytes[i])
				}
				require.Equal(t, held > 0, nobody.blocker(ino, i, i, exclusive) != nil)
				require.Equal(t, held > 1, nobody.blocker(ino, i, i, shared) != nil)
			}
			f.m.EndSession(1)
			f.m.EndSession(2)
			byIno, bySession := stored(f.keys)
			require.Zero(t, byIno+bySession)
		})
	}
}
