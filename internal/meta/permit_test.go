package meta_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// authorityOf gives an Authority of ranges as posix.ParseIDs reads them.
func authorityOf(t testing.TB, uids, gids string) *posix.Authority {
	u, err := posix.ParseIDs(uids)
	require.NoError(t, err)
	g, err := posix.ParseIDs(gids)
	require.NoError(t, err)
	return &posix.Authority{UIDs: u, GIDs: g}
}

// scenery has the inodes that one command of a bound client meets: the directory dir with file f and
// directory s, and another directory to that everybody may change, with file x.
type scenery struct {
	t       *testing.T
	f       *tree
	a       *posix.Authority
	cred    posix.Cred // that counts
	coord   bool       // the content of dir is in partition 2, and to is in partition 0
	dir, to posix.Ino
	d, n, s posix.Attr // of dir, file f and directory s
	x       posix.Ino
}

// around builds a scenery in which dir, and its content, have the owners and modes of d and n.
func around(t *testing.T, f *tree, a *posix.Authority, coord bool, d, n posix.Attr) *scenery {
	w := &scenery{t: t, f: f, a: a, coord: coord}
	f.number++
	w.dir = f.make(1, root(1), fmt.Sprint("d", f.number), dirMode)
	other := 1
	if coord {
		other = 0
	}
	w.to = f.make(other, root(other), fmt.Sprint("t", f.number), dirMode)
	w.x = f.make(other, w.to, "x", 0o666)
	w.set(other, w.to, posix.Attr{Mode: 0o777, UID: 2000, GID: 300})
	at, create := 1, func(name string, mode posix.Mode) posix.Ino { return f.make(1, w.dir, name, mode) }
	if coord {
		at, create = 2, func(name string, mode posix.Mode) posix.Ino { return f.away(1, w.dir, name, mode, 2) }
	}
	file, sub := create("f", 0o600), create("s", dirMode)
	w.n, w.s, w.d = w.set(at, file, n), w.set(at, sub, n), w.set(1, w.dir, d)
	return w
}

func (w *scenery) set(p int, ino posix.Ino, a posix.Attr) posix.Attr {
	w.t.Helper()
	return w.f.must(p, meta.Command{Op: meta.OpSetAttr, Ino: ino, Set: meta.SetMode | meta.SetUID | meta.SetGID, Attr: a})
}

// need is one thing that must be allowed. It returns the code of a refusal.
type need func(w *scenery) posix.Code

func yes(ok bool, code posix.Code) posix.Code {
	if ok {
		return posix.OK
	}
	return code
}

func user(n func(w *scenery) *posix.Attr, want posix.Access, code posix.Code) need {
	return func(w *scenery) posix.Code { return yes(w.a.May(w.cred, n(w), want), code) }
}

func machine(n func(w *scenery) *posix.Attr, oneOf ...posix.Access) need {
	return func(w *scenery) posix.Code {
		for _, want := range oneOf {
			if w.a.Admits(n(w), want) {
				return posix.OK
			}
		}
		return posix.EACCES
	}
}

func owner(n func(w *scenery) *posix.Attr) need {
	return func(w *scenery) posix.Code { return yes(w.cred.UID == n(w).UID, posix.EPERM) }
}

func never(code posix.Code) need { return func(*scenery) posix.Code { return code } }

func either(a, b need) need {
	return func(w *scenery) posix.Code {
		if a(w) == posix.OK {
			return posix.OK
		}
		return b(w)
	}
}

func theDir(w *scenery) *posix.Attr  { return &w.d }
func theFile(w *scenery) *posix.Attr { return &w.n }
func theSub(w *scenery) *posix.Attr  { return &w.s }

var (
	search = user(theDir, posix.Execute, posix.EACCES)
	change = user(theDir, posix.Execute|posix.Write, posix.EACCES)
	// takes: the sticky bit lets it go.
	takesFile = func(w *scenery) posix.Code {
		return yes(w.d.Mode&posix.Sticky == 0 || w.d.UID == w.cred.UID || w.n.UID == w.cred.UID, posix.EPERM)
	}
)

// names are the operations on names: they can be of one partition or of several.
var names = map[string]struct {
	c     func(w *scenery) meta.Command
	needs []need
}{
	"create":     {func(w *scenery) meta.Command { return w.mknod("new", 0o644, meta.Exclusive) }, []need{search, change}},
	"mkdir":      {func(w *scenery) meta.Command { return w.mknod("new", posix.TypeDir|0o755, 0) }, []need{search, change}},
	"exists":     {func(w *scenery) meta.Command { return w.mknod("f", 0o644, 0) }, []need{search}},
	"device":     {func(w *scenery) meta.Command { return w.mknod("new", posix.TypeBlock|0o600, 0) }, []need{search, change, never(posix.EPERM)}},
	"unlink":     {func(w *scenery) meta.Command { return w.remove(meta.OpUnlink, "f", w.n.Ino) }, []need{search, change, takesFile}},
	"rmdir":      {func(w *scenery) meta.Command { return w.remove(meta.OpRmdir, "s", w.s.Ino) }, []need{search, change, takesFile}},
	"link":       {func(w *scenery) meta.Command { return w.link() }, []need{search, change, either(owner(theFile), linkable)}},
	"rename":     {func(w *scenery) meta.Command { return w.rename(w.dir, "f", w.dir, "g", w.n.Ino, 0, 0) }, []need{search, change, takesFile}},
	"rename out": {func(w *scenery) meta.Command { return w.rename(w.dir, "f", w.to, "g", w.n.Ino, 0, 0) }, []need{search, change, takesFile}},
	"rename in":  {func(w *scenery) meta.Command { return w.rename(w.to, "x", w.dir, "g", w.x, 0, 0) }, []need{search, change}},
	"replace":    {func(w *scenery) meta.Command { return w.rename(w.to, "x", w.dir, "f", w.x, w.n.Ino, 0) }, []need{search, change, takesFile}},
	"exchange": {func(w *scenery) meta.Command {
		return w.rename(w.to, "x", w.dir, "f", w.x, w.n.Ino, meta.RenameExchange)
	}, []need{search, change, takesFile}},
	"rename a directory": {func(w *scenery) meta.Command { return w.rename(w.dir, "s", w.to, "g", w.s.Ino, 0, 0) },
		[]need{search, change, takesFile, user(theSub, posix.Write, posix.EACCES)}},
	"rename a directory inside": {func(w *scenery) meta.Command { return w.rename(w.dir, "s", w.dir, "g", w.s.Ino, 0, 0) },
		[]need{search, change, takesFile}},
	"place": {func(w *scenery) meta.Command {
		return meta.Command{Op: meta.OpPlace, Ino: w.dir, Data: (&meta.Rule{Spread: []uint16{2}}).Append(nil), Target: 2}
	}, []need{owner(theDir)}},
}

func linkable(w *scenery) posix.Code {
	return yes(w.n.Mode&posix.SetUID == 0 && w.a.May(w.cred, &w.n, posix.Read|posix.Write), posix.EPERM)
}

func (w *scenery) mknod(name string, mode posix.Mode, flags uint32) meta.Command {
	c := meta.Command{Op: meta.OpMknod, Ino: w.dir, Name: name, Mode: mode, Flags: flags}
	if w.coord {
		c.Target = 2
	}
	return c
}

func (w *scenery) remove(op meta.Op, name string, child posix.Ino) meta.Command {
	c := meta.Command{Op: op, Ino: w.dir, Name: name}
	if w.coord {
		c.Child = child
	}
	return c
}

func (w *scenery) link() meta.Command {
	c := meta.Command{Op: meta.OpLink, Ino: w.n.Ino, NewParent: w.dir, NewName: "l"}
	if w.coord {
		c.Child = w.n.Ino
	}
	return c
}

func (w *scenery) rename(from posix.Ino, name string, to posix.Ino, newName string, child, newChild posix.Ino, flags uint32) meta.Command {
	c := meta.Command{Op: meta.OpRename, Ino: from, Name: name, NewParent: to, NewName: newName, Flags: flags}
	if w.coord {
		c.Child, c.NewChild, c.Target = child, newChild, 2
		c.Chain = []posix.Ino{to}
		if flags&meta.RenameExchange != 0 {
			c.Back = []posix.Ino{from}
		}
	}
	return c
}

func (w *scenery) run(c meta.Command) meta.Result {
	w.t.Helper()
	c.Authority = w.a
	switch {
	case w.coord && c.Op == meta.OpMknod: // its directory decides, wherever the inode goes
		w.f.mail()
	case w.coord:
		return w.f.cross(c, 1, 0, 2)
	case c.Op == meta.OpPlace:
		return w.f.cross(c, 1, 0)
	}
	return w.f.at(1, c)
}

// callers are the users that a request names, and the users that count: root has no power, and strangers
// nothing at all.
var callers = []struct {
	says, is posix.Cred
	stranger bool
}{
	{says: posix.Cred{UID: 1000, GID: 1000}, is: posix.Cred{UID: 1000, GID: 1000}},
	{says: posix.Cred{UID: 1001, GID: 100}, is: posix.Cred{UID: 1001, GID: 100}},
	{says: posix.Cred{UID: 0, GID: 0}, is: posix.Nobody()},
	{says: posix.Cred{UID: 2000, GID: 1000}, stranger: true},
	{says: posix.Cred{UID: 1000, GID: 300}, stranger: true},
}

// attrs returns the attributes that a directory, or its content, may have.
func attrs(modes ...posix.Mode) (all []posix.Attr) {
	for _, uid := range []uint32{1000, 2000, posix.NobodyID} {
		for _, gid := range []uint32{100, 300} {
			for _, mode := range modes {
				all = append(all, posix.Attr{UID: uid, GID: gid, Mode: mode})
			}
		}
	}
	return all
}

type views struct{ d, n posix.Attr }

// sceneries returns views that differ in the attributes that count, first of the directory, and then of its
// content.
func sceneries() (all []views) {
	for _, d := range attrs(0, 0o700, 0o070, 0o007, 0o333, 0o111, 0o555, 0o1777) {
		all = append(all, views{d, posix.Attr{UID: 2000, GID: 300, Mode: 0o666}})
	}
	for _, n := range attrs(0, 0o200, 0o400, 0o100, 0o060, 0o006, 0o040, 0o4666) {
		all = append(all, views{posix.Attr{UID: 2000, GID: 300, Mode: 0o1777}, n}, views{posix.Attr{UID: 2000, GID: 300, Mode: 0o777}, n})
	}
	return all
}

func (w *scenery) first(needs []need) posix.Code {
	for _, n := range needs {
		if code := n(w); code != posix.OK {
			return code
		}
	}
	return posix.OK
}

// A bound client may do with names exactly the operations that POSIX allows to its users, whether partitions
// have to vote or not. A refused operation changes nothing.
func TestNamesAreBound(t *testing.T) {
	a := authorityOf(t, "1000-1001", "100,1000")
	for name, op := range names {
		for _, coord := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/voted=%t", name, coord), func(t *testing.T) {
				reached, f := map[posix.Code]int{}, newTree(t, 3)
				for _, v := range sceneries() {
					for _, caller := range callers {
						w := around(t, f, a, coord, v.d, v.n)
						w.cred = caller.is
						c := op.c(w)
						c.Cred = caller.says
						want := posix.EPERM
						if !caller.stranger {
							want = w.first(op.needs)
						}
						r := w.run(c)
						require.Equal(t, want, r.Code, "%v, directory %+v, in it %+v", caller.says, v.d, v.n)
						if reached[want]++; want != posix.OK {
							require.Equal(t, w.d, f.stat(1, w.dir))
						} else if c.Op == meta.OpMknod && c.Name == "new" {
							require.Equal(t, w.cred.UID, r.Attr.UID, "it belongs to who has made it")
							require.Equal(t, w.cred.GID, r.Attr.GID)
						}
					}
				}
				require.NotZero(t, reached[posix.EPERM])
				require.True(t, reached[posix.OK] > 0 || name == "device")
			})
		}
	}
}
