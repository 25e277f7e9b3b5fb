package meta_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

const dirMode = posix.TypeDir | 0o755

func (f *fs) rename(dir posix.Ino, name string, to posix.Ino, newName string, flags uint32) posix.Code {
	f.t.Helper()
	return f.do(meta.Command{Op: meta.OpRename, Ino: dir, Name: name, NewParent: to, NewName: newName, Flags: flags}).Code
}

func (f *fs) lookup(dir posix.Ino, name string) posix.Attr {
	f.t.Helper()
	return f.must(meta.Command{Op: meta.OpLookup, Ino: dir, Name: name})
}

func TestRenameRefusals(t *testing.T) {
	f := newFS(t)
	a := f.make(posix.Root, "a", dirMode)
	b := f.make(a, "b", dirMode)
	f.make(b, "inner", 0o600)
	f.make(posix.Root, "file", 0o600)
	f.make(posix.Root, "empty", dirMode)
	for _, x := range []struct {
		dir     posix.Ino
		name    string
		to      posix.Ino
		newName string
		flags   uint32
		want    posix.Code
	}{
		{posix.Root, "a", b, "x", 0, posix.EINVAL},
		{posix.Root, "a", a, "x", 0, posix.EINVAL},
		{b, "inner", posix.Root, "a", 0, posix.ENOTEMPTY},
		{b, "inner", posix.Root, "a", meta.RenameExchange, posix.EINVAL},
		{posix.Root, "empty", posix.Root, "a", 0, posix.ENOTEMPTY},
		{posix.Root, "empty", posix.Root, "file", 0, posix.ENOTDIR},
		{posix.Root, "file", posix.Root, "empty", 0, posix.EISDIR},
		{posix.Root, "file", posix.Root, "empty", meta.RenameNoReplace, posix.EEXIST},
		{posix.Root, "file", posix.Root, "none", meta.RenameExchange, posix.ENOENT},
		{posix.Root, "none", posix.Root, "x", 0, posix.ENOENT},
		{posix.Root, ".", posix.Root, "x", 0, posix.EBUSY},
		{posix.Root, "a", posix.Root, "..", 0, posix.EBUSY},
	} {
		require.Equal(t, x.want, f.rename(x.dir, x.name, x.to, x.newName, x.flags), "%+v", x)
	}
}

func TestRenameMovesADirectory(t *testing.T) {
	f := newFS(t)
	a, b := f.make(posix.Root, "a", dirMode), f.make(posix.Root, "b", dirMode)
	c := f.make(a, "c", dirMode)
	old := f.make(b, "c", dirMode)
	require.Equal(t, posix.OK, f.rename(a, "c", b, "c", 0))
	require.EqualValues(t, 2, f.stat(a).Nlink)
	require.EqualValues(t, 3, f.stat(b).Nlink)
	require.Equal(t, b, f.lookup(c, "..").Ino)
	require.EqualValues(t, 0, f.stat(old).Nlink)
	now := posix.Time(f.counter - 4) // four looks since
	for _, ino := range []posix.Ino{a, b} {
		require.Equal(t, [2]posix.Time{now, now}, [2]posix.Time{f.stat(ino).Mtime, f.stat(ino).Ctime})
	}
	require.Equal(t, now, f.stat(c).Ctime)
}

func TestExchangeOfFileAndDirectory(t *testing.T) {
	f := newFS(t)
	a, b := f.make(posix.Root, "a", dirMode), f.make(posix.Root, "b", dirMode)
	dir, file := f.make(a, "x", dirMode), f.make(b, "y", 0o600)
	require.Equal(t, posix.OK, f.rename(a, "x", b, "y", meta.RenameExchange))
	require.Equal(t, file, f.lookup(a, "x").Ino)
	require.Equal(t, dir, f.lookup(b, "y").Ino)
	require.Equal(t, b, f.lookup(dir, "..").Ino)
	require.EqualValues(t, 2, f.stat(a).Nlink)
	require.EqualValues(t, 3, f.stat(b).Nlink)
}

func TestRenameOntoTheSameFileKeepsBothNames(t *testing.T) {
	f := newFS(t)
	ino := f.make(posix.Root, "a", 0o600)
	f.must(meta.Command{Op: meta.OpLink, Ino: ino, NewParent: posix.Root, NewName: "b"})
	before := f.stat(posix.Root)
	require.Equal(t, posix.OK, f.rename(posix.Root, "a", posix.Root, "b", 0))
	require.Equal(t, before, f.stat(posix.Root))
	require.EqualValues(t, 2, f.lookup(posix.Root, "a").Nlink)
}

func TestSetGroupIDDirectories(t *testing.T) {
	f := newFS(t)
	dir := f.make(posix.Root, "dir", dirMode|posix.SetGID)
	f.must(meta.Command{Op: meta.OpSetAttr, Ino: dir, Set: meta.SetGID, Attr: posix.Attr{GID: 7}})
	cred := posix.Cred{UID: 5, GID: 6}
	sub := f.must(meta.Command{Op: meta.OpMknod, Ino: dir, Name: "sub", Mode: dirMode, Cred: cred})
	require.Equal(t, posix.Attr{UID: 5, GID: 7, Mode: dirMode | posix.SetGID}, posix.Attr{UID: sub.UID, GID: sub.GID, Mode: sub.Mode})
	file := f.must(meta.Command{Op: meta.OpMknod, Ino: dir, Name: "file", Mode: 0o644, Cred: cred})
	require.Equal(t, posix.Attr{UID: 5, GID: 7, Mode: posix.TypeRegular | 0o644}, posix.Attr{UID: file.UID, GID: file.GID, Mode: file.Mode})
}

func TestSetIDBitsAreCleared(t *testing.T) {
	f := newFS(t)
	for i, x := range []struct {
		mode posix.Mode
		set  uint32
		want posix.Mode
	}{
		{0o6755, meta.SetUID, 0o755},
		{0o6755, meta.SetGID, 0o755},
		{0o6745, meta.SetUID, 0o2745}, // not executable by the group: mandatory locking
		{0o6755, meta.KillSetID, 0o755},
		{0o6755, meta.SetUID | meta.SetMode, 0o6711},
		{0o6755, meta.SetMode | meta.KillSetID, 0o711},
		{0o6755, meta.SetMtimeNow, 0o6755},
		{0o6755 | posix.TypeDir, meta.SetUID, 0o6755},
	} {
		ino := f.make(posix.Root, fmt.Sprint(i), x.mode)
		a := f.must(meta.Command{Op: meta.OpSetAttr, Ino: ino, Set: x.set, Attr: posix.Attr{Mode: 0o6711, UID: 1, GID: 1}})
		require.Equal(t, x.want, a.Mode.Perm(), "%+v", x)
	}
}

// A reader of a directory that changes sees each entry that stays exactly once.
func TestReadDirIsStable(t *testing.T) {
	f := newFS(t)
	dir := f.make(posix.Root, "dir", dirMode)
	for i := range 100 {
		f.make(dir, fmt.Sprint("stays", i), 0o600)
		f.make(dir, fmt.Sprint("goes", i), 0o600)
	}
	seen := map[string]int{}
	for at, i := uint64(0), 0; ; i++ {
		r := f.do(meta.Command{Op: meta.OpReadDir, Ino: dir, Offset: at, Length: 7})
		if len(r.Entries) == 0 {
			break
		}
		for _, e := range r.Entries {
			seen[e.Name]++
			at = e.Cookie
		}
		f.must(meta.Command{Op: meta.OpUnlink, Ino: dir, Name: fmt.Sprint("goes", i)})
		f.make(posix.Root, fmt.Sprint("new", i), 0o600)
		require.Equal(t, posix.OK, f.rename(posix.Root, fmt.Sprint("new", i), dir, fmt.Sprint("stays", i), 0))
	}
	for i := range 100 {
		require.Equal(t, 1, seen[fmt.Sprint("stays", i)], "stays%d", i)
	}
	require.Empty(t, f.do(meta.Command{Op: meta.OpReadDir, Ino: dir, Offset: 1<<64 - 1, Length: 7}).Entries)
}
