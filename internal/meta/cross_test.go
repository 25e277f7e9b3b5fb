package meta_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/kv"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// tree is some partitions, and what would order the commands between them.
type tree struct {
	t        *testing.T
	keys     []*kv.Store
	machines []*meta.Machine
	number   uint64
	counter  uint64
}

func newTree(t *testing.T, partitions int) *tree {
	f := &tree{t: t, keys: make([]*kv.Store, partitions), machines: make([]*meta.Machine, partitions)}
	for p := range f.machines {
		f.keys[p] = kv.NewMemory()
		f.restart(p)
	}
	t.Cleanup(f.check)
	return f
}

func root(p int) posix.Ino { return posix.MakeIno(uint16(p), 1) }

// restart makes the machine of a partition anew over its keys.
func (f *tree) restart(p int) {
	f.t.Helper()
	cfg := meta.Config{Partition: uint16(p)}
	for other := 1; p == 0 && other < len(f.machines); other++ {
		cfg.Genesis = append(cfg.Genesis, meta.Birth{Name: string(rune('0' + other)), Ino: root(other)})
	}
	var err error
	f.machines[p], err = meta.New(f.keys[p], cfg)
	require.NoError(f.t, err)
}

func (f *tree) check() {
	if f.t.Failed() {
		return
	}
	f.mail()
	var all []meta.Keys
	for p, keys := range f.keys {
		require.Empty(f.t, meta.Check(keys), "partition %d", p)
		all = append(all, keys)
	}
	require.Empty(f.t, meta.CheckAll(all))
}

func (f *tree) decoded(c meta.Command) *meta.Command {
	f.t.Helper()
	f.counter++
	c.Time = posix.Time(f.counter)
	for _, k := range c.Blocks {
		c.Length += uint64(k.Length)
	}
	if c.Op == meta.OpWrite {
		c.Length += uint64(len(c.Data))
	}
	d, err := meta.DecodeCommand(c.Append(nil))
	require.NoError(f.t, err)
	d.Session, d.Authority = 1, c.Authority
	return &d
}

// at executes c in one partition.
func (f *tree) at(p int, c meta.Command) meta.Result {
	f.t.Helper()
	d := f.decoded(c)
	if c.Op.IsQuery() {
		return f.machines[p].Query(d)
	}
	return f.machines[p].Apply(d, f.counter)
}

func (f *tree) must(p int, c meta.Command) posix.Attr {
	f.t.Helper()
	r := f.at(p, c)
	require.Equal(f.t, posix.OK, r.Code)
	return r.Attr
}

func (f *tree) make(p int, dir posix.Ino, name string, mode posix.Mode) posix.Ino {
	f.t.Helper()
	return f.must(p, meta.Command{Op: meta.OpMknod, Ino: dir, Name: name, Mode: mode, Flags: meta.Exclusive}).Ino
}

// undecided is a command that some parties have prepared.
type undecided struct {
	f       *tree
	number  uint64
	command *meta.Command
	parties []uint16
	votes   [][]byte
}

func (f *tree) begin(c meta.Command, parties ...uint16) *undecided {
	f.t.Helper()
	f.number++
	return &undecided{f: f, number: f.number, command: f.decoded(c), parties: parties}
}

func (u *undecided) prepare(parties ...uint16) *undecided {
	for _, p := range parties {
		u.votes = append(u.votes, u.f.machines[p].Prepare(u.number, u.command, u.parties).Encoded)
	}
	return u
}

// decide gives the votes to all parties, in another order to each, and the answer of the first.
func (u *undecided) decide() meta.Result {
	u.f.t.Helper()
	var answer meta.Result
	for i, p := range u.parties {
		u.f.counter++
		r := u.f.machines[p].Decide(u.number, u.votes, u.f.counter)
		if i == 0 {
			answer = r
		}
		require.Equal(u.f.t, answer.Code, r.Code, "partition %d", p)
		u.votes = append(u.votes[1:], u.votes[0])
	}
	return answer
}

// cross executes c at all parties.
func (f *tree) cross(c meta.Command, parties ...uint16) meta.Result {
	f.t.Helper()
	return f.begin(c, parties...).prepare(parties...).decide()
}

func (f *tree) mustCross(c meta.Command, parties ...uint16) posix.Attr {
	f.t.Helper()
	r := f.cross(c, parties...)
	require.Equal(f.t, posix.OK, r.Code)
	return r.Attr
}

// mail delivers all posts, each of them twice.
func (f *tree) mail() {
	f.t.Helper()
	for moved := true; moved; {
		moved = false
		for p := range f.machines {
			for _, to := range f.machines[p].Destinations() {
				moved = f.mailTo(p, to) || moved
			}
		}
	}
}

// mailTo delivers the posts of p to one partition.
func (f *tree) mailTo(p int, to uint16) bool {
	f.t.Helper()
	posts := f.posts(p, to)
	if int(to) >= len(f.machines) || len(posts) == 0 {
		return false
	}
	first, last := posts[0].Number, posts[len(posts)-1].Number
	commands := make([]meta.Command, len(posts))
	for i := range posts {
		commands[i] = posts[i].Command
	}
	f.counter++
	require.Less(f.t, f.machines[to].ExecutePosts(uint16(p), first+1, commands[1:], 5, f.counter), first, "with a gap")
	for range 2 {
		require.Equal(f.t, last, f.machines[to].ExecutePosts(uint16(p), first, commands, posix.Time(f.counter), f.counter))
	}
	f.machines[p].Posted(to, last)
	return true
}

// posts gives the posts of p to another partition.
func (f *tree) posts(p int, to uint16) []meta.Post { return f.machines[p].Outbox(to, 9) }

// told gives all posts of p that are not about numbers.
func (f *tree) told(p int) (all []meta.Post) {
	for _, to := range f.machines[p].Destinations() {
		all = append(all, f.posts(p, to)...)
	}
	return slices.DeleteFunc(all, func(x meta.Post) bool { return x.Command.Op == meta.OpNumbers || x.Command.Op == meta.OpGranted })
}

// spread gives dir in partition p a rule that sends all children to target.
func (f *tree) spread(p int, dir posix.Ino, target uint16) {
	f.t.Helper()
	c := meta.Command{Op: meta.OpPlace, Ino: dir, Data: (&meta.Rule{Spread: []uint16{target}}).Append(nil), Target: target}
	if p == 0 {
		f.must(0, c)
		return
	}
	f.mustCross(c, uint16(p), 0)
}

// away makes name in dir of partition p, with its inode in another partition.
func (f *tree) away(p int, dir posix.Ino, name string, mode posix.Mode, target uint16) posix.Ino {
	f.t.Helper()
	f.spread(p, dir, target)
	f.mail()
	ino := f.make(p, dir, name, mode)
	require.Equal(f.t, target, ino.Partition())
	f.mail()
	return ino
}

func (f *tree) stat(p int, ino posix.Ino) posix.Attr {
	f.t.Helper()
	return f.must(p, meta.Command{Op: meta.OpGetAttr, Ino: ino})
}

func (f *tree) lookup(p int, dir posix.Ino, name string) meta.Result {
	f.t.Helper()
	return f.at(p, meta.Command{Op: meta.OpLookup, Ino: dir, Name: name})
}

func remote(ino posix.Ino, at uint64) meta.Result {
	return meta.Result{Code: posix.EREMOTE, Attr: posix.Attr{Ino: ino}, Number: at}
}

// held is the answer to an update that meets a hold.
var held = meta.Result{Code: posix.EHELD}

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

// Of two renames that would together cut both directories off, one is refused; in whatever order their
// votes are given.
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

// What an undecided command looked at nobody changes; the rest goes on.
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

// A home that is neither where an inode was nor where it goes may learn that it has lost its names before it has decided the move.
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

// What is too large stays where it is.
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

// Votes come from elsewhere: whatever they are, nothing but a refusal comes of it.
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

// A rename in one partition must not go by a parent that an undecided command is about to change: here that would close a circle
// of two renames over partitions and this one.
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

// executed is the number of the last post of another partition that p has executed.
func (f *tree) executed(p, from int) uint64 {
	return f.machines[p].ExecutePosts(uint16(from), 1, nil, 0, 0)
}

// An entry says where its inode is, also after an exchange: home may be elsewhere, and is not asked then.
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

// A directory that has a rule of its own stays where it is when it is renamed: nobody is asked to move what is in it.
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
