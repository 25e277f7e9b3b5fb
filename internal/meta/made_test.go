package meta_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// uncoordinated makes a command, as a client does that has just seen its directory in partition p.
func (f *tree) uncoordinated(p int, dir posix.Ino, name string, mode posix.Mode, number posix.Ino) meta.Command {
	f.t.Helper()
	c := meta.Command{
		Op: meta.OpMknod, Cred: posix.Cred{UID: 5, GID: 6}, Ino: dir, Name: name, Mode: mode, Child: number, Target: number.Partition(),
	}
	attr := f.at(p, meta.Command{Op: meta.OpGetAttr, Ino: dir}).Attr
	c.Foresee(&attr)
	require.True(f.t, c.IsUncoordinated(uint16(p), []uint16{uint16(p), c.Target}))
	return c
}

// run executes an uncoordinated command of partition p in both partitions.
func (f *tree) run(p int, c meta.Command, message string) meta.Result {
	d := f.decoded(c)
	f.machines[c.Target].Make(d, []byte(message))
	return f.machines[p].Enter(d, []byte(message))
}

func (f *tree) makeAlone(p int, dir posix.Ino, name string, mode posix.Mode, number posix.Ino, message string) meta.Result {
	f.t.Helper()
	return f.run(p, f.uncoordinated(p, dir, name, mode, number), message)
}

func (f *tree) isGone(ino posix.Ino) {
	f.t.Helper()
	require.Equal(f.t, posix.ESTALE, f.at(int(ino.Partition()), meta.Command{Op: meta.OpGetAttr, Ino: ino}).Code)
}

func TestMadeWithoutVotes(t *testing.T) {
	f := newTree(t, 3)
	dir := f.make(1, root(1), "dir", dirMode|posix.SetGID)
	f.spread(1, dir, 2)
	n := f.reserve(2, 4)
	r := f.makeAlone(1, dir, "sub", posix.TypeDir|0o700, n, "a")
	require.Equal(t, posix.OK, r.Code)
	require.Equal(t, n, r.Attr.Ino)
	require.EqualValues(t, 2, r.Number)
	require.Equal(t, posix.TypeDir|posix.SetGID|0o700, r.Attr.Mode)
	require.EqualValues(t, 0, r.Attr.GID, "of the directory")
	require.Equal(t, r.Attr, f.stat(2, n), "both say the same")
	require.EqualValues(t, 3, f.stat(1, dir).Nlink)
	require.Equal(t, dir, f.lookup(2, n, "..").Attr.Ino)
	require.Equal(t, meta.Result{Attr: posix.Attr{Ino: n, Mode: posix.TypeDir}, Number: 2}, f.lookup(1, dir, "sub"))
	require.Empty(t, f.machines[1].Outbox(1))

	link := f.uncoordinated(1, dir, "link", posix.TypeSymlink, n+1)
	link.Data = []byte("target")
	require.Equal(t, posix.OK, f.run(1, link, "b").Code)
	require.Equal(t, []byte("target"), f.at(2, meta.Command{Op: meta.OpReadlink, Ino: n + 1}).Data)
	file := f.makeAlone(1, dir, "f", 0o640, n+2, "c").Attr
	require.EqualValues(t, 5, file.UID)
	f.restart(2)
	f.must(2, meta.Command{Op: meta.OpWrite, Ino: n + 2, Data: []byte("x")})
	f.make(2, n, "inside", 0o600)
	require.Equal(t, posix.OK, f.cross(meta.Command{Op: meta.OpMove, Child: n + 1, Target: 0}, 2, 0).Code, "and it can move")
	require.EqualValues(t, 0, f.mustCross(meta.Command{Op: meta.OpUnlink, Ino: dir, Name: "f", Child: n + 2}, 1, 2).Nlink)
}

// What its directory does not take is unmade, whatever the reason, and its number is never used again.
func TestRefusedIsUnmade(t *testing.T) {
	for name, test := range map[string]struct {
		change func(f *tree, c *meta.Command)
		want   posix.Code
	}{
		"exists":      {func(_ *tree, c *meta.Command) { c.Name = "f" }, posix.EEXIST},
		"directory":   {func(_ *tree, c *meta.Command) { c.Name, c.Flags = "d", 0 }, posix.EISDIR},
		"dots":        {func(_ *tree, c *meta.Command) { c.Name = ".." }, posix.EEXIST},
		"name":        {func(_ *tree, c *meta.Command) { c.Name = "a/b" }, posix.EINVAL},
		"no target":   {func(_ *tree, c *meta.Command) { c.Mode = posix.TypeSymlink }, posix.ENOENT},
		"type":        {func(_ *tree, c *meta.Command) { c.Mode = 0o170000 }, posix.EINVAL},
		"other type":  {func(_ *tree, c *meta.Command) { c.Attr.Mode = posix.TypeDir | 0o600 }, posix.EREMOTE},
		"no mode":     {func(_ *tree, c *meta.Command) { c.Set, c.Attr = 0, posix.Attr{} }, posix.EREMOTE},
		"no dir":      {func(f *tree, c *meta.Command) { c.Ino = f.lookup(0, c.Ino, "f").Attr.Ino }, posix.ENOTDIR},
		"nowhere":     {func(_ *tree, c *meta.Command) { c.Ino = 1 << 30 }, posix.ESTALE},
		"elsewhere":   {func(_ *tree, c *meta.Command) { c.Ino = root(1) }, posix.ESTALE},
		"removed":     {func(f *tree, c *meta.Command) { c.Ino = f.removed() }, posix.ENOENT},
		"other rule":  {func(f *tree, c *meta.Command) { f.spread(0, c.Ino, 0) }, posix.EREMOTE},
		"other mode":  {func(f *tree, c *meta.Command) { f.chmod(c.Ino, dirMode|posix.SetGID) }, posix.EREMOTE},
		"held":        {func(f *tree, c *meta.Command) { f.hold(c.Ino, c.Name) }, posix.EREMOTE},
		"opened":      {func(_ *tree, c *meta.Command) { c.Name, c.Flags = "f", 0 }, posix.OK},
		"opened away": {func(_ *tree, c *meta.Command) { c.Name, c.Flags = "away", 0 }, posix.OK},
	} {
		t.Run(name, func(t *testing.T) {
			f := newTree(t, 2)
			dir := f.make(0, posix.Root, "dir", dirMode)
			f.make(0, dir, "f", 0o600)
			f.make(0, dir, "d", dirMode)
			f.away(0, dir, "away", 0o600, 1)
			before := f.at(1, meta.Command{Op: meta.OpStatFS}).Number
			c := f.uncoordinated(0, dir, "x", 0o600, f.reserve(1, 1))
			c.Flags = meta.Exclusive
			test.change(f, &c)
			require.Equal(t, test.want, f.run(0, c, "m").Code)
			require.Len(t, f.machines[0].Outbox(9), 1)
			require.Empty(t, meta.Check(f.keys[1]), "it is no problem for a while")
			require.Empty(t, meta.CheckAll([]meta.Keys{f.keys[0], f.keys[1]}))
			f.restart(0)
			f.restart(1)
			f.mail()
			f.isGone(c.Child)
			f.machines[1].Make(f.decoded(c), []byte("n"))
			f.isGone(c.Child)
			require.Equal(t, before, f.at(1, meta.Command{Op: meta.OpStatFS}).Number)
			require.Zero(t, f.stored(1, reservedPrefix))
		})
	}
}

// removed gives a directory that has lost its name.
func (f *tree) removed() posix.Ino {
	d := f.make(0, posix.Root, "removed", dirMode)
	f.must(0, meta.Command{Op: meta.OpRmdir, Ino: posix.Root, Name: "removed"})
	return d
}

func (f *tree) chmod(ino posix.Ino, mode posix.Mode) {
	f.must(0, meta.Command{Op: meta.OpSetAttr, Ino: ino, Set: meta.SetMode, Attr: posix.Attr{Mode: mode}})
}

// hold has a name in partition 0 held until the test ends.
func (f *tree) hold(dir posix.Ino, name string) {
	u := f.begin(meta.Command{Op: meta.OpMknod, Ino: dir, Name: name, Target: 1}, 0, 1).prepare(0, 1)
	f.t.Cleanup(func() { u.decide() })
}

// A command that is ordered twice makes one inode. If its directory's partition does not recognize the second message, it takes back
// what that one made, which is nothing.
func TestAMessageThatComesAgain(t *testing.T) {
	f := newTree(t, 2)
	f.spread(0, posix.Root, 1)
	n := f.reserve(1, 2)
	c := f.uncoordinated(0, posix.Root, "d", dirMode, n)
	want := f.run(0, c, "first").Attr
	f.machines[1].Make(f.decoded(c), []byte("second"))
	f.machines[0].Disown(f.decoded(c), []byte("second"))
	f.mail()
	require.Equal(t, want, f.stat(1, n))
	f.mustCross(meta.Command{Op: meta.OpRmdir, Ino: posix.Root, Name: "d", Child: n}, 0, 1)
	f.machines[1].Reap(n, 77)
	f.machines[1].Make(f.decoded(c), []byte("third"))
	f.isGone(n)
}

// What somebody has changed is known, and has a name.
func TestWhatWasChangedStays(t *testing.T) {
	f := newTree(t, 2)
	f.spread(0, posix.Root, 1)
	n := f.reserve(1, 1)
	f.makeAlone(0, posix.Root, "f", 0o600, n, "m")
	f.must(1, meta.Command{Op: meta.OpWrite, Ino: n, Data: []byte("x")})
	f.at(1, meta.Command{Op: meta.OpUnmake, Child: n, Data: []byte("m")})
	f.at(1, meta.Command{Op: meta.OpUnmake, Child: n})
	require.EqualValues(t, 1, f.stat(1, n).Size)
}

func TestIsUncoordinated(t *testing.T) {
	c := meta.Command{Op: meta.OpMknod, Child: posix.MakeIno(2, 9), Target: 2}
	require.True(t, c.IsUncoordinated(1, []uint16{1, 2}))
	require.False(t, c.IsUncoordinated(2, []uint16{1, 2}), "the directory's partition answers")
	require.False(t, c.IsUncoordinated(0, []uint16{1, 2}))
	require.False(t, c.IsUncoordinated(1, []uint16{1, 2, 3}))
	require.False(t, c.IsUncoordinated(1, []uint16{1, 3}))
	for _, change := range []func(c *meta.Command){
		func(c *meta.Command) { c.Op = meta.OpUnlink },
		func(c *meta.Command) { c.Child = 0 },
		func(c *meta.Command) { c.Child = posix.MakeIno(2, 1) },
		func(c *meta.Command) { c.Child = posix.MakeIno(3, 9) },
	} {
		other := c
		change(&other)
		require.False(t, other.IsUncoordinated(1, []uint16{1, 2}), "%+v", other)
	}
}
