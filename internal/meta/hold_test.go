package meta_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

var someone = posix.Cred{UID: 1000, GID: 100}

// setAttr returns a SetAttr of root's.
func setAttr(ino posix.Ino, set uint32, a posix.Attr) meta.Command {
	return meta.Command{Op: meta.OpSetAttr, Ino: ino, Set: set, Attr: a}
}

// The state that a vote has read stays true until the outcome. Without that there is no order of the updates
// here: the chmod comes before the rmdir (of one client), the rmdir before the rename (which needs the name),
// and the rename before the chmod (it needs the right).
func TestWhatAVoteHasReadIsHeld(t *testing.T) {
	f := newTree(t, 3)
	dir := f.make(1, root(1), "d", 0o777|posix.TypeDir)
	file := f.make(1, dir, "x", 0o666)
	to := f.make(2, root(2), "e", 0o777|posix.TypeDir)
	f.make(2, to, "y", 0o755|posix.TypeDir)
	u := f.begin(meta.Command{
		Op: meta.OpRename, Cred: someone, Ino: dir, Name: "x", NewParent: to, NewName: "y", Child: file, Authority: authorityOf(t, "1000", "100"),
	}, 1, 2).prepare(1)
	chmod := setAttr(dir, meta.SetMode, posix.Attr{Mode: 0o700})
	require.Equal(t, held, f.at(1, chmod))
	f.must(2, meta.Command{Op: meta.OpRmdir, Ino: to, Name: "y"})
	require.Equal(t, posix.OK, u.prepare(2).decide().Code)
	f.must(1, chmod)
}

// An implicit time never replaces the time of a later change, and ctime never decreases.
func TestTimesMerge(t *testing.T) {
	f := newTree(t, 3)
	file := f.make(1, root(1), "x", 0o644)
	to := f.make(2, root(2), "e", dirMode)
	u := f.begin(meta.Command{Op: meta.OpRename, Ino: root(1), Name: "x", NewParent: to, NewName: "y", Child: file}, 1, 2).prepare(1, 2)
	f.counter++
	require.Equal(t, posix.OK, f.machines[2].Decide(u.number, u.votes, f.counter).Code)
	utimens := setAttr(root(1), meta.SetMtime, posix.Attr{Mtime: 777777})
	require.Equal(t, held, f.at(1, utimens))
	f.make(1, root(1), "later", 0o600)
	before := f.stat(1, root(1))
	require.Greater(t, before.Mtime, u.command.Time)
	require.Equal(t, posix.OK, f.machines[1].Decide(u.number, u.votes, f.counter).Code)
	after := f.stat(1, root(1))
	require.Equal(t, [2]posix.Time{before.Mtime, before.Ctime}, [2]posix.Time{after.Mtime, after.Ctime})
	f.must(1, utimens)
	late := f.decoded(meta.Command{Op: meta.OpMknod, Ino: root(1), Name: "older"})
	late.Time = 3
	require.Equal(t, posix.OK, f.machines[1].Apply(late, f.counter).Code)
	require.EqualValues(t, 777777, f.stat(1, root(1)).Mtime, "by one that is older than the change")
	newer := f.must(1, meta.Command{Op: meta.OpMknod, Ino: root(1), Name: "newer"})
	require.Equal(t, newer.Mtime, f.stat(1, root(1)).Mtime, "by one that is newer: as Linux does")
}

// A client without a right holds nothing, however long the other party does not answer.
func TestNoHoldWithoutARight(t *testing.T) {
	f := newTree(t, 2)
	dir := f.make(1, root(1), "private", 0o700|posix.TypeDir)
	file := f.make(1, dir, "f", 0o600)
	open := f.make(0, posix.Root, "open", 0o777|posix.TypeDir)
	theirs := f.make(0, open, "theirs", 0o600)
	for name, c := range map[string]meta.Command{
		"from":  {Op: meta.OpRename, Ino: dir, Name: "f", NewParent: open, NewName: "g", Child: file},
		"to":    {Op: meta.OpRename, Ino: open, Name: "theirs", NewParent: dir, NewName: "f", Child: theirs, NewChild: file},
		"free":  {Op: meta.OpRename, Ino: open, Name: "theirs", NewParent: dir, NewName: "none", Child: theirs},
		"link":  {Op: meta.OpLink, Ino: theirs, Child: theirs, NewParent: dir, NewName: "l"},
		"inode": {Op: meta.OpLink, Ino: file, Child: file, NewParent: open, NewName: "l"},
	} {
		c.Cred, c.Authority = someone, authorityOf(t, "1000", "100")
		u := f.begin(c, 0, 1)
		v := f.machines[1].Prepare(u.number, u.command, u.parties)
		require.Contains(t, []posix.Code{posix.EACCES, posix.EPERM}, v.Code, name)
		require.Equal(t, posix.OK, f.at(1, meta.Command{Op: meta.OpRename, Ino: dir, Name: "f", NewParent: dir, NewName: "f2"}).Code, name)
		f.must(1, meta.Command{Op: meta.OpRename, Ino: dir, Name: "f2", NewParent: dir, NewName: "f"})
		f.must(1, meta.Command{Op: meta.OpMknod, Ino: dir, Name: "l"})
		f.must(1, meta.Command{Op: meta.OpUnlink, Ino: dir, Name: "l"})
		f.must(1, setAttr(dir, meta.SetMode, posix.Attr{Mode: 0o700}))
		f.restart(1)
		require.Equal(t, v, f.machines[1].Prepare(u.number, u.command, u.parties), "a vote is given once")
		u.votes = [][]byte{v.Encoded}
		require.NotContains(t, []posix.Code{posix.OK, posix.EHELD}, u.prepare(0).decide().Code, name)
	}
}

// stage is two partitions with a directory of one name each, and the inodes of an undecided command.
type stage struct {
	*tree
	top, a, b, file, sub, other posix.Ino
}

func newStage(t *testing.T) *stage {
	s := &stage{tree: newTree(t, 2)}
	s.top = s.make(1, root(1), "top", dirMode)
	s.a = s.make(1, s.top, "a", 0o777|posix.TypeDir)
	s.b = s.make(0, posix.Root, "b", 0o777|posix.TypeDir)
	s.file = s.make(1, s.a, "f", 0o666)
	s.sub = s.make(1, s.a, "s", 0o777|posix.TypeDir)
	s.other = s.make(1, root(1), "other", dirMode)
	return s
}

// The table has the updates of partition 1 that conflict with the holds of a command there. Other updates are
// executed.
func TestWhatIsHeld(t *testing.T) {
	xattr := func(ino posix.Ino, name string) meta.Command {
		return meta.Command{Op: meta.OpSetXattr, Ino: ino, Name: name, Data: []byte("v")}
	}
	chmod := func(ino posix.Ino) meta.Command { return setAttr(ino, meta.SetMode, posix.Attr{Mode: 0o777}) }
	utimens := func(ino posix.Ino) meta.Command { return setAttr(ino, meta.SetAtime, posix.Attr{Atime: 3}) }
	write := func(ino posix.Ino) meta.Command {
		return meta.Command{Op: meta.OpWrite, Ino: ino, Data: []byte("x")}
	}
	rename := func(from posix.Ino, name string, to posix.Ino, newName string) meta.Command {
		return meta.Command{Op: meta.OpRename, Ino: from, Name: name, NewParent: to, NewName: newName}
	}
	make := func(dir posix.Ino, name string) meta.Command {
		return meta.Command{Op: meta.OpMknod, Ino: dir, Name: name, Mode: 0o600}
	}
	unlink := func(dir posix.Ino, name string) meta.Command {
		return meta.Command{Op: meta.OpUnlink, Ino: dir, Name: name}
	}
	place := func(ino posix.Ino) meta.Command {
		return meta.Command{Op: meta.OpPlace, Ino: ino, Data: (&meta.Rule{Region: "r"}).Append(nil)}
	}
	move := func(ino posix.Ino) meta.Command { return meta.Command{Op: meta.OpMove, Child: ino, Target: 0} }
	for name, test := range map[string]struct {
		command func(s *stage) meta.Command
		held    func(s *stage) []meta.Command
		free    func(s *stage) []meta.Command
	}{
		"unlink": {
			func(s *stage) meta.Command {
				return meta.Command{Op: meta.OpUnlink, Ino: s.b, Name: "l", Child: s.file}
			},
			func(s *stage) []meta.Command {
				return []meta.Command{unlink(s.a, "f"), rename(s.a, "f", s.a, "g"), {Op: meta.OpLink, Ino: s.file, NewParent: s.a, NewName: "m"}, chmod(s.file), move(s.file)}
			},
			func(s *stage) []meta.Command {
				return []meta.Command{write(s.file), utimens(s.file), xattr(s.file, "user.x"), make(s.a, "n"), chmod(s.a), place(s.a)}
			},
		},
		"link": {
			func(s *stage) meta.Command {
				return meta.Command{Op: meta.OpLink, Ino: s.file, Child: s.file, NewParent: s.b, NewName: "m"}
			},
			func(s *stage) []meta.Command {
				return []meta.Command{unlink(s.a, "f"), chmod(s.file), setAttr(s.file, meta.SetUID, posix.Attr{}), xattr(s.file, "system.posix_acl_access")}
			},
			func(s *stage) []meta.Command {
				return []meta.Command{write(s.file), xattr(s.file, "user.x"), chmod(s.a)}
			},
		},
		"rmdir": {
			func(s *stage) meta.Command {
				return meta.Command{Op: meta.OpRmdir, Ino: s.b, Name: "d", Child: s.sub}
			},
			func(s *stage) []meta.Command {
				return []meta.Command{make(s.sub, "late"), xattr(s.sub, "user.x"), move(s.sub), {Op: meta.OpLink, Ino: s.file, NewParent: s.sub, NewName: "m"}}
			},
			func(s *stage) []meta.Command { return []meta.Command{make(s.a, "n"), chmod(s.a)} },
		},
		"rename of a directory": {
			func(s *stage) meta.Command {
				c := rename(s.a, "s", s.b, "t")
				c.Child, c.Chain = s.sub, []posix.Ino{s.b}
				return c
			},
			func(s *stage) []meta.Command {
				return []meta.Command{
					chmod(s.a), setAttr(s.a, meta.SetGID, posix.Attr{}), utimens(s.a), setAttr(s.a, meta.SetMtimeNow, posix.Attr{}), place(s.a),
					xattr(s.a, "system.posix_acl_default"), move(s.a), rename(s.top, "a", s.top, "z"), rename(s.a, "s", s.a, "z"), make(s.a, "s"),
					chmod(s.sub), place(s.sub), move(s.sub), rename(root(1), "top", s.other, "top"),
				}
			},
			func(s *stage) []meta.Command {
				return []meta.Command{make(s.a, "n"), make(s.sub, "n"), utimens(s.sub), xattr(s.sub, "user.x"), xattr(s.a, "user.x"), write(s.file), chmod(s.top), rename(root(1), "top", root(1), "z"), place(s.top)}
			},
		},
		"rename of a file that moves": {
			func(s *stage) meta.Command {
				c := rename(s.top, "g", s.b, "g")
				c.Child = s.lookup(1, s.top, "g").Attr.Ino
				return c
			},
			func(s *stage) []meta.Command {
				g := s.lookup(1, s.top, "g").Attr.Ino
				return []meta.Command{write(g), chmod(g), utimens(g), xattr(g, "user.x"), chmod(s.top), utimens(s.top)}
			},
			func(s *stage) []meta.Command {
				return []meta.Command{make(s.top, "n"), chmod(s.a), rename(root(1), "other", s.top, "o")}
			},
		},
		"rename onto a directory": {
			func(s *stage) meta.Command {
				c := rename(s.b, "d", s.a, "s")
				c.Child, c.NewChild, c.Chain = s.lookup(0, s.b, "d").Attr.Ino, s.sub, []posix.Ino{s.a}
				return c
			},
			func(s *stage) []meta.Command {
				return []meta.Command{make(s.sub, "late"), {Op: meta.OpLink, Ino: s.file, NewParent: s.sub, NewName: "m"}, rename(s.a, "s", s.a, "z"), chmod(s.sub)}
			},
			func(s *stage) []meta.Command { return []meta.Command{make(s.a, "n"), utimens(s.sub), write(s.file)} },
		},
		"place": {
			func(s *stage) meta.Command { return place(s.a) },
			func(s *stage) []meta.Command {
				return []meta.Command{make(s.a, "n"), chmod(s.a), place(s.a), rename(s.top, "a", s.top, "z")}
			},
			func(s *stage) []meta.Command { return []meta.Command{unlink(s.a, "f"), chmod(s.sub)} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.make(1, s.top, "g", 0o600)
			s.mustCross(meta.Command{Op: meta.OpLink, Ino: s.file, Child: s.file, NewParent: s.b, NewName: "l"}, 0, 1)
			if name == "rename onto a directory" {
				s.make(0, s.b, "d", dirMode)
			}
			if name == "rmdir" {
				c := rename(s.a, "s", s.b, "d")
				c.Child, c.Chain = s.sub, []posix.Ino{s.b}
				s.mustCross(c, 0, 1)
			}
			c := test.command(s)
			c.Cred, c.Authority = posix.Cred{}, authorityOf(t, "0-4294967294", "0-4294967294")
			u := s.begin(c, 0, 1).prepare(0, 1)
			s.restart(1)
			for _, x := range test.held(s) {
				require.True(t, s.machines[1].Blocked(s.decoded(x)), "%+v", x)
				require.Equal(t, held, s.at(1, x), "%+v", x)
			}
			for _, x := range test.free(s) {
				require.NotContains(t, []posix.Code{posix.EHELD, posix.ENOENT, posix.EPERM, posix.ESTALE}, s.at(1, x).Code, "%+v", x)
			}
			require.Equal(t, posix.OK, u.decide().Code)
		})
	}
}

// A write that takes the set-id bits away changes an attribute on which the permission to link depends.
func TestAWriteThatTakesSetIDIsHeld(t *testing.T) {
	s := newStage(t)
	s.must(1, setAttr(s.file, meta.SetMode, posix.Attr{Mode: 0o4777}))
	c := meta.Command{Op: meta.OpLink, Ino: s.file, Child: s.file, NewParent: s.b, NewName: "m", Authority: authorityOf(t, "0", "0")}
	u := s.begin(c, 0, 1).prepare(0, 1)
	write := meta.Command{Op: meta.OpWrite, Ino: s.file, Data: []byte("x")}
	s.must(1, write)
	write.Authority = authorityOf(t, "0", "0")
	require.Equal(t, held, s.at(1, write))
	require.Equal(t, posix.OK, u.decide().Code)
}

// A rename holds the directories on the ways from its two directories up to the place where the ways meet. It
// does not hold the directories above, and not the roots of partitions, which cannot move.
func TestWaysAreHeldUpToWhereTheyMeet(t *testing.T) {
	f := newTree(t, 2)
	common := f.make(0, posix.Root, "common", dirMode)
	below := f.make(0, common, "below", dirMode)
	from, to := f.make(0, below, "from", dirMode), f.make(0, below, "to", dirMode)
	deep := f.make(0, to, "deep", dirMode)
	aside := f.make(0, posix.Root, "aside", dirMode)
	dir := f.away(0, from, "dir", dirMode, 1)
	c := meta.Command{Op: meta.OpRename, Ino: from, Name: "dir", NewParent: deep, NewName: "dir", Child: dir, Target: 0, Chain: []posix.Ino{deep}}
	u := f.begin(c, 0, 1).prepare(0)
	reparent := func(dir posix.Ino, name string) meta.Command {
		return meta.Command{Op: meta.OpRename, Ino: dir, Name: name, NewParent: aside, NewName: name}
	}
	for _, name := range []string{"to", "from"} {
		require.Equal(t, held, f.at(0, reparent(below, name)), name)
	}
	f.must(0, reparent(common, "below"))
	f.must(0, reparent(posix.Root, "common"))
	require.Equal(t, posix.OK, u.prepare(1).decide().Code)
}

// A directory that has been voted on at one party only must not get above where it goes.
func TestTheOldWayIsHeld(t *testing.T) {
	f := newTree(t, 2)
	a := f.make(0, posix.Root, "a", dirMode)
	out, old, to := f.make(0, posix.Root, "out", dirMode), f.make(0, a, "old", dirMode), f.make(0, a, "to", dirMode)
	from := f.make(0, old, "from", dirMode)
	d := f.away(0, from, "d", dirMode, 1)
	z := f.make(1, d, "z", dirMode)
	rename := f.begin(meta.Command{Op: meta.OpRename, Ino: from, Name: "d", NewParent: to, NewName: "d", Child: d, Chain: []posix.Ino{to}}, 0, 1).prepare(0)
	require.Equal(t, held, f.at(0, meta.Command{Op: meta.OpRename, Ino: a, Name: "old", NewParent: out, NewName: "old"}))
	circle := f.begin(meta.Command{Op: meta.OpRename, Ino: posix.Root, Name: "a", NewParent: z, NewName: "a", Child: a, Target: 1, Chain: []posix.Ino{z, from}}, 0, 1)
	require.Equal(t, posix.EINVAL, circle.prepare(0, 1).decide().Code)
	require.Equal(t, posix.OK, rename.prepare(1).decide().Code)
}

// A client holds no more than so many commands, waiting ones included, in a partition.
func TestHoldsOfAClientAreBounded(t *testing.T) {
	f := newTree(t, 2)
	file := f.make(1, root(1), "f", 0o600)
	prepare := func(i int, client string) *undecided {
		c := meta.Command{Op: meta.OpLink, Ino: file, Child: file, NewParent: posix.Root, NewName: fmt.Sprint("f", i)}
		u := f.begin(c, 0, 1)
		u.command.Client = client
		return u
	}
	var all []*undecided
	for i := range meta.MaxUndecided {
		u := prepare(i, "weak")
		if i%2 == 0 {
			require.Equal(t, posix.OK, f.machines[0].Prepare(u.number, u.command, u.parties).Code)
		} else {
			require.True(t, f.machines[0].Await(u.number, u.command, u.parties))
		}
		all = append(all, u)
	}
	f.restart(0)
	more := prepare(100, "weak")
	require.Equal(t, posix.EHELD, f.machines[0].Prepare(more.number, more.command, more.parties).Code)
	f.machines[0].Abort(more.number)
	require.False(t, f.machines[0].Await(more.number, more.command, more.parties))
	other := prepare(101, "other")
	require.Equal(t, posix.OK, f.machines[0].Prepare(other.number, other.command, other.parties).Code)
	waiting := all[1]
	require.Equal(t, posix.OK, f.machines[0].Prepare(waiting.number, waiting.command, waiting.parties).Code, "one that is counted already")
	f.machines[0].Abort(all[0].number)
	require.True(t, f.machines[0].Await(more.number, more.command, more.parties))
	for _, number := range append(f.machines[0].Undecided(), f.machines[0].Waiting()...) {
		f.machines[0].Abort(number)
	}
	require.Zero(t, meta.Undecided(f.keys[0]))
}
