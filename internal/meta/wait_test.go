package meta_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// A command that waits holds nothing, but others see it, also after a restart; Prepare makes it a holder, and
// Abort ends it.
func TestWaitingCommands(t *testing.T) {
	s := newStage(t)
	unlink := func() *undecided {
		return s.begin(meta.Command{Op: meta.OpRename, Ino: s.a, Name: "f", NewParent: s.b, NewName: "g", Child: s.file, Target: 0}, 0, 1)
	}
	first, second, third := unlink(), unlink(), unlink()
	conflicts := func(u *undecided, holders, waiters []uint64) {
		t.Helper()
		want := meta.Conflicting{Holders: holders, Waiters: waiters}
		require.Equal(t, want, s.machines[1].Conflicts(u.number, u.command, u.parties))
	}
	conflicts(first, nil, nil)
	first.prepare(1)
	conflicts(second, []uint64{first.number}, nil)
	conflicts(first, nil, nil)
	for _, u := range []*undecided{third, second} {
		require.True(t, s.machines[1].Await(u.number, u.command, u.parties))
	}
	s.restart(1)
	conflicts(third, []uint64{first.number}, []uint64{second.number})
	require.Equal(t, []uint64{first.number}, s.machines[1].Undecided())
	require.Equal(t, []uint64{second.number, third.number}, s.machines[1].Waiting())
	c, parties, waits := s.machines[1].Awaiting(second.number)
	require.True(t, waits)
	require.Equal(t, second.parties, parties)
	require.Equal(t, second.command.Append(nil), c.Append(nil))
	_, _, waits = s.machines[1].Awaiting(first.number)
	require.False(t, waits)
	_, given := s.machines[1].VoteOn(second.number)
	require.False(t, given)
	require.Equal(t, posix.EREMOTE, s.machines[1].Decide(second.number, first.votes, 9).Code, "it has not voted")
	require.Equal(t, []uint64{second.number, third.number}, s.machines[1].Waiting())

	s.machines[1].Abort(first.number)
	v := s.machines[1].Prepare(second.number, second.command, second.parties)
	require.Equal(t, posix.OK, v.Code)
	again, given := s.machines[1].VoteOn(second.number)
	require.True(t, given)
	require.Equal(t, v, again)
	read, err := meta.ReadVote(v.Encoded)
	require.NoError(t, err)
	require.Equal(t, v, read)
	second.votes = [][]byte{v.Encoded}
	conflicts(third, []uint64{second.number}, nil)
	require.Equal(t, held, s.at(1, meta.Command{Op: meta.OpUnlink, Ino: s.a, Name: "f"}))
	require.Equal(t, posix.OK, second.prepare(0).decide().Code)
	s.must(1, meta.Command{Op: meta.OpMknod, Ino: s.a, Name: "f"})
	s.machines[1].Abort(third.number)
	s.machines[1].Abort(77)
	require.Zero(t, meta.Undecided(s.keys[1]))
}

// A command that is aborted leaves nothing.
func TestAbort(t *testing.T) {
	s := newStage(t)
	u := s.begin(meta.Command{Op: meta.OpRename, Ino: s.a, Name: "f", NewParent: s.b, NewName: "g", Child: s.file}, 0, 1).prepare(0, 1)
	before := [2]posix.Attr{s.stat(1, s.a), s.stat(1, s.file)}
	for p := range 2 {
		s.machines[p].Abort(u.number)
	}
	require.Equal(t, [2]posix.Attr{s.stat(1, s.a), s.stat(1, s.file)}, before)
	require.Equal(t, posix.EREMOTE, s.machines[1].Decide(u.number, u.votes, 9).Code, "nothing comes of it any more")
	s.must(1, meta.Command{Op: meta.OpWrite, Ino: s.file, Data: []byte("x")})
	s.must(1, meta.Command{Op: meta.OpUnlink, Ino: s.a, Name: "f"})
}

// A command that will be refused is not among the waiters that others see, but its refusal waits for the
// state that is about to change.
func TestRefusedCommandsWish(t *testing.T) {
	s := newStage(t)
	first := s.begin(meta.Command{Op: meta.OpRename, Ino: s.a, Name: "f", NewParent: s.b, NewName: "g", Child: s.file}, 0, 1).prepare(1)
	link := meta.Command{Op: meta.OpLink, Ino: s.file, Child: s.file, NewParent: s.a, NewName: "f"}
	second := s.begin(link, 0, 1)
	require.Equal(t, meta.Conflicting{Holders: []uint64{first.number}}, s.machines[1].Conflicts(second.number, second.command, second.parties))
	require.Equal(t, posix.EHELD, s.machines[1].Prepare(second.number, second.command, second.parties).Code)
	s.machines[1].Abort(second.number)
	s.machines[1].Abort(first.number)
	third := s.begin(link, 0, 1)
	require.True(t, s.machines[1].Await(third.number, third.command, third.parties))
	other := s.begin(meta.Command{Op: meta.OpUnlink, Ino: s.a, Name: "f", Child: s.file}, 0, 1)
	require.Empty(t, s.machines[1].Conflicts(other.number, other.command, other.parties))
	require.Equal(t, meta.Vote{Code: posix.EEXIST, Final: true}, s.vote(1, third))
	s.machines[1].Abort(third.number)
}

// vote prepares u at p, and gives its vote without the encoding.
func (f *tree) vote(p int, u *undecided) meta.Vote {
	v := f.machines[p].Prepare(u.number, u.command, u.parties)
	v.Encoded = nil
	return v
}

// An undecided command touches the names that it changes, the attributes of their directories, and the inodes
// of these names. It touches no directories above, and no other names.
func TestTouches(t *testing.T) {
	s := newStage(t)
	s.make(1, s.a, "n", 0o600)
	n := s.lookup(1, s.a, "n").Attr.Ino
	s.must(1, meta.Command{Op: meta.OpLink, Ino: s.file, NewParent: s.other, NewName: "hard"})
	s.make(1, s.other, "none", 0o600)
	u := s.begin(meta.Command{Op: meta.OpRename, Ino: s.a, Name: "f", NewParent: s.b, NewName: "g", Child: s.file}, 0, 1)
	wait := s.begin(*u.command, 0, 1)
	s.machines[1].Await(wait.number, wait.command, wait.parties)
	u.prepare(1)
	s.restart(1)
	lookup := func(dir posix.Ino, name string) meta.Command {
		return meta.Command{Op: meta.OpLookup, Ino: dir, Name: name}
	}
	of := func(op meta.Op, ino posix.Ino) meta.Command { return meta.Command{Op: op, Ino: ino, Length: 9} }
	for _, x := range []struct {
		c    meta.Command
		want bool
	}{
		{lookup(s.a, "f"), true}, {lookup(s.other, "hard"), true}, {lookup(s.a, "."), true}, {lookup(s.sub, ".."), true},
		{lookup(s.a, "n"), false}, {lookup(s.a, ".."), false}, {lookup(s.top, "a"), true}, {lookup(root(1), "top"), false},
		{of(meta.OpGetAttr, s.a), true}, {of(meta.OpGetAttr, s.file), true}, {of(meta.OpGetAttr, s.top), false}, {of(meta.OpGetAttr, n), false},
		{of(meta.OpReadDir, s.a), true}, {of(meta.OpReadDir, s.top), true}, {of(meta.OpReadDir, s.other), true}, {of(meta.OpReadDir, root(1)), false},
		{of(meta.OpExtents, s.file), true}, {of(meta.OpListXattr, s.file), true}, {of(meta.OpExtents, n), false},
		{of(meta.OpChain, s.a), true}, {of(meta.OpChain, s.other), false}, {of(meta.OpRule, s.a), true}, {of(meta.OpStatFS, 0), false},
		{of(meta.OpTasks, 0), true},
		{meta.Command{Op: meta.OpWrite, Ino: s.file}, true}, {meta.Command{Op: meta.OpSetAttr, Ino: s.a}, true},
		{meta.Command{Op: meta.OpMknod, Ino: s.a, Name: "m"}, false}, {meta.Command{Op: meta.OpMknod, Ino: s.a, Name: "f"}, true},
		{meta.Command{Op: meta.OpUnlink, Ino: s.other, Name: "hard"}, true}, {meta.Command{Op: meta.OpUnlink, Ino: s.other, Name: "none"}, false},
		{meta.Command{Op: meta.OpLink, Ino: s.file, NewParent: s.other, NewName: "m"}, true},
		{meta.Command{Op: meta.OpRename, Ino: s.other, Name: "none", NewParent: s.other, NewName: "hard"}, true},
		{meta.Command{Op: meta.OpMove, Child: s.file}, true}, {meta.Command{Op: meta.OpMove, Child: n}, false},
	} {
		require.Equal(t, x.want, s.machines[1].Touches(u.number, &x.c), "%+v", x.c)
		require.False(t, s.machines[1].Touches(wait.number, &x.c))
		require.False(t, s.machines[1].Touches(77, &x.c))
	}
	s.machines[1].Abort(wait.number)
	require.Equal(t, posix.OK, u.prepare(0).decide().Code)
}

// For any permissions: if a party alone refuses a command, the votes of all parties give an error, too. They
// give the same error if the error of the party is final.
func TestARefusalAloneIsARefusal(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	refused := 0
	for range 3000 {
		s := newStage(t)
		name := func() string { return []string{"f", "s", "x", "y", ".."}[r.IntN(5)] }
		s.make(0, s.b, "x", 0o600)
		s.make(0, s.b, "s", dirMode)
		s.make(0, s.lookup(0, s.b, "s").Attr.Ino, "full", 0o600)
		for p, inos := range [][]posix.Ino{{s.b, s.lookup(0, s.b, "s").Attr.Ino, s.lookup(0, s.b, "x").Attr.Ino}, {s.a, s.file, s.sub}} {
			for _, ino := range inos {
				a := posix.Attr{Mode: posix.Mode(r.IntN(0o2000)), UID: uint32(1000 * r.IntN(2)), GID: 100}
				s.must(p, setAttr(ino, meta.SetMode|meta.SetUID|meta.SetGID, a))
			}
		}
		dirs, at := []posix.Ino{s.b, s.a}, r.IntN(2)
		c := meta.Command{Cred: someone, Ino: dirs[at], Name: name(), NewParent: dirs[1-at], NewName: name(), Authority: authorityOf(t, "1000", "100")}
		c.Child, c.NewChild = s.lookup(at, c.Ino, c.Name).Attr.Ino, s.lookup(1-at, c.NewParent, c.NewName).Attr.Ino
		switch r.IntN(3) {
		case 0:
			c.Op, c.Flags = meta.OpRename, []uint32{0, meta.RenameExchange, meta.RenameNoReplace}[r.IntN(3)]
			c.Chain, c.Back = []posix.Ino{c.NewParent}, []posix.Ino{c.Ino}
			if isDots(c.Name) || isDots(c.NewName) {
				c.Child, c.NewChild = 0, 0
			}
		case 1:
			c = meta.Command{Op: meta.OpLink, Cred: c.Cred, Ino: c.Child, Child: c.Child, NewParent: c.NewParent, NewName: c.NewName, Authority: c.Authority}
		case 2:
			c.Op = []meta.Op{meta.OpUnlink, meta.OpRmdir}[r.IntN(2)]
			if isDots(c.Name) {
				c.Child = 0
			}
		}
		if c.Op == meta.OpLink && c.Ino == 0 {
			continue
		}
		u := s.begin(c, 0, 1)
		alone := []meta.Vote{s.vote(0, u), s.vote(1, u)}
		want := u.prepare(0, 1).decide().Code
		for _, v := range alone {
			if v.Code == posix.OK || v.Code == posix.EREMOTE {
				continue
			}
			refused++
			require.NotContains(t, []posix.Code{posix.OK, posix.EHELD}, want, "%+v", c)
			require.NotEqual(t, posix.EREMOTE, want, "%+v: %v", c, alone)
			if v.Final {
				require.Equal(t, want, v.Code, "%+v", c)
			}
		}
		if want == posix.OK {
			require.False(t, slices.ContainsFunc(alone, func(v meta.Vote) bool { return v.Code != posix.OK }))
		}
	}
	require.Greater(t, refused, 500)
}

func isDots(name string) bool { return name == "." || name == ".." }
