package delegation

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

const second = posix.Time(1e9)

// apply executes an update that is not of a batch.
func (w *world) apply(c meta.Command) meta.Result {
	w.t.Helper()
	r := w.m.Apply(&c, 1)
	require.Equal(w.t, posix.OK, r.Code, "%+v", c)
	return r
}

// existing makes a directory in the root with files a and b.
func (w *world) existing(name string) (dir, a, b posix.Ino) {
	w.t.Helper()
	dir = w.apply(meta.Command{Op: meta.OpMknod, Ino: posix.MakeIno(3, 1), Name: name, Mode: posix.TypeDir | 0o755}).Attr.Ino
	a = w.apply(meta.Command{Op: meta.OpMknod, Ino: dir, Name: "a", Mode: 0o644}).Attr.Ino
	b = w.apply(meta.Command{Op: meta.OpMknod, Ino: dir, Name: "b", Mode: 0o644}).Attr.Ino
	return dir, a, b
}

func (w *world) ask(session uint64, dir posix.Ino, number uint64, now posix.Time) bool {
	w.t.Helper()
	return w.Answer(w.m, session, &Ask{Dir: dir, Log: w.log, Number: number}, now)
}

// A session gets an existing directory with the files in it, until it returns the directory.
func TestAnExistingDirectory(t *testing.T) {
	w := newWorld(t)
	dir, a, b := w.existing("d")
	w.apply(meta.Command{Op: meta.OpLink, Ino: b, NewParent: posix.MakeIno(3, 1), NewName: "b"})
	sub := w.apply(meta.Command{Op: meta.OpMknod, Ino: dir, Name: "sub", Mode: posix.TypeDir | 0o755}).Attr.Ino
	require.True(t, w.ask(holder, dir, 1, 0))
	w.alsoAfterReload(func() {
		require.True(t, w.CoversAll(holder, []meta.Object{{Ino: dir, IsDir: true}, {Ino: a}}))
		require.False(t, w.Covers(holder, meta.Object{Ino: b}), "it has another name")
		require.False(t, w.Covers(holder, meta.Object{Ino: sub, IsDir: true}))
		require.Equal(t, []posix.Ino{dir}, w.Holders([]meta.Object{{Ino: a}}))
	})
	require.False(t, w.ask(holder+1, dir, 1, 0), "it is held")
	rename := Op{Command: meta.Command{Op: meta.OpRename, Ino: dir, Name: "a", NewParent: dir, NewName: "c"}}
	require.Equal(t, Done{Next: 4}, w.run(1, rename, w.create(dir, "f", posix.TypeRegular|0o644), Op{Return: dir}))
	w.alsoAfterReload(func() {
		require.False(t, w.Covers(holder, meta.Object{Ino: a}))
		require.Zero(t, w.Len())
	})
	require.True(t, w.Begin(holder+1, w.log))
	require.True(t, w.ask(holder+1, dir, 2, 0), "nobody has recalled it")
	require.True(t, w.Covers(holder+1, meta.Object{Ino: a}))
}

// W3: an old copy of a request gives nothing after the end of the grant.
func TestOldRequestsGiveNothing(t *testing.T) {
	w := newWorld(t)
	dir, _, _ := w.existing("d")
	require.True(t, w.ask(holder, dir, 2, 0))
	require.True(t, w.ask(holder, dir, 3, 0), "the answer was lost")
	w.Revoke(holder, dir)
	w.alsoAfterReload(func() {
		for number := range uint64(4) {
			require.False(t, w.ask(holder, dir, number, 0))
		}
	})
	require.False(t, w.Answer(w.m, holder, &Ask{Dir: dir, Log: w.log - 1, Number: 9}, 0), "of an older log")
	w.log++
	require.True(t, w.ask(holder, dir, 1, 0), "a new log")
}

// What a session does not get.
func TestDirectoriesThatAreNotGiven(t *testing.T) {
	w := newWorld(t)
	dir, a, _ := w.existing("d")
	require.False(t, w.ask(holder, posix.MakeIno(3, 1), 1, 0), "the root of the partition")
	require.False(t, w.ask(holder, a, 2, 0), "a file")
	attr, _, ok := meta.Adoptable(w.m, dir, 2)
	require.True(t, ok)
	require.False(t, w.Answer(w.m, holder, &Ask{Dir: dir, Log: w.log, Number: 3, Ctime: attr.Ctime + 1}, 0), "somebody has changed it")
	_, _, ok = meta.Adoptable(w.m, dir, 1)
	require.False(t, ok, "too many names")
	vote := w.m.Prepare(9, &meta.Command{Op: meta.OpRename, Ino: dir, Name: "a", NewParent: posix.MakeIno(2, 1), NewName: "x", Child: a, Target: 3}, []uint16{2, 3})
	require.Equal(t, posix.OK, vote.Code)
	require.False(t, w.ask(holder, dir, 4, 0), "an undecided command takes a file out of it")
	other, _, _ := w.existing("e")
	vote = w.m.Prepare(10, &meta.Command{Op: meta.OpRename, Ino: posix.MakeIno(2, 1), Name: "x", NewParent: other, NewName: "n", Child: posix.MakeIno(2, 9), Target: 2}, []uint16{2, 3})
	require.Equal(t, posix.OK, vote.Code)
	require.False(t, w.ask(holder, other, 5, 0), "an undecided command brings a name into it")
	require.Zero(t, w.Len())
}

// A directory that was recalled is not given for a while, which grows, and not while two sessions change it.
func TestHotDirectories(t *testing.T) {
	w := newWorld(t)
	dir, _, _ := w.existing("d")
	touched := []meta.Object{{Ino: dir, IsDir: true}}
	number := uint64(0)
	ask := func(now posix.Time) bool { number++; return w.ask(holder, dir, number, now) }
	recall := func(now posix.Time) {
		require.True(t, w.Recall(touched, holder+1, now))
		w.Revoke(holder, dir)
	}
	require.True(t, ask(0))
	recall(0)
	w.alsoAfterReload(func() { require.False(t, ask(9*second)) })
	require.True(t, ask(10*second))
	recall(11 * second)
	require.False(t, ask(30*second), "twice as long")
	require.False(t, w.Recall(touched, holder, 30*second), "a change of another session than the last one")
	w.alsoAfterReload(func() { require.False(t, ask(49*second)) })
	require.False(t, w.Recall(touched, holder, 49*second), "the same session again")
	require.True(t, ask(50*second))
	recall(51 * second)
	require.False(t, ask(90*second))
	require.True(t, ask(91*second))
	w.Revoke(holder, dir)
	require.True(t, ask(92*second), "it was not recalled")
	recall(1000 * second)
	require.True(t, ask(1010*second), "it was cold for long")
	recall(1010 * second)
	for i := range posix.Ino(maxHot) {
		w.cooling.recalled(1000+i, holder, 2000*second)
	}
	w.alsoAfterReload(func() { require.Len(t, w.cooling.dirs, maxHot) })
	require.Zero(t, w.cooling.dirs[dir], "the first to be cold is forgotten")
}

// Recalls and changes of a bound client heat no directory.
func TestABoundClientHeatsNothing(t *testing.T) {
	w := newWorld(t)
	dir, a, _ := w.existing("d")
	touched := []meta.Object{{Ino: dir, IsDir: true}, {Ino: a}}
	require.True(t, w.ask(holder, dir, 1, 0))
	require.True(t, w.Recall(touched, 0, 0))
	require.Equal(t, []posix.Ino{dir}, w.Recalled(holder))
	w.Revoke(holder, dir)
	w.alsoAfterReload(func() { require.False(t, w.Recall(touched, 0, 0)) })
	require.True(t, w.ask(holder, dir, 2, 0))
	require.True(t, w.Recall(touched, holder+1, 0))
	w.Revoke(holder, dir)
	require.False(t, w.Recall(touched, 0, 9*second), "it does not keep it hot either")
	require.True(t, w.ask(holder, dir, 3, 10*second))
}

// A holder works in a directory for which it has made a change since a time.
func TestWorkedIn(t *testing.T) {
	w := newWorld(t)
	dir, a, _ := w.existing("d")
	touched := []meta.Object{{Ino: a}}
	w.Worked(dir, 5)
	require.False(t, w.IsWorkedIn(touched, 1), "it is free")
	require.True(t, w.ask(holder, dir, 1, 0))
	require.False(t, w.IsWorkedIn(touched, 1))
	w.Worked(a, 5)
	require.True(t, w.IsWorkedIn(touched, 5))
	require.False(t, w.IsWorkedIn(touched, 6))
	require.False(t, w.IsWorkedIn([]meta.Object{{Ino: dir + 1, IsDir: true}}, 5))
}

// A copy of a directory has all that the client needs to execute its changes as the partition does (W4).
func TestCopyOfADirectory(t *testing.T) {
	w := newWorld(t)
	dir, a, _ := w.existing("d")
	w.apply(meta.Command{Op: meta.OpWrite, Ino: a, Data: []byte("text"), Length: 4})
	w.apply(meta.Command{Op: meta.OpSetXattr, Ino: a, Name: "user.x", Data: []byte("1")})
	for i := range 50 {
		w.apply(meta.Command{Op: meta.OpMknod, Ino: dir, Name: fmt.Sprint(i), Mode: posix.TypeSymlink | 0o777, Data: []byte("target")})
	}
	copied := newWorld(t)
	_, want, _ := meta.Adoptable(w.m, dir, MaxAdopted)
	require.True(t, w.ask(holder, dir, 1, 0))
	var pages [][]byte
	for cookie := uint64(0); ; {
		r := meta.Carry(w.m, &meta.Command{Op: meta.OpCarry, Ino: dir, Offset: cookie, Length: 300}, func(file posix.Ino) bool { return w.IsOf(dir, file) })
		require.Equal(t, posix.OK, r.Code)
		pages = append(pages, r.Data)
		if cookie = r.Number; cookie == 0 {
			break
		}
	}
	require.Greater(t, len(pages), 3)
	for again := range uint64(2) { // a second copy replaces the first one
		copied.m.Apply(&meta.Command{Op: meta.OpMknod, Ino: dir, Name: "old", Mode: 0o644}, 1)
		files, err := meta.Adopt(copied.m, dir, pages)
		require.NoError(t, err)
		require.Equal(t, want, files)
		for _, c := range []meta.Command{
			{Op: meta.OpReadDir, Ino: dir, Length: 100}, {Op: meta.OpExtents, Ino: a, Length: 9}, {Op: meta.OpGetXattr, Ino: a, Name: "user.x"},
			{Op: meta.OpLookup, Ino: dir, Name: "7"}, {Op: meta.OpLookup, Ino: dir, Name: "old"},
		} {
			require.Equal(t, w.m.Query(&c), copied.m.Query(&c), "%+v", c)
		}
		require.Equal(t, 54+again, meta.Inodes(copied.m), "the old file has no name any more")
		copied.m.Apply(&meta.Command{Op: meta.OpWrite, Ino: a, Offset: 4, Data: []byte("more"), Length: 4}, 1)
	}
	for _, bad := range [][][]byte{nil, {nil}, {{1}}, {{5, 1}}, pages[1:], {pages[0], pages[0]}} {
		_, err := meta.Adopt(newWorld(t).m, dir, bad)
		require.Error(t, err)
	}
}

// A file that has lost its other name after the grant is not in the copy: the grant does not cover it.
func TestTheCopyHasTheFilesOfTheGrant(t *testing.T) {
	w := newWorld(t)
	dir, a, b := w.existing("d")
	other := meta.Command{Op: meta.OpLink, Ino: b, NewParent: posix.MakeIno(3, 1), NewName: "b"}
	w.apply(other)
	require.True(t, w.ask(holder, dir, 1, 0))
	w.apply(meta.Command{Op: meta.OpUnlink, Ino: other.NewParent, Name: other.NewName})
	require.False(t, w.Covers(holder, meta.Object{Ino: b}))
	r := meta.Carry(w.m, &meta.Command{Op: meta.OpCarry, Ino: dir, Length: 1 << 20}, func(file posix.Ino) bool { return w.IsOf(dir, file) })
	files, err := meta.Adopt(newWorld(t).m, dir, [][]byte{r.Data})
	require.NoError(t, err)
	require.Equal(t, []posix.Ino{a}, files)
}
