package meta_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// A client does not choose the number of an inode that it makes, in any partition: the number could be that
// of an inode of another user.
func TestClientsDoNotNumber(t *testing.T) {
	f := newTree(t, 3)
	dir := f.make(1, root(1), "dir", 0o777|posix.TypeDir)
	f.spread(1, dir, 2)
	f.mail()
	theirs := f.make(2, root(2), "theirs", 0o600)
	for name, authority := range map[string]*posix.Authority{"bound": authorityOf(t, "1000", "1000"), "free": nil} {
		r := f.at(1, meta.Command{
			Op: meta.OpMknod, Cred: posix.Cred{UID: 1000, GID: 1000}, Ino: dir, Name: name, Mode: 0o600, Child: theirs, Target: 2, Authority: authority,
		})
		require.Equal(t, posix.OK, r.Code)
		require.NotEqual(t, theirs, r.Attr.Ino)
		f.mail()
		require.EqualValues(t, 1000, f.stat(2, r.Attr.Ino).UID)
		require.EqualValues(t, 1, f.stat(2, theirs).Nlink)
	}
}

// A command that is undecided when a replica stops is still of the same client when it starts again.
func TestUndecidedIsBoundAfterRestart(t *testing.T) {
	for uids, want := range map[string]posix.Code{"1000": posix.EACCES, "1001": posix.OK} {
		f := newTree(t, 2)
		file := f.make(1, root(1), "f", 0o666)
		dir := f.make(0, posix.Root, "dir", dirMode)
		f.must(0, meta.Command{Op: meta.OpSetAttr, Ino: dir, Set: meta.SetUID, Attr: posix.Attr{UID: 1001}})
		uid := uint32(1000)
		if want == posix.OK {
			uid = 1001
		}
		link := f.begin(meta.Command{
			Op: meta.OpLink, Cred: posix.Cred{UID: uid, GID: 100}, Ino: file, NewParent: dir, NewName: "l", Child: file,
			Authority: authorityOf(t, uids, "100"),
		}, 0, 1).prepare(0, 1)
		f.restart(0)
		f.restart(1)
		require.Equal(t, want, link.decide().Code)
	}
}

// Prepare of a command that is refused anyway holds nothing.
func TestRefusedHoldsNothing(t *testing.T) {
	f := newTree(t, 2)
	file := f.make(1, root(1), "f", 0o600)
	for _, c := range []meta.Command{
		{Op: meta.OpMove, Child: file, Target: 0},
		{Op: meta.OpUnlink, Cred: posix.Cred{UID: 5}, Ino: root(1), Name: "f", Child: file},
	} {
		c.Authority = authorityOf(t, "1000", "1000")
		u := f.begin(c, 1, 0).prepare(1, 0)
		require.Equal(t, posix.OK, f.at(1, meta.Command{Op: meta.OpWrite, Ino: file, Data: []byte("x")}).Code)
		require.Equal(t, posix.OK, f.at(1, meta.Command{Op: meta.OpRename, Ino: root(1), Name: "f", NewParent: root(1), NewName: "g"}).Code)
		require.Equal(t, posix.EPERM, u.decide().Code)
		f.must(1, meta.Command{Op: meta.OpRename, Ino: root(1), Name: "g", NewParent: root(1), NewName: "f"})
	}
}

func FuzzReadAuthority(f *testing.F) {
	f.Add(meta.AppendAuthority(nil, posix.Everybody()))
	f.Add(meta.AppendAuthority(nil, authorityOf(f, "0,5,1000-1999", "100")))
	f.Add(meta.AppendAuthority(nil, &posix.Authority{}))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := varint.NewReader(b)
		a := meta.ReadAuthority(r)
		if r.Done() != nil {
			return
		}
		require.NoError(t, a.Validate())
		again := varint.NewReader(meta.AppendAuthority(nil, a))
		require.Equal(t, a, meta.ReadAuthority(again))
		require.NoError(t, again.Done())
	})
}
