package meta_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// chance makes the same choices for two stages.
type chance struct{ *rand.Rand }

func (r chance) ino(inos ...posix.Ino) posix.Ino { return inos[r.IntN(len(inos))] }

func (r chance) name() string { return []string{"f", "s", "x", "y", "t"}[r.IntN(5)] }

// furnish gives the inodes of a stage some modes and owners, and partition 0 some names.
func (r chance) furnish(s *stage) (full posix.Ino) {
	s.make(0, s.b, "x", 0o600)
	full = s.make(0, s.b, "s", dirMode)
	s.make(0, full, "x", 0o600)
	for _, ino := range []posix.Ino{s.b, full, s.a, s.file, s.sub, s.top} {
		a := posix.Attr{Mode: posix.Mode(r.IntN(0o2000)) | 0o500, UID: uint32(1000 * r.IntN(2)), GID: 100}
		s.must(int(ino.Partition()), setAttr(ino, meta.SetMode|meta.SetUID|meta.SetGID, a))
	}
	return full
}

// command is one over both partitions by a user, with the inodes that the user finds.
func (r chance) command(s *stage) meta.Command {
	dirs, at := []posix.Ino{s.b, s.a}, r.IntN(2)
	c := meta.Command{Cred: someone, Ino: dirs[at], Name: r.name(), NewParent: dirs[1-at], NewName: r.name(), Target: uint16(1 - at)}
	c.Child, c.NewChild = s.lookup(at, c.Ino, c.Name).Attr.Ino, s.lookup(1-at, c.NewParent, c.NewName).Attr.Ino
	switch r.IntN(4) {
	case 0, 1:
		c.Op, c.Flags = meta.OpRename, []uint32{0, meta.RenameExchange, meta.RenameNoReplace}[r.IntN(3)]
		c.Chain, c.Back = []posix.Ino{c.NewParent}, []posix.Ino{c.Ino}
	case 2:
		c = meta.Command{Op: meta.OpLink, Cred: someone, Ino: s.file, Child: s.file, NewParent: s.b, NewName: r.name()}
	case 3:
		c = meta.Command{Op: meta.OpMove, Child: r.ino(s.file, s.sub, s.a)}
	}
	if c.Op != meta.OpMove {
		c.Authority = authorityOf(s.t, "1000", "100")
	}
	return c
}

// update is one of root's in one partition.
func (r chance) update(s *stage, full posix.Ino) (p int, c meta.Command) {
	ino := r.ino(s.b, full, s.a, s.file, s.sub, s.top)
	dir, to := r.ino(s.a, s.sub, s.top, s.other), r.ino(s.a, s.sub, s.top, s.other)
	if p = int(ino.Partition()); p == 0 {
		dir, to = r.ino(s.b, full), r.ino(s.b, full)
	}
	switch r.IntN(9) {
	case 0:
		c = setAttr(ino, meta.SetMode, posix.Attr{Mode: posix.Mode(r.IntN(0o10000))})
	case 1:
		c = setAttr(ino, []uint32{meta.SetUID, meta.SetGID, meta.SetMtime}[r.IntN(3)], posix.Attr{UID: 1000, GID: 7, Mtime: 99999})
	case 2:
		c = meta.Command{Op: meta.OpMknod, Ino: dir, Name: r.name(), Mode: []posix.Mode{0o600, dirMode}[r.IntN(2)]}
	case 3:
		c = meta.Command{Op: []meta.Op{meta.OpUnlink, meta.OpRmdir}[r.IntN(2)], Ino: dir, Name: r.name()}
	case 4, 5:
		c = meta.Command{Op: meta.OpRename, Ino: dir, Name: []string{"a", r.name()}[r.IntN(2)], NewParent: to, NewName: r.name()}
	case 6:
		c = meta.Command{Op: meta.OpLink, Ino: ino, NewParent: dir, NewName: r.name()}
	case 7:
		c = meta.Command{Op: meta.OpWrite, Ino: ino, Data: []byte("x")}
	case 8:
		c = meta.Command{Op: meta.OpSetXattr, Ino: ino, Name: "user.x", Data: []byte("v")}
	}
	return p, c
}

// A vote stays true. An outcome by votes that are old, with other updates in between, is the same as one by
// new votes, in code and effect: the updates that pass are those that make no difference.
func TestVotesStayTrue(t *testing.T) {
	executed, passed := 0, 0
	for seed := range uint64(4000) {
		var codes [2]posix.Code
		var states [2][]posix.Attr
		for i, fresh := range []bool{false, true} {
			r, s := chance{rand.New(rand.NewPCG(seed, 1))}, newStage(t)
			full := r.furnish(s)
			u := s.begin(r.command(s), 0, 1).prepare(0, 1)
			if v, _ := s.machines[0].VoteOn(u.number); v.Code != posix.OK {
				break
			}
			if v, _ := s.machines[1].VoteOn(u.number); v.Code != posix.OK {
				break
			}
			for range 6 {
				p, c := r.update(s, full)
				if s.at(p, c).Code == posix.OK {
					passed++
				}
			}
			if fresh {
				s.machines[0].Abort(u.number)
				s.machines[1].Abort(u.number)
				u.votes = nil
				u.prepare(0, 1)
			}
			codes[i] = u.decide().Code
			states[i] = s.state()
		}
		require.Equal(t, codes[1], codes[0], "seed %d", seed)
		require.Equal(t, states[1], states[0], "seed %d", seed)
		if codes[0] == posix.OK && len(states[0]) > 0 {
			executed++
		}
	}
	require.Greater(t, executed, 500)
	require.Greater(t, passed, 3000)
}

// state lists all that stat shows.
func (f *tree) state() (all []posix.Attr) {
	for p := range f.machines {
		for n := range uint64(20) {
			ino := posix.MakeIno(uint16(p), n+1)
			for at := range f.machines {
				all = append(all, f.at(at, meta.Command{Op: meta.OpGetAttr, Ino: ino}).Attr)
			}
		}
	}
	return all
}
