package mount

import (
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/test/bubble"
)

// twoMounts of one tree, with an empty file f.
func twoMounts(t *testing.T) (a, b *mounted) {
	t.Helper()
	n := clienttest.New(t, spec, time.Minute)
	a, b = mountOf(t, n), mountOf(t, n)
	a.write(t, "f", "")
	b.client.Observe(a.client.Proofs())
	return a, b
}

func (m *mounted) open(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.OpenFile(m.path(name), os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() }) // most tests did
	return f
}

func flock(f *os.File, how int) error { return unix.Flock(int(f.Fd()), how) }

// inTime returns the error of wait, which must not take long.
func inTime(t *testing.T, wait func() error) error {
	t.Helper()
	got := make(chan error, 1)
	go func() { got <- wait() }()
	select {
	case err := <-got:
		return err
	case <-time.After(20 * time.Second):
		require.Fail(t, "it hangs")
		return nil
	}
}

func TestFlockBetweenMounts(t *testing.T) {
	a, b := twoMounts(t)
	fa, fb := a.open(t, "f"), b.open(t, "f")
	require.NoError(t, flock(fa, unix.LOCK_SH))
	require.NoError(t, flock(fb, unix.LOCK_SH|unix.LOCK_NB))
	require.Equal(t, unix.EWOULDBLOCK, flock(fa, unix.LOCK_EX|unix.LOCK_NB))
	require.NoError(t, flock(fb, unix.LOCK_UN))
	require.NoError(t, flock(fa, unix.LOCK_EX|unix.LOCK_NB))
	require.Equal(t, unix.EWOULDBLOCK, flock(fb, unix.LOCK_SH|unix.LOCK_NB))
	same := a.open(t, "f")
	require.Equal(t, unix.EWOULDBLOCK, flock(same, unix.LOCK_SH|unix.LOCK_NB), "another open file of the same mount")

	dup, err := unix.Dup(int(fa.Fd()))
	require.NoError(t, err)
	require.NoError(t, fa.Close())
	require.Equal(t, unix.EWOULDBLOCK, flock(fb, unix.LOCK_SH|unix.LOCK_NB), "it is still open")
	got := make(chan error, 1)
	go func() { got <- flock(fb, unix.LOCK_EX) }()
	require.NoError(t, unix.Close(dup))
	require.NoError(t, inTime(t, func() error { return <-got }), "the last close lets go")
}

// A program that closes a file and locks it again gets the lock, though the kernel reports the close later.
func TestFlockAfterClose(t *testing.T) {
	a, b := twoMounts(t)
	for range 50 {
		f := a.open(t, "f")
		require.NoError(t, flock(f, unix.LOCK_EX|unix.LOCK_NB))
		require.Equal(t, unix.EWOULDBLOCK, flock(b.open(t, "f"), unix.LOCK_SH|unix.LOCK_NB))
		require.NoError(t, f.Close())
	}
}

// ranges calls fcntl for a lock on length bytes from start on; a length of 0 means all following bytes.
func ranges(f *os.File, op int, kind int16, start, length int64) error {
	return unix.FcntlFlock(f.Fd(), op, &unix.Flock_t{Type: kind, Start: start, Len: length})
}

func TestFcntlBetweenMounts(t *testing.T) {
	a, b := twoMounts(t)
	fa, fb := a.open(t, "f"), b.open(t, "f")
	require.NoError(t, ranges(fa, unix.F_SETLK, unix.F_WRLCK, 10, 10))
	require.NoError(t, ranges(fb, unix.F_SETLK, unix.F_WRLCK, 0, 10))
	require.NoError(t, ranges(fb, unix.F_SETLK, unix.F_WRLCK, 20, 0))
	require.Equal(t, unix.EAGAIN, ranges(fb, unix.F_SETLK, unix.F_RDLCK, 19, 1))
	require.NoError(t, flock(fb, unix.LOCK_EX|unix.LOCK_NB), "another kind")
	ask := unix.Flock_t{Type: unix.F_RDLCK}
	require.NoError(t, unix.FcntlFlock(fb.Fd(), unix.F_GETLK, &ask))
	require.Equal(t, unix.Flock_t{Type: unix.F_WRLCK, Start: 10, Len: 10}, ask)
	ask = unix.Flock_t{Type: unix.F_WRLCK, Start: 10, Len: 10}
	require.NoError(t, unix.FcntlFlock(fa.Fd(), unix.F_GETLK, &ask))
	require.EqualValues(t, unix.F_UNLCK, ask.Type, "its own is in nobody's way")
	require.NoError(t, ranges(fa, unix.F_SETLK, unix.F_UNLCK, 12, 2))
	require.NoError(t, ranges(fb, unix.F_SETLK, unix.F_RDLCK, 12, 2), "the lock was cut in two")
	require.Equal(t, unix.EAGAIN, ranges(fb, unix.F_SETLK, unix.F_RDLCK, 12, 3))

	got := make(chan error, 1)
	go func() { got <- ranges(fb, unix.F_SETLKW, unix.F_WRLCK, 0, 0) }()
	require.NoError(t, a.open(t, "f").Close())
	require.NoError(t, inTime(t, func() error { return <-got }), "a close of any descriptor lets go")
	require.Equal(t, unix.EAGAIN, ranges(fa, unix.F_SETLK, unix.F_RDLCK, 5, 1))
}

// The kernel reports nothing of open file description locks when the file is closed.
func TestOpenFileDescriptionLocks(t *testing.T) {
	a, b := twoMounts(t)
	fa, fb, other := a.open(t, "f"), b.open(t, "f"), a.open(t, "f")
	require.NoError(t, ranges(fa, unix.F_OFD_SETLK, unix.F_WRLCK, 0, 1))
	require.Equal(t, unix.EAGAIN, ranges(fb, unix.F_OFD_SETLK, unix.F_WRLCK, 0, 1))
	require.Equal(t, unix.EAGAIN, ranges(other, unix.F_OFD_SETLK, unix.F_WRLCK, 0, 1))
	require.NoError(t, other.Close())
	require.Equal(t, unix.EAGAIN, ranges(fb, unix.F_OFD_SETLK, unix.F_WRLCK, 0, 1), "not that one's")
	require.NoError(t, fa.Close())
	require.NoError(t, inTime(t, func() error { return ranges(fb, unix.F_OFD_SETLKW, unix.F_WRLCK, 0, 1) }))
}

// A read under a lock sees the writes under the lock, whatever the kernel has cached of the file.
func TestLocksOrderReads(t *testing.T) {
	a, b := twoMounts(t)
	fa, fb := a.open(t, "f"), b.open(t, "f")
	for _, text := range []string{"first", "other", "longer than before"} {
		require.NoError(t, flock(fa, unix.LOCK_EX))
		_, err := fa.WriteAt([]byte(text), 0)
		require.NoError(t, err)
		require.NoError(t, flock(fa, unix.LOCK_UN))
		require.NoError(t, flock(fb, unix.LOCK_SH))
		got, err := io.ReadAll(io.NewSectionReader(fb, 0, 100))
		require.NoError(t, err)
		require.Equal(t, text, string(got))
		require.NoError(t, flock(fb, unix.LOCK_UN))
	}
}

func TestLocksEndWithTheClient(t *testing.T) {
	a, b := twoMounts(t)
	fa, fb := a.open(t, "f"), b.open(t, "f")
	require.NoError(t, flock(fa, unix.LOCK_EX))
	require.NoError(t, ranges(fa, unix.F_SETLK, unix.F_WRLCK, 0, 1))
	require.Equal(t, unix.EWOULDBLOCK, flock(fb, unix.LOCK_SH|unix.LOCK_NB))
	require.NoError(t, a.client.Close())
	require.NoError(t, flock(fb, unix.LOCK_SH|unix.LOCK_NB))
	require.NoError(t, ranges(fb, unix.F_SETLK, unix.F_WRLCK, 0, 1))
}

// Locks of a process that is killed go; one that waits can be killed.
func TestKilledProcessesHoldNoLocks(t *testing.T) {
	if _, err := exec.LookPath("flock"); err != nil {
		t.Skip("needs flock(1)")
	}
	a, b := twoMounts(t)
	holder := exec.Command("sh", "-c", `exec 9<"$0"; flock 9; echo locked; exec sleep 1000`, a.path("f"))
	out, err := holder.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, holder.Start())
	_, err = io.ReadFull(out, make([]byte, len("locked\n")))
	require.NoError(t, err)

	replicas := b.Processes(0, "us-west-2")
	before := b.Calls(replicas...)
	waiter := exec.Command("flock", b.path("f"), "true")
	require.NoError(t, waiter.Start())
	b.AwaitCalls(before+10, replicas...) // it looks at the lock again and again
	require.NoError(t, waiter.Process.Kill())
	require.Error(t, inTime(t, waiter.Wait))

	fb := b.open(t, "f")
	require.Equal(t, unix.EWOULDBLOCK, flock(fb, unix.LOCK_EX|unix.LOCK_NB))
	require.NoError(t, holder.Process.Kill())
	require.Error(t, inTime(t, holder.Wait))
	require.NoError(t, inTime(t, func() error { return flock(fb, unix.LOCK_EX) }))
}

// A close costs nothing without locks.
func TestCloseWithoutLocksAsksNobody(t *testing.T) {
	f, n := direct(t)
	i := f.make(t, "f")
	var out fuse.OpenOut
	require.Equal(t, fuse.OK, f.Open(nil, &fuse.OpenIn{InHeader: header(i)}, &out))
	lock := &fuse.LkIn{InHeader: header(i), Fh: out.Fh, Owner: 7, Lk: fuse.FileLock{Typ: unix.F_WRLCK, End: lastByte}}
	require.Equal(t, fuse.OK, f.SetLk(nil, lock))
	lock.Owner = 8
	require.Equal(t, fuse.EAGAIN, f.SetLk(nil, lock), "whose close costs nothing either")
	replicas := n.Processes(0, "us-west-2")
	before := n.Calls(replicas...)
	flush := &fuse.FlushIn{InHeader: header(i), Fh: out.Fh, LockOwner: 8}
	require.Equal(t, fuse.OK, f.Flush(nil, flush))
	require.Equal(t, before, n.Calls(replicas...))
	flush.LockOwner = 7
	require.Equal(t, fuse.OK, f.Flush(nil, flush))
	require.Equal(t, before+1, n.Calls(replicas...))
	f.Release(nil, &fuse.ReleaseIn{InHeader: header(i), Fh: out.Fh})
	require.Equal(t, before+1, n.Calls(replicas...))
	require.Empty(t, f.locks.held)
	require.Empty(t, f.locks.endings)
}

// An unlock by one thread during a lock by another one leaves work for the close.
func TestHoldersAreNotForgottenTooEarly(t *testing.T) {
	l := newLocks()
	h := lockOwner{file: 1, owner: 2}
	first := l.begin(5, h)
	during := l.quiet(5, h)
	l.end(5, h, first, nil)
	l.forget(5, h, during)
	require.Len(t, l.ofFile(5, 1), 1, "the lock may have been ordered after the unlock")
	before := l.quiet(5, h)
	second := l.begin(5, h)
	l.forget(5, h, before)
	l.end(5, h, second, posix.EAGAIN)
	require.Len(t, l.ofFile(5, 1), 1, "a try after it")
	l.forget(5, h, l.quiet(5, h))
	require.Empty(t, l.held)

	l.end(5, h, l.begin(5, h), posix.ETIMEDOUT)
	require.Len(t, l.ofFile(5, 1), 1, "it may have the lock")
	l.end(6, h, l.begin(6, h), posix.EINTR)
	require.Empty(t, l.ofFile(6, 1))
}

// The kernel gives the name of a closed file to a new one, and then reports the close of the old one.
func TestOwnersAreUsedAgain(t *testing.T) {
	l := newLocks()
	closed, opened := lockOwner{file: 1, owner: 2}, lockOwner{file: 7, owner: 2}
	l.end(5, closed, l.begin(5, closed), nil)
	l.end(5, opened, l.begin(5, opened), nil)
	require.Empty(t, l.ofFile(5, 1))
	require.Equal(t, []lockOwner{opened}, l.ofFile(5, 7))
	require.Equal(t, []lockOwner{opened}, l.ofProcess(5, 2))
}

// A close while the partition is away releases the lock when it is back; the next lock waits for that.
func TestUnlockIsNotGivenUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f, n := direct(t)
		i := f.make(t, "f")
		lock := &fuse.LkIn{InHeader: header(i), Fh: 1, Owner: 7, Lk: fuse.FileLock{Typ: unix.F_WRLCK, End: lastByte}}
		require.Equal(t, fuse.OK, f.SetLk(nil, lock))
		replicas := n.Processes(0, "us-west-2")
		n.Fail(clienttest.Silent, replicas...)
		start := time.Now()
		f.endFileLocks(i, 1)
		require.Equal(t, client.DefaultTimeout, time.Since(start))
		interrupt := make(chan struct{})
		close(interrupt)
		require.Equal(t, fuse.EINTR, f.SetLk(interrupt, lock))
		// Before the session expires.
		time.AfterFunc(client.DefaultTimeout/2, func() { n.Fail(clienttest.None, replicas...) })
		lock.Fh, lock.Owner = 2, 8
		require.Equal(t, fuse.OK, f.SetLk(nil, lock))
		require.NotEmpty(t, f.locks.ofFile(i, 2))
		require.Empty(t, f.locks.ofFile(i, 1))

		defer f.locks.ending(i, lockOwner{})()
		start = time.Now()
		require.Equal(t, fuse.Status(unix.ETIMEDOUT), f.SetLk(nil, lock))
		require.Equal(t, client.DefaultTimeout, time.Since(start))
	})
}

// An owner does not wait for the release of its own locks after a close, as by a child of a process with the
// lock.
func TestOwnLocksAreNotAwaited(t *testing.T) {
	l, own, other := newLocks(), lockOwner{file: 1, owner: 1}, lockOwner{file: 1, owner: 2}
	for _, o := range []lockOwner{own, other} {
		l.end(5, o, l.begin(5, o), nil)
	}
	l.flush(5, 1)
	require.Len(t, l.flushed(5, own), 1)
	require.Len(t, l.flushed(5, lockOwner{}), 2)
}
