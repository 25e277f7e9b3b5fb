package meta_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

func TestOpenOfAForeignFile(t *testing.T) {
	f := newTree(t, 2)
	ino := f.away(0, posix.Root, "f", 0o600, 1)
	want := meta.Result{Attr: posix.Attr{Ino: ino, Mode: posix.TypeRegular}, Number: 1}
	open := meta.Command{Op: meta.OpMknod, Ino: posix.Root, Name: "f", Mode: 0o600, Flags: meta.Truncate}
	require.Equal(t, want, f.at(0, open))
}

func TestLinkAndUnlinkElsewhere(t *testing.T) {
	f := newTree(t, 3)
	ino := f.make(1, root(1), "f", 0o600)
	link := meta.Command{Op: meta.OpLink, Ino: ino, Child: ino, NewParent: posix.Root, NewName: "g"}
	require.Equal(t, remote(ino, 1), f.at(0, link))
	a := f.mustCross(link, 0, 1)
	require.EqualValues(t, 2, a.Nlink)
	require.Equal(t, a, f.stat(1, ino))
	require.Equal(t, posix.EEXIST, f.cross(link, 0, 1).Code)
	dir := f.make(1, root(1), "dir", dirMode)
	require.Equal(t, posix.EPERM, f.cross(meta.Command{Op: meta.OpLink, Ino: dir, NewParent: posix.Root, NewName: "h"}, 0, 1).Code)
	link.NewName = "h"
	require.Equal(t, posix.EREMOTE, f.cross(link, 0, 2).Code, "the inode is at neither")

	link.NewName = "a/b"
	require.Equal(t, posix.EINVAL, f.cross(link, 0, 1).Code)
	link.NewName = "h"

	unlink := meta.Command{Op: meta.OpUnlink, Ino: posix.Root, Name: "g"}
	require.Equal(t, remote(ino, 1), f.at(0, unlink))
	unlink.Child = dir
	require.Equal(t, posix.EREMOTE, f.cross(unlink, 0, 1).Code, "it is another one")
	unlink.Child = ino
	require.EqualValues(t, 1, f.mustCross(unlink, 0, 1).Nlink)
	require.Equal(t, posix.ENOENT, f.cross(unlink, 0, 1).Code)
	require.Equal(t, posix.OK, f.at(1, meta.Command{Op: meta.OpUnlink, Ino: root(1), Name: "f"}).Code)
	require.Equal(t, posix.ENOENT, f.cross(link, 0, 1).Code, "nothing has a name any more")
	require.Len(t, f.machines[1].Orphans(0, 9), 1)
	unlink.Name, unlink.Child = "1", root(1)
	require.Equal(t, posix.EBUSY, f.cross(unlink, 0, 1).Code, "a partition's root")
}

func TestRmdirElsewhere(t *testing.T) {
	f := newTree(t, 2)
	dir := f.away(0, posix.Root, "d", dirMode, 1)
	file := f.make(1, dir, "f", 0o600)
	rmdir := meta.Command{Op: meta.OpRmdir, Ino: posix.Root, Name: "d", Child: dir}
	unlink := rmdir
	unlink.Op = meta.OpUnlink
	require.Equal(t, posix.EISDIR, f.cross(unlink, 0, 1).Code)
	require.Equal(t, posix.ENOTEMPTY, f.cross(rmdir, 0, 1).Code)
	for name, want := range map[string][2]posix.Code{
		".":    {posix.EINVAL, posix.EISDIR},
		"..":   {posix.ENOTEMPTY, posix.EISDIR},
		"none": {posix.ENOENT, posix.ENOENT},
		"a/b":  {posix.EINVAL, posix.EINVAL},
	} {
		rmdir.Name, unlink.Name = name, name
		got := [2]posix.Code{f.cross(rmdir, 0, 1).Code, f.cross(unlink, 0, 1).Code}
		require.Equal(t, want, got, name)
	}
	rmdir.Name = "d"
	require.Equal(t, file, f.must(1, meta.Command{Op: meta.OpUnlink, Ino: dir, Name: "f"}).Ino)
	require.Equal(t, remote(dir, 1), f.at(0, meta.Command{Op: meta.OpRmdir, Ino: posix.Root, Name: "d"}))
	u := f.begin(rmdir, 0, 1).prepare(1)
	require.Equal(t, held, f.at(1, meta.Command{Op: meta.OpMknod, Ino: dir, Name: "late"}), "it must stay empty")
	require.EqualValues(t, 0, u.prepare(0).decide().Attr.Nlink)
	require.EqualValues(t, 3, f.stat(0, posix.Root).Nlink, "the other partition's root is left")
	require.Equal(t, posix.ENOENT, f.at(1, meta.Command{Op: meta.OpMknod, Ino: dir, Name: "late"}).Code)
}

// No command changes the state that an undecided command has read; other commands go on.
func TestUndecidedCommandsHold(t *testing.T) {
	f := newTree(t, 2)
	a, b := f.make(0, posix.Root, "a", dirMode), f.make(1, root(1), "b", dirMode)
	file := f.make(0, a, "f", 0o600)
	c := meta.Command{Op: meta.OpRename, Ino: a, Name: "f", NewParent: b, NewName: "g", Child: file, Target: 1}
	u := f.begin(c, 0, 1).prepare(0, 1)
	require.Equal(t, u.votes[0], f.machines[0].Prepare(u.number, u.command, u.parties).Encoded, "a vote is given once")
	f.restart(0)
	f.restart(1)
	require.Equal(t, u.votes[0], f.machines[0].Prepare(u.number, u.command, u.parties).Encoded)
	held := func(p int, c meta.Command) {
		t.Helper()
		require.True(t, f.machines[p].Blocked(f.decoded(c)))
		require.Equal(t, held, f.at(p, c))
	}
	held(0, meta.Command{Op: meta.OpUnlink, Ino: a, Name: "f"})
	held(0, meta.Command{Op: meta.OpMknod, Ino: a, Name: "f"})
	held(0, meta.Command{Op: meta.OpWrite, Ino: file, Data: []byte("x")})
	held(0, meta.Command{Op: meta.OpSetAttr, Ino: file, Set: meta.SetMtimeNow})
	held(0, meta.Command{Op: meta.OpSetXattr, Ino: file, Name: "user.x"})
	held(0, meta.Command{Op: meta.OpLink, Ino: file, NewParent: posix.Root, NewName: "l"})
	held(0, meta.Command{Op: meta.OpRename, Ino: posix.Root, Name: "a", NewParent: posix.Root, NewName: "z"})
	held(0, meta.Command{Op: meta.OpRename, Ino: a, Name: "f", NewParent: posix.Root, NewName: "z"})
	held(0, meta.Command{Op: meta.OpMove, Child: a, Target: 1})
	held(1, meta.Command{Op: meta.OpMknod, Ino: b, Name: "g"})
	held(1, meta.Command{Op: meta.OpRmdir, Ino: root(1), Name: "b"})
	f.make(0, a, "other", 0o600)
	f.make(1, b, "other", 0o600)
	require.Equal(t, file, f.lookup(0, a, "f").Attr.Ino, "reads go on")
	require.Equal(t, posix.EHELD, f.cross(c, 0, 1).Code, "and others are refused")
	require.Equal(t, posix.OK, u.decide().Code)
	require.Equal(t, posix.EREMOTE, f.machines[0].Decide(u.number, u.votes, 99).Code, "only once")
	f.must(1, meta.Command{Op: meta.OpWrite, Ino: file, Data: []byte("x")})
	f.must(1, meta.Command{Op: meta.OpUnlink, Ino: b, Name: "g"})
}

// An inode away from home is let go by its home.
func TestOrphansAwayFromHome(t *testing.T) {
	f := newTree(t, 2)
	ino := f.make(1, root(1), "f", 0o600)
	f.must(1, meta.Command{Op: meta.OpWrite, Ino: ino, Blocks: []meta.Block{{ID: posix.MakeBlockID(1, 1, 1), Length: 9}}})
	move := f.begin(meta.Command{Op: meta.OpRename, Ino: root(1), Name: "f", NewParent: posix.Root, NewName: "g", Child: ino}, 1, 0).prepare(1, 0)
	require.Equal(t, posix.OK, f.machines[0].Decide(move.number, move.votes, 1).Code)
	f.must(0, meta.Command{Op: meta.OpUnlink, Ino: posix.Root, Name: "g"})
	f.mail()
	require.Len(t, f.machines[1].Orphans(0, 9), 1, "it is told before it has decided")
	require.Empty(t, f.machines[0].Orphans(0, 9))
	f.machines[1].Reap(ino, 77)
	require.Equal(t, posix.OK, f.machines[1].Decide(move.number, move.votes, 1).Code)
	require.Len(t, f.machines[1].Orphans(0, 9), 1, "it was not let go too early")
	f.machines[0].Reap(ino, 77)
	require.EqualValues(t, 0, f.stat(0, ino).Nlink, "only its home lets it go")
	require.Equal(t, posix.ENOENT, f.cross(meta.Command{Op: meta.OpMove, Child: ino, Target: 1}, 0, 1).Code)
	f.machines[1].Reap(ino, 77)
	require.Empty(t, f.machines[1].Orphans(0, 9))
	require.Equal(t, posix.ESTALE, f.at(1, meta.Command{Op: meta.OpGetAttr, Ino: ino}).Code)
	f.mail()
	require.Equal(t, posix.ESTALE, f.at(0, meta.Command{Op: meta.OpGetAttr, Ino: ino}).Code)
	require.Equal(t, meta.Result{Number: 1}, f.at(0, meta.Command{Op: meta.OpStatFS}))
}

// A home that is neither where an inode was nor where it goes may learn that it has lost its names before it
// has decided the move.
func TestHomeLearnsOfAnOrphanBeforeItsMove(t *testing.T) {
	f := newTree(t, 3)
	ino := f.away(1, root(1), "f", 0o600, 2)
	move := f.begin(meta.Command{Op: meta.OpMove, Child: ino, Target: 0}, 2, 0).prepare(2, 0)
	require.Equal(t, posix.OK, f.machines[0].Decide(move.number, move.votes, 1).Code)
	unlink := f.begin(meta.Command{Op: meta.OpUnlink, Ino: root(1), Name: "f", Child: ino}, 1, 0).prepare(1, 0)
	require.Equal(t, posix.OK, unlink.decide().Code)
	f.mail()
	require.Len(t, f.machines[2].Orphans(0, 9), 1)
	require.Equal(t, posix.OK, f.machines[2].Decide(move.number, move.votes, 1).Code)

	ino = f.away(1, root(1), "g", 0o600, 2)
	f.mustCross(meta.Command{Op: meta.OpMove, Child: ino, Target: 1}, 1, 2)
	move = f.begin(meta.Command{Op: meta.OpMove, Child: ino, Target: 0}, 0, 1, 2).prepare(0, 1, 2)
	for _, p := range []int{0, 1} {
		require.Equal(t, posix.OK, f.machines[p].Decide(move.number, move.votes, 1).Code)
	}
	unlink = f.begin(meta.Command{Op: meta.OpUnlink, Ino: root(1), Name: "g", Child: ino}, 1, 0).prepare(1, 0)
	require.Equal(t, posix.OK, unlink.decide().Code)
	f.machines[2].Reap(ino, 5)
	f.restart(2)
	f.mail()
	again := f.begin(meta.Command{Op: meta.OpMove, Child: ino, Target: 2}, 2, 0)
	require.Equal(t, posix.EHELD, f.machines[2].Prepare(again.number, again.command, again.parties).Code, "it may be on its way here or there")
	f.machines[2].Abort(again.number)
	require.Equal(t, posix.OK, f.machines[2].Decide(move.number, move.votes, 1).Code)
	require.Len(t, f.machines[2].Orphans(0, 9), 2)
}

func TestMoveOfADirectory(t *testing.T) {
	f := newTree(t, 3)
	dir := f.make(0, posix.Root, "d", dirMode)
	f.spread(0, dir, 0)
	for _, name := range []string{"a", "b", "c"} {
		f.make(0, dir, name, 0o600)
	}
	f.must(0, meta.Command{Op: meta.OpUnlink, Ino: dir, Name: "a"})
	away := f.away(0, dir, "away", 0o600, 2)
	before, list := f.stat(0, dir), f.at(0, meta.Command{Op: meta.OpReadDir, Ino: dir, Length: 9}).Entries
	move := meta.Command{Op: meta.OpMove, Child: dir, Target: 1}
	require.Equal(t, posix.EREMOTE, f.cross(move, 1, 2).Code, "it is at neither")
	require.Equal(t, remote(dir, 0), f.at(0, move))
	require.Equal(t, before, f.mustCross(move, 0, 1))
	require.Equal(t, before, f.mustCross(move, 0, 1), "once more does no harm")
	require.Equal(t, before, f.must(1, move), "also where it is")
	require.Equal(t, remote(dir, 1), f.at(0, move))
	require.Equal(t, posix.ESTALE, f.at(2, move).Code)
	require.Equal(t, before, f.stat(1, dir))
	after := f.at(1, meta.Command{Op: meta.OpReadDir, Ino: dir, Length: 9}).Entries
	require.Len(t, after, 3)
	for i, e := range after {
		require.Equal(t, [2]any{list[i].Name, list[i].Cookie}, [2]any{e.Name, e.Cookie}, "cookies stay")
		require.Equal(t, list[i].At, e.At)
	}
	require.Equal(t, meta.Result{Attr: posix.Attr{Ino: away, Mode: posix.TypeRegular}, Number: 2}, f.lookup(1, dir, "away"))
	f.mail()
	require.EqualValues(t, 2, f.at(1, meta.Command{Op: meta.OpMknod, Ino: dir, Name: "new"}).Number, "its rule came along")
	require.Equal(t, posix.EBUSY, f.cross(meta.Command{Op: meta.OpMove, Child: root(1), Target: 0}, 0, 1).Code)
}

// A file that is too large stays where it is.
func TestWhatCannotMove(t *testing.T) {
	f := newTree(t, 2)
	large := f.make(1, root(1), "large", 0o600)
	literal := slices.Repeat([]byte{'x'}, meta.MaxLiteral)
	for i := range uint64(meta.MaxExport / meta.MaxLiteral) {
		f.must(1, meta.Command{Op: meta.OpWrite, Ino: large, Offset: i * (meta.MaxLiteral + 1), Data: literal})
	}
	require.Equal(t, posix.EFBIG, f.cross(meta.Command{Op: meta.OpMove, Child: large, Target: 0}, 0, 1).Code)
	c := meta.Command{Op: meta.OpRename, Ino: root(1), Name: "large", NewParent: posix.Root, NewName: "x", Child: large}
	require.EqualValues(t, 1, f.cross(c, 1, 0).Number)
	require.EqualValues(t, 1, f.lookup(0, posix.Root, "x").Number)
}

// Votes come from elsewhere: bad votes have no effect but a refusal.
func TestBadVotes(t *testing.T) {
	f := newTree(t, 2)
	ino := f.make(1, root(1), "f", 0o600)
	c := meta.Command{Op: meta.OpRename, Ino: root(1), Name: "f", NewParent: posix.Root, NewName: "g", Child: ino}
	for cut := 0; ; cut++ {
		u := f.begin(c, 1, 0).prepare(1, 0)
		if cut == len(u.votes[0]) {
			require.Equal(t, posix.OK, u.decide().Code)
			break
		}
		u.votes[0] = u.votes[0][:cut]
		require.Equal(t, posix.EREMOTE, u.decide().Code, "cut at %d", cut)
	}
	u := f.begin(c, 1, 0).prepare(1)
	require.Equal(t, posix.EREMOTE, u.decide().Code, "a vote is missing")
	u = f.begin(c, 1, 0).prepare(1, 1)
	require.Equal(t, posix.EREMOTE, u.decide().Code, "a vote comes twice")
	u = f.begin(c, 1, 0)
	u.command = &meta.Command{}
	u.prepare(1, 0)
	f.restart(1)
	require.Equal(t, posix.EREMOTE, u.decide().Code, "no command at all")
	u = f.begin(c, 1, 0).prepare(1, 0)
	require.Equal(t, posix.EREMOTE, u.f.machines[0].Decide(u.number, append(u.votes, u.votes[0]), 1).Code, "a vote too many")
	require.Equal(t, posix.EREMOTE, u.f.machines[1].Decide(u.number, nil, 1).Code)
	u = f.begin(meta.Command{Op: meta.OpWrite, Ino: ino}, 0, 1).prepare(0, 1)
	require.Equal(t, posix.EINVAL, u.decide().Code, "a write is of one partition")
}

func TestPlaceOverPartitions(t *testing.T) {
	f := newTree(t, 3)
	dir, file := f.make(1, root(1), "d", dirMode), f.make(1, root(1), "f", 0o600)
	rule := meta.Rule{Spread: []uint16{2}, Region: "somewhere"}
	c := meta.Command{Op: meta.OpPlace, Ino: dir, Data: rule.Append(nil), Target: 2, Flags: meta.PlaceMove}
	require.Equal(t, remote(dir, 1), f.at(1, c))
	require.Equal(t, posix.EREMOTE, f.cross(c, 1, 2).Code, "without the table")
	require.Equal(t, dir, f.mustCross(c, 1, 0).Ino)
	require.Equal(t, rule.Append(nil), f.at(1, meta.Command{Op: meta.OpRule, Ino: dir}).Data)
	require.EqualValues(t, 1, f.at(0, meta.Command{Op: meta.OpRules}).Number)
	require.EqualValues(t, 1, f.at(1, meta.Command{Op: meta.OpTasks}).Number)
	c.Ino = file
	require.Equal(t, posix.ENOTDIR, f.cross(c, 1, 0).Code)
	c.Ino, c.Data = dir, []byte{1}
	require.Equal(t, posix.EINVAL, f.cross(c, 1, 0).Code)
}

// A directory on a way up that an undecided command has walked stays where it is; names in it come and go.
func TestWaysAreHeld(t *testing.T) {
	f := newTree(t, 2)
	top := f.make(1, root(1), "top", dirMode)
	deep := f.make(1, top, "deep", dirMode)
	a := f.make(0, posix.Root, "a", dirMode)
	c := meta.Command{Op: meta.OpRename, Ino: posix.Root, Name: "a", NewParent: deep, NewName: "a", Child: a, Target: 1, Chain: []posix.Ino{deep}}
	u := f.begin(c, 0, 1).prepare(0, 1)
	f.make(1, root(1), "other", dirMode)
	other := f.lookup(1, root(1), "other").Attr.Ino
	rename := meta.Command{Op: meta.OpRename, Ino: root(1), Name: "top", NewParent: other, NewName: "moved"}
	require.Equal(t, held, f.at(1, rename))
	require.Equal(t, posix.EHELD, f.cross(meta.Command{Op: meta.OpMove, Child: top, Target: 0}, 0, 1).Code)
	f.make(1, top, "file", 0o600)
	f.must(1, meta.Command{Op: meta.OpRename, Ino: root(1), Name: "top", NewParent: root(1), NewName: "renamed"})
	rename.Name = "renamed"
	require.Equal(t, posix.OK, u.decide().Code)
	f.must(1, rename)
}
