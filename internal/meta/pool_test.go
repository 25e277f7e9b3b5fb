package meta_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

const reservedPrefix = 0x11

// stored counts the keys with a first byte.
func (f *tree) stored(p int, prefix byte) (count int) {
	for range f.keys[p].Scan([]byte{prefix}, []byte{prefix + 1}) {
		count++
	}
	return count
}

// If a new inode is in another partition than its directory, the partition of the directory alone enters the
// name and answers.
func TestMadeElsewhere(t *testing.T) {
	f := newTree(t, 3)
	dir := f.make(1, root(1), "dir", dirMode|posix.SetGID)
	f.spread(1, dir, 2)
	mkdir := meta.Command{Op: meta.OpMknod, Cred: posix.Cred{UID: 5, GID: 6}, Ino: dir, Name: "sub", Mode: posix.TypeDir | 0o700, Flags: meta.Exclusive}
	before := f.stat(1, dir)
	require.Equal(t, held, f.at(1, mkdir), "there are no numbers yet")
	require.Equal(t, before, f.stat(1, dir))
	f.mail()
	r := f.at(1, mkdir)
	require.Equal(t, posix.OK, r.Code)
	sub := r.Attr.Ino
	require.EqualValues(t, 2, r.Number)
	require.EqualValues(t, 2, sub.Partition())
	require.Equal(t, posix.TypeDir|posix.SetGID|0o700, r.Attr.Mode)
	require.Equal(t, [2]uint32{5, 0}, [2]uint32{r.Attr.UID, r.Attr.GID}, "the group is of the directory")
	require.EqualValues(t, 3, f.stat(1, dir).Nlink)

	partial := posix.Attr{Ino: sub, Mode: posix.TypeDir}
	require.Equal(t, meta.Result{Attr: partial, Number: 2}, f.lookup(1, dir, "sub"))
	list := f.at(1, meta.Command{Op: meta.OpReadDir, Ino: dir, Length: 9}).Entries
	require.Equal(t, []meta.Entry{{Name: "sub", Cookie: 3, Attr: partial, At: 2}}, list)
	require.Empty(t, meta.CheckAll([]meta.Keys{f.keys[0], f.keys[1], f.keys[2]}), "it is to be made")
	f.restart(1)
	f.restart(2)
	f.mail()
	require.Equal(t, r.Attr, f.stat(2, sub), "both say the same")
	up := f.lookup(2, sub, "..")
	require.Equal(t, meta.Result{Attr: posix.Attr{Ino: dir, Mode: posix.TypeDir}, Number: 1}, up)

	require.Equal(t, posix.EEXIST, f.at(1, mkdir).Code)
	for name, code := range map[string]posix.Code{"": posix.ENOENT, "..": posix.EEXIST, "a/b": posix.EINVAL} {
		mkdir.Name = name
		require.Equal(t, code, f.at(1, mkdir).Code, name)
	}
	link := f.must(1, meta.Command{Op: meta.OpMknod, Ino: dir, Name: "link", Mode: posix.TypeSymlink, Data: []byte("target")}).Ino
	file := f.make(1, dir, "f", 0o640)
	f.mail()
	require.Equal(t, []byte("target"), f.at(2, meta.Command{Op: meta.OpReadlink, Ino: link}).Data)
	f.must(2, meta.Command{Op: meta.OpWrite, Ino: file, Data: []byte("x")})
	f.make(2, sub, "inside", 0o600)
	require.Equal(t, posix.OK, f.cross(meta.Command{Op: meta.OpMove, Child: link, Target: 0}, 2, 0).Code, "and it can move")
	require.EqualValues(t, 0, f.mustCross(meta.Command{Op: meta.OpUnlink, Ino: dir, Name: "f", Child: file}, 1, 2).Nlink)
	require.Equal(t, posix.EINVAL, f.cross(mkdir, 1, 2).Code, "it is of one partition")
}

// Until an inode is made, everything that is about it is held up, and nothing else.
func TestReservedNumbersAreAwaited(t *testing.T) {
	f := newTree(t, 2)
	dir := f.make(0, posix.Root, "dir", dirMode)
	f.spread(0, dir, 1)
	f.mail()
	file, sub := f.make(0, dir, "f", 0o600), f.make(0, dir, "s", dirMode)
	require.True(t, f.machines[1].Reserved(file))
	require.False(t, f.machines[0].Reserved(file))
	require.False(t, f.machines[1].Reserved(root(1)))
	for _, c := range []meta.Command{
		{Op: meta.OpGetAttr, Ino: file}, {Op: meta.OpExtents, Ino: file}, {Op: meta.OpWrite, Ino: file, Data: []byte("x")},
		{Op: meta.OpLookup, Ino: sub, Name: "x"}, {Op: meta.OpMknod, Ino: sub, Name: "x"}, {Op: meta.OpUnlink, Ino: sub, Name: "x"},
		{Op: meta.OpSetAttr, Ino: sub, Set: meta.SetMode}, {Op: meta.OpLink, Ino: file, NewParent: root(1), NewName: "l"},
		{Op: meta.OpRename, Ino: root(1), Name: "a", NewParent: sub, NewName: "b"},
	} {
		require.True(t, f.machines[1].Awaits(f.decoded(c)), "%+v", c)
		if c.Op != meta.OpRename {
			require.Equal(t, held, f.at(1, c), "%+v", c)
		}
	}
	unlink := meta.Command{Op: meta.OpUnlink, Ino: dir, Name: "f", Child: file}
	require.Equal(t, remote(file, 1), f.at(0, unlink))
	u := f.begin(unlink, 0, 1)
	require.True(t, f.machines[1].Awaits(u.command))
	require.Equal(t, posix.EHELD, u.prepare(0, 1).decide().Code)
	rename := f.begin(meta.Command{Op: meta.OpRename, Ino: posix.Root, Name: "none", NewParent: posix.Root, NewName: "x", Chain: []posix.Ino{sub}}, 0, 1)
	require.True(t, f.machines[1].Awaits(rename.command))
	require.False(t, f.machines[1].Awaits(f.decoded(meta.Command{Op: meta.OpGetAttr, Ino: root(1)})))

	// The directory comes here before its content.
	f.mustCross(meta.Command{Op: meta.OpMove, Child: dir, Target: 1}, 0, 1)
	partial := posix.Attr{Ino: file, Mode: posix.TypeRegular}
	require.Equal(t, meta.Result{Attr: partial, Number: 1}, f.lookup(1, dir, "f"))
	require.Equal(t, partial, f.at(1, meta.Command{Op: meta.OpReadDir, Ino: dir, Length: 1}).Entries[0].Attr)
	require.Equal(t, held, f.at(1, meta.Command{Op: meta.OpUnlink, Ino: dir, Name: "f"}))
	require.Equal(t, held, f.at(1, meta.Command{Op: meta.OpMknod, Ino: dir, Name: "f", Flags: meta.Truncate}))
	require.Empty(t, meta.Check(f.keys[1]))
	f.mail()
	require.EqualValues(t, 1, f.lookup(1, dir, "f").Attr.Nlink)
	f.must(1, meta.Command{Op: meta.OpUnlink, Ino: dir, Name: "f"})
	f.machines[1].Reap(file, 77)
	require.Equal(t, posix.ESTALE, f.at(1, meta.Command{Op: meta.OpGetAttr, Ino: file}).Code)
}

// Posts may come again, late, and with gaps: each is executed once, in its order. A number is made once.
func TestPostsAreExecutedOnce(t *testing.T) {
	f := newTree(t, 2)
	dir := f.make(0, posix.Root, "dir", dirMode)
	f.spread(0, dir, 1)
	f.mail()
	first := f.executed(1, 0)
	var made []posix.Ino
	for i := range 5 {
		made = append(made, f.make(0, dir, fmt.Sprint(i), 0o600))
	}
	posts := f.posts(0, 1)
	require.Len(t, posts, 5)
	require.Equal(t, posts[:2], f.machines[0].Outbox(1, 2))
	run := func(from, to int) uint64 {
		var commands []meta.Command
		for _, p := range posts[from:to] {
			commands = append(commands, p.Command)
		}
		return f.machines[1].ExecutePosts(0, posts[from].Number, commands, 5, 5)
	}
	require.Equal(t, first, run(1, 3), "the first is missing")
	require.Equal(t, first+2, run(0, 2))
	f.restart(1)
	require.Equal(t, first+2, run(3, 5), "one is missing")
	require.Equal(t, first+4, run(0, 4))
	for i, ino := range made {
		require.Equal(t, i == 4, f.machines[1].Reserved(ino))
	}
	f.mustCross(meta.Command{Op: meta.OpUnlink, Ino: dir, Name: "0", Child: made[0]}, 0, 1)
	f.machines[1].Reap(made[0], 77)
	require.Equal(t, first+5, run(0, 5))
	again := f.machines[1].ExecutePosts(0, first+6, []meta.Command{posts[0].Command}, 5, 5)
	require.Equal(t, first+6, again)
	require.Equal(t, posix.ESTALE, f.at(1, meta.Command{Op: meta.OpGetAttr, Ino: made[0]}).Code, "what is gone is not made again")
	f.machines[0].Posted(1, posts[2].Number)
	require.Equal(t, posts[3:], f.posts(0, 1))
	f.restart(0)
	require.Equal(t, posts[3:], f.posts(0, 1))
	require.Equal(t, []uint16{1}, f.machines[0].Destinations())
	f.machines[0].Posted(1, posts[4].Number)
	f.machines[0].Posted(1, posts[4].Number)
	require.Empty(t, f.machines[0].Destinations())
	require.Zero(t, f.machines[1].ExecutePosts(1, 1, []meta.Command{posts[0].Command}, 5, 5), "nobody posts to itself")
}

// A pool asks for more before it is empty, once at a time.
func TestThePoolIsFilledInTime(t *testing.T) {
	f := newTree(t, 2)
	dir := f.make(0, posix.Root, "dir", dirMode)
	f.spread(0, dir, 1)
	require.Len(t, f.posts(0, 1), 1, "with the rule")
	f.mail()
	made := map[posix.Ino]bool{}
	for i := range 3000 {
		ino := f.make(0, dir, fmt.Sprint(i), 0o600)
		require.False(t, made[ino])
		made[ino] = true
		if i%400 == 0 {
			f.mail()
		}
	}
	f.restart(0)
	f.mail()
	require.EqualValues(t, 3001, f.at(1, meta.Command{Op: meta.OpStatFS}).Number)
	for i := range 1000 { // partition 1 does not answer
		f.at(0, meta.Command{Op: meta.OpMknod, Ino: dir, Name: fmt.Sprint("late", i)})
	}
	all := f.machines[0].Outbox(1, 2000)
	asks := slices.DeleteFunc(all, func(p meta.Post) bool { return p.Command.Op != meta.OpNumbers })
	require.Len(t, asks, 1)
	other := f.make(1, root(1), "other", 0o600)
	require.False(t, made[other], "it is nobody else's")
	f.drain()
	require.LessOrEqual(t, f.stored(1, reservedPrefix), 2000/64)
}

// drain delivers all posts, however many.
func (f *tree) drain() {
	for len(f.machines[0].Destinations())+len(f.machines[1].Destinations()) > 0 {
		f.mail()
	}
}

// An inode away from its home is destroyed when its home has let it go, and only if it has no name.
func TestReleasedDestroysOnlyWhatHasNoName(t *testing.T) {
	f := newTree(t, 2)
	named, lost := f.make(1, root(1), "named", 0o600), f.make(1, root(1), "lost", 0o600)
	home := f.make(0, posix.Root, "home", 0o600)
	for _, ino := range []posix.Ino{named, lost} {
		f.mustCross(meta.Command{Op: meta.OpMove, Child: ino, Target: 0}, 0, 1)
	}
	f.mustCross(meta.Command{Op: meta.OpUnlink, Ino: root(1), Name: "lost", Child: lost}, 0, 1)
	f.must(0, meta.Command{Op: meta.OpUnlink, Ino: posix.Root, Name: "home"})
	f.mail()
	var posts []meta.Command
	for _, ino := range []posix.Ino{named, lost, home} {
		posts = append(posts, meta.Command{Op: meta.OpReleased, Child: ino})
	}
	f.machines[1].Reap(lost, 77)
	next := f.executed(0, 1) + 1
	require.Equal(t, []meta.Post{{Number: next, Command: f.posts(1, 0)[0].Command}}, f.posts(1, 0))
	require.Equal(t, next+2, f.machines[0].ExecutePosts(1, next, posts, 5, 5))
	require.EqualValues(t, 1, f.stat(0, named).Nlink)
	require.EqualValues(t, 0, f.stat(0, home).Nlink, "what lives at home is reaped, not released")
	require.Equal(t, posix.ESTALE, f.at(0, meta.Command{Op: meta.OpGetAttr, Ino: lost}).Code)
	f.machines[1].Posted(0, next)
}
