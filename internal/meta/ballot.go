package meta

import (
	"slices"

	"github.com/globalfs/globalfs/internal/posix"
)

// refusal is the vote of who has what c needs in use.
func (m *Machine) refusal(c *Command) vote {
	return vote{partition: m.cfg.Partition, time: c.Time, refused: true}
}

// ballot gives the vote on c, and what must be held for it to stay true.
func (m *Machine) ballot(c *Command, parties []uint16) (vote, []hold) {
	if !c.bound() {
		return vote{partition: m.cfg.Partition, time: c.Time}, nil // all parties will refuse it, whatever is there
	}
	s := m.look(c)
	v := vote{partition: m.cfg.Partition, time: c.Time, source: s.source, target: s.target, place: s.place}
	b := &booth{m: m, c: c, vote: &v}
	k := c.cast()
	b.directory(&s.from, k.from, c.Name)
	b.directory(&s.to, k.to, c.NewName)
	if v.source.ino != 0 {
		v.source.at = m.where(&s.source)
	}
	if v.target.ino != 0 {
		v.target.at = m.where(&s.target)
	}
	if c.Op == OpPlace && m.cfg.Partition == tablePartition {
		b.holds = append(b.holds, hold{kind: holdName, ino: c.Ino}) // its row: rule and row change together
	}
	if k.moved != 0 {
		b.moved(&s.moved, parties)
	}
	if k.replaced != 0 && s.replaced.in(m.cfg.Partition) {
		kind := holdLinks
		if s.replaced.Mode.IsDir() && c.Flags&RenameExchange == 0 {
			kind = holdContent
		}
		b.sees(&s.replaced, kind)
	}
	if c.Op == OpRename {
		b.walks(&s)
	}
	return v, b.holds
}

// booth is where a vote is made.
type booth struct {
	m     *Machine
	c     *Command
	vote  *vote
	holds []hold
}

// sees adds an inode that is here.
func (b *booth) sees(s *sight, kind holdKind) {
	if !slices.ContainsFunc(b.vote.seen, func(a posix.Attr) bool { return a.Ino == s.Ino }) {
		b.vote.seen = append(b.vote.seen, s.Attr)
	}
	b.holds = append(b.holds, hold{kind: kind, ino: s.Ino})
}

// directory votes on one of the directories of names.
func (b *booth) directory(s *sight, ino posix.Ino, name string) {
	if ino == 0 || s.code != posix.OK {
		return
	}
	b.sees(s, holdPin)
	b.holds = append(b.holds, hold{kind: holdName, ino: s.Ino, name: name}) // of Place: its rule, under no name
}

// moved votes on the inode that loses, gets or changes a name, or moves.
func (b *booth) moved(s *sight, parties []uint16) {
	here, c := b.m.cfg.Partition, b.c
	ino := c.cast().moved
	moves := c.Op == OpMove || c.Op == OpRename
	if s.code != posix.OK || s.Ino != ino {
		if moves && (here == c.Target || here == ino.Partition()) {
			b.holds = append(b.holds, hold{kind: holdContent, ino: ino})
		}
		return
	}
	kind := holdLinks
	if moves && s.mayMove(c, parties) {
		b.vote.export = b.m.export(&s.inode)
	}
	if c.Op == OpMove || c.Op == OpRmdir || b.vote.export != nil {
		kind = holdContent
	}
	b.sees(s, kind)
}

// mayMove reports whether c moves the inode to its target if it can be exported.
func (s *sight) mayMove(c *Command, parties []uint16) bool {
	if c.Target == s.at || s.Nlink == 0 || !slices.Contains(parties, c.Target) || !slices.Contains(parties, s.Ino.Partition()) {
		return false
	}
	return c.Op == OpMove || c.Flags&RenameExchange == 0 && !s.Mode.IsDir() && s.Nlink == 1
}

// walks adds the ways up that c asks for, and those of both directories of a directory that may be moved.
func (b *booth) walks(s *scene) {
	c := b.c
	starts := slices.Concat(c.Chain, c.Back)
	if s.from.code == posix.OK && s.to.code == posix.OK && s.needsWays(c) {
		starts = append(starts, c.Ino, c.NewParent)
	}
	for i, start := range starts {
		if slices.Contains(starts[:i], start) {
			continue
		}
		w, walked := b.m.walk(start, c.Child, c.NewChild)
		if len(walked) == 0 {
			continue
		}
		b.vote.ways = append(b.vote.ways, w)
		for _, ino := range walked {
			b.holds = append(b.holds, hold{kind: holdPin, ino: ino})
		}
	}
}
