package meta_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

func TestRenameMovesASmallFile(t *testing.T) {
	f := newTree(t, 3)
	ino := f.make(1, root(1), "f", 0o640)
	block := posix.MakeBlockID(1, 1, 1)
	f.must(1, meta.Command{Op: meta.OpWrite, Ino: ino, Data: []byte("literal")})
	f.must(1, meta.Command{Op: meta.OpWrite, Ino: ino, Offset: 100, Blocks: []meta.Block{{ID: block, Length: 50}}})
	f.must(1, meta.Command{Op: meta.OpWrite, Ino: ino, Offset: 120, Data: []byte("hole")})
	f.must(1, meta.Command{Op: meta.OpSetXattr, Ino: ino, Name: "user.x", Data: []byte("v")})
	extents := meta.Command{Op: meta.OpExtents, Ino: ino, Length: 1000}
	content := f.at(1, extents).Extents
	rename := meta.Command{Op: meta.OpRename, Ino: root(1), Name: "f", NewParent: posix.Root, NewName: "g", Child: ino, Target: 0}
	before := f.stat(1, ino)
	r := f.cross(rename, 1, 0)
	require.Equal(t, posix.OK, r.Code)
	before.Ctime = r.Attr.Ctime
	require.Equal(t, meta.Result{Attr: before}, r)
	require.Equal(t, before, f.stat(0, ino))
	require.Equal(t, content, f.at(0, extents).Extents)
	require.Equal(t, []byte("v"), f.at(0, meta.Command{Op: meta.OpGetXattr, Ino: ino, Name: "user.x"}).Data)
	require.Equal(t, remote(ino, 0), f.at(1, meta.Command{Op: meta.OpGetAttr, Ino: ino}), "its home knows")
	require.Equal(t, remote(ino, 0), f.at(1, meta.Command{Op: meta.OpWrite, Ino: ino, Data: []byte("x")}))
	require.Equal(t, posix.ESTALE, f.at(2, meta.Command{Op: meta.OpGetAttr, Ino: ino}).Code)
	require.Equal(t, meta.Result{Number: 1}, f.at(1, meta.Command{Op: meta.OpStatFS}))
	require.Equal(t, meta.Result{Number: 2, Number2: before.Bytes}, f.at(0, meta.Command{Op: meta.OpStatFS}))

	third := f.make(2, root(2), "dir", dirMode)
	rename = meta.Command{Op: meta.OpRename, Ino: posix.Root, Name: "g", NewParent: third, NewName: "h", Child: ino, Target: 2}
	require.Equal(t, posix.OK, f.cross(rename, 0, 2).Code)
	require.EqualValues(t, 0, f.lookup(2, third, "h").Number, "its home is no party: it stays")
	f.mustCross(meta.Command{Op: meta.OpMove, Child: ino, Target: 2}, 0, 1, 2)
	require.Equal(t, remote(ino, 2), f.at(1, meta.Command{Op: meta.OpGetAttr, Ino: ino}))
	require.EqualValues(t, 2, f.lookup(2, third, "h").Number)
	f.mustCross(meta.Command{Op: meta.OpMove, Child: ino, Target: 1}, 1, 2)
	require.Equal(t, posix.OK, f.at(1, meta.Command{Op: meta.OpWrite, Ino: ino, Data: []byte("x")}).Code)
	require.EqualValues(t, 0, f.lookup(2, third, "h").Number, "where it was when it got the name")
	require.Equal(t, posix.ESTALE, f.at(0, meta.Command{Op: meta.OpGetAttr, Ino: ino}).Code, "its home is to be asked")
}

func TestRenameErrorsElsewhere(t *testing.T) {
	f := newTree(t, 3)
	a := f.make(0, posix.Root, "a", dirMode)
	b := f.make(1, root(1), "b", dirMode)
	file, other := f.make(0, a, "f", 0o600), f.make(1, b, "g", 0o600)
	empty, full := f.make(1, b, "empty", dirMode), f.make(1, b, "full", dirMode)
	f.make(1, full, "x", 0o600)
	sub := f.make(0, a, "sub", dirMode)
	f.make(0, sub, "x", 0o600)
	for _, x := range []struct {
		name    string
		child   posix.Ino
		newName string
		other   posix.Ino
		flags   uint32
		want    posix.Code
	}{
		{"f", file, "x", 0, meta.RenameExchange | meta.RenameNoReplace, posix.EINVAL},
		{"none", file, "x", 0, 0, posix.ENOENT},
		{"f", file, "x", 0, meta.RenameExchange, posix.ENOENT},
		{"f", file, "g", other, meta.RenameNoReplace, posix.EEXIST},
		{"f", file, "..", 0, 0, posix.EBUSY},
		{"f", file, "..", 0, meta.RenameNoReplace, posix.EEXIST},
		{"..", file, "x", 0, 0, posix.EBUSY},
		{"f", file, "empty", empty, 0, posix.EISDIR},
		{"sub", sub, "g", other, 0, posix.ENOTDIR},
		{"sub", sub, "full", full, 0, posix.ENOTEMPTY},
		{"f", file, "g", 0, 0, posix.EREMOTE},
		{"f", sub, "x", 0, 0, posix.EREMOTE},
		{"f", file, "a\x00", 0, 0, posix.EINVAL},
	} {
		c := meta.Command{
			Op: meta.OpRename, Ino: a, Name: x.name, NewParent: b, NewName: x.newName, Flags: x.flags, Child: x.child, NewChild: x.other,
			Target: 1, Chain: []posix.Ino{b}, Back: []posix.Ino{a},
		}
		require.Equal(t, x.want, f.cross(c, 0, 1).Code, "%+v", x)
	}
	c := meta.Command{Op: meta.OpRename, Ino: posix.Root, Name: "1", NewParent: b, NewName: "x", Child: root(1), Target: 1}
	require.Equal(t, posix.EBUSY, f.cross(c, 0, 1).Code)
}

func TestRenameReplacesElsewhere(t *testing.T) {
	f := newTree(t, 3)
	a := f.make(0, posix.Root, "a", dirMode)
	b := f.make(1, root(1), "b", dirMode)
	file, old := f.make(0, a, "f", 0o600), f.away(1, b, "g", 0o600, 2)
	c := meta.Command{Op: meta.OpRename, Ino: a, Name: "f", NewParent: b, NewName: "g", Child: file, NewChild: old, Target: 1}
	require.Equal(t, remote(b, 1), f.at(0, meta.Command{Op: meta.OpRename, Ino: a, Name: "f", NewParent: b, NewName: "g"}))
	require.Equal(t, posix.EREMOTE, f.cross(c, 0, 1).Code, "what it replaces is nowhere")
	require.Equal(t, file, f.mustCross(c, 0, 1, 2).Ino)
	require.EqualValues(t, 0, f.stat(2, old).Nlink)
	require.Equal(t, file, f.stat(1, file).Ino)
	require.Len(t, f.machines[2].Orphans(0, 9), 1)

	sub, empty := f.make(0, a, "sub", dirMode), f.away(1, b, "empty", dirMode, 2)
	c = meta.Command{Op: meta.OpRename, Ino: a, Name: "sub", NewParent: b, NewName: "empty", Child: sub, NewChild: empty, Target: 1, Chain: []posix.Ino{b}}
	f.mustCross(c, 0, 1, 2)
	require.Equal(t, sub, f.lookup(1, b, "empty").Attr.Ino)
	require.Equal(t, b, f.lookup(0, sub, "..").Attr.Ino, "a directory stays where it is")
	require.EqualValues(t, 2, f.stat(0, a).Nlink)
	require.EqualValues(t, 3, f.stat(1, b).Nlink)
	tasks := f.at(0, meta.Command{Op: meta.OpTasks})
	require.EqualValues(t, 1, tasks.Number, "it is to follow")
}

func TestExchangeElsewhere(t *testing.T) {
	f := newTree(t, 2)
	a, b := f.make(0, posix.Root, "a", dirMode), f.make(1, root(1), "b", dirMode)
	dir, file := f.make(0, a, "x", dirMode), f.make(1, b, "y", 0o600)
	c := meta.Command{
		Op: meta.OpRename, Flags: meta.RenameExchange, Ino: a, Name: "x", NewParent: b, NewName: "y", Child: dir, NewChild: file,
		Target: 1, Chain: []posix.Ino{b},
	}
	f.mustCross(c, 0, 1)
	require.Equal(t, file, f.lookup(0, a, "x").Attr.Ino)
	require.Equal(t, dir, f.lookup(1, b, "y").Attr.Ino)
	require.Equal(t, b, f.lookup(0, dir, "..").Attr.Ino)
	require.EqualValues(t, 2, f.stat(0, a).Nlink)
	require.EqualValues(t, 3, f.stat(1, b).Nlink)

	inner := f.make(0, a, "inner", dirMode)
	c = meta.Command{
		Op: meta.OpRename, Flags: meta.RenameExchange, Ino: a, Name: "inner", NewParent: b, NewName: "y", Child: inner, NewChild: dir,
		Target: 1, Chain: []posix.Ino{b},
	}
	require.Equal(t, posix.EREMOTE, f.cross(c, 0, 1).Code, "the way back is not known")
	c.Back = []posix.Ino{a}
	f.mustCross(c, 0, 1)
	require.Equal(t, a, f.lookup(0, dir, "..").Attr.Ino)
	require.Equal(t, b, f.lookup(0, inner, "..").Attr.Ino)
}

func TestRenameOntoTheSameFileElsewhere(t *testing.T) {
	f := newTree(t, 2)
	ino := f.make(1, root(1), "f", 0o600)
	f.mustCross(meta.Command{Op: meta.OpLink, Ino: ino, NewParent: posix.Root, NewName: "g"}, 0, 1)
	f.mustCross(meta.Command{Op: meta.OpRename, Ino: root(1), Name: "f", NewParent: posix.Root, NewName: "g", Child: ino, NewChild: ino}, 1, 0)
	require.EqualValues(t, 2, f.stat(1, ino).Nlink)
	require.Equal(t, posix.OK, f.lookup(1, root(1), "f").Code)
}

// A way up through three partitions is followed to its end.
func TestCyclesThroughPartitions(t *testing.T) {
	f := newTree(t, 3)
	a := f.make(0, posix.Root, "a", dirMode)
	b := f.away(0, a, "b", dirMode, 1)
	c := f.away(1, b, "c", dirMode, 2)
	d := f.away(2, c, "d", dirMode, 0)
	require.Equal(t, meta.Result{Attr: posix.Attr{Ino: c, Mode: posix.TypeDir}, Number: 2}, f.at(0, meta.Command{Op: meta.OpChain, Ino: d}))
	require.Equal(t, meta.Result{Attr: posix.Attr{Ino: a, Mode: posix.TypeDir}}, f.at(1, meta.Command{Op: meta.OpChain, Ino: b}))
	require.Equal(t, meta.Result{}, f.at(0, meta.Command{Op: meta.OpChain, Ino: a}), "up to the root")

	into := meta.Command{Op: meta.OpRename, Ino: posix.Root, Name: "a", NewParent: d, NewName: "x"}
	require.Equal(t, remote(c, 2), f.at(0, into), "one partition cannot tell")
	into.Child, into.Chain = a, []posix.Ino{d, c, b, a}
	require.Equal(t, posix.EINVAL, f.cross(into, 0, 1, 2).Code)
	into.Chain = []posix.Ino{d, c}
	require.Equal(t, posix.EREMOTE, f.cross(into, 0, 2).Code, "the way is not complete")
	out := meta.Command{
		Op: meta.OpRename, Ino: c, Name: "d", NewParent: a, NewName: "b", Flags: meta.RenameExchange, Child: d, NewChild: b,
		Chain: []posix.Ino{a}, Back: []posix.Ino{c, b},
	}
	require.Equal(t, posix.EINVAL, f.cross(out, 0, 1, 2).Code)
	out.Flags = 0
	require.Equal(t, posix.ENOTEMPTY, f.cross(out, 0, 1, 2).Code)
	out.NewName, out.NewChild = "free", 0
	f.mustCross(out, 2, 0)
	require.Equal(t, a, f.lookup(0, d, "..").Attr.Ino)
	require.Equal(t, posix.OK, f.at(0, meta.Command{Op: meta.OpRename, Ino: a, Name: "free", NewParent: posix.Root, NewName: "y"}).Code, "here one partition can tell")
}

// Of two renames that would together cut both directories off, one is refused, in any order of their
// votes.
func TestOppositeRenames(t *testing.T) {
	for _, order := range [][2]uint16{{0, 1}, {1, 0}} {
		f := newTree(t, 2)
		a, b := f.make(0, posix.Root, "a", dirMode), f.make(1, root(1), "b", dirMode)
		first := f.begin(meta.Command{Op: meta.OpRename, Ino: posix.Root, Name: "a", NewParent: b, NewName: "a", Child: a, Target: 1, Chain: []posix.Ino{b}}, 0, 1)
		second := f.begin(meta.Command{Op: meta.OpRename, Ino: root(1), Name: "b", NewParent: a, NewName: "b", Child: b, Target: 0, Chain: []posix.Ino{a}}, 1, 0)
		first.prepare(order[0])
		second.prepare(order[0])
		first.prepare(order[1])
		require.Equal(t, posix.OK, first.decide().Code)
		second.prepare(order[1])
		require.Equal(t, posix.EHELD, second.decide().Code)
		c := *second.command
		c.Chain = []posix.Ino{a, b}
		require.Equal(t, posix.EINVAL, f.cross(c, 1, 0).Code, "and now it would be a cycle")
	}
}

// A rename in one partition must not go by a parent that an undecided command is about to change: here that
// would close a circle of two renames over partitions and this one.
func TestRenameInOnePartitionHeedsUndecidedParents(t *testing.T) {
	f := newTree(t, 2)
	dir := posix.TypeDir | 0o755
	p, other := f.make(0, root(0), "p", dir), f.make(0, root(0), "f", dir)
	a, y := f.make(0, p, "a", dir), f.make(0, other, "y", dir)
	below := f.make(0, a, "t", dir)
	b := f.make(1, root(1), "b", dir)
	q := f.make(1, b, "q", dir)
	f.spread(0, y, 1)
	r := f.away(0, y, "r", dir, 1)
	first := f.begin(meta.Command{Op: meta.OpRename, Ino: p, Name: "a", NewParent: q, NewName: "a", Child: a, Target: 1, Chain: []posix.Ino{q}}, 0, 1).prepare(0, 1)
	f.counter++
	require.Equal(t, posix.OK, f.machines[1].Decide(first.number, first.votes, f.counter).Code, "at one party earlier than at the other")
	second := f.begin(meta.Command{Op: meta.OpRename, Ino: root(1), Name: "b", NewParent: r, NewName: "b", Child: b, Target: 1, Chain: []posix.Ino{r, y}}, 0, 1).prepare(0, 1)
	require.Equal(t, posix.OK, second.decide().Code)
	alone := f.at(0, meta.Command{Op: meta.OpRename, Ino: other, Name: "y", NewParent: below, NewName: "y"})
	require.Equal(t, posix.EHELD, alone.Code)
	f.counter++
	require.Equal(t, posix.OK, f.machines[0].Decide(first.number, first.votes, f.counter).Code)
	f.check()
}

// An entry has the partition of its inode, also after an exchange. So the home of the inode, which may be
// another partition, need not be queried.
func TestExchangeKeepsWhereInodesAre(t *testing.T) {
	f := newTree(t, 3)
	a, b := f.make(0, posix.Root, "a", dirMode), f.make(1, root(1), "b", dirMode)
	dir, file := f.make(0, a, "x", dirMode), f.away(1, b, "y", 0o600, 2)
	f.mustCross(meta.Command{Op: meta.OpMove, Child: file, Target: 1}, 1, 2)
	f.mustCross(meta.Command{
		Op: meta.OpRename, Flags: meta.RenameExchange, Ino: a, Name: "x", NewParent: b, NewName: "y", Child: dir, NewChild: file,
		Target: 1, Chain: []posix.Ino{b},
	}, 0, 1)
	require.Equal(t, meta.Result{Attr: posix.Attr{Ino: file, Mode: posix.TypeRegular}, Number: 1}, f.lookup(0, a, "x"))
	require.Equal(t, meta.Result{Attr: posix.Attr{Ino: dir, Mode: posix.TypeDir}, Number: 0}, f.lookup(1, b, "y"))
}

// A directory with its own rule stays in its partition when it is renamed: no task moves its content.
func TestADirectoryWithARuleStaysWhereItIs(t *testing.T) {
	for _, own := range []bool{false, true} {
		f := newTree(t, 2)
		dir, to := f.make(0, posix.Root, "d", dirMode), f.make(1, root(1), "to", dirMode)
		if own {
			f.spread(0, dir, 0)
		}
		f.mustCross(meta.Command{Op: meta.OpRename, Ino: posix.Root, Name: "d", NewParent: to, NewName: "d", Child: dir, Target: 1, Chain: []posix.Ino{to}}, 0, 1)
		want := uint64(1)
		if own {
			want = 0
		}
		require.Equal(t, want, f.at(0, meta.Command{Op: meta.OpTasks}).Number)
	}
}
