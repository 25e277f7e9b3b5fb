package meta

import (
	"slices"

	"github.com/globalfs/globalfs/internal/posix"
)

// refusal returns a vote that refuses a command, and has no part of the scene.
func (m *Machine) refusal(c *Command, code posix.Code) vote {
	return vote{partition: m.cfg.Partition, time: c.Time, code: code}
}

// ballot returns the vote of this partition on c, and the holds that keep the vote true.
func (m *Machine) ballot(c *Command, parties []uint16) (vote, holdSet) {
	bound := *c
	if code := bound.bind(); code != posix.OK {
		v := m.refusal(c, code) // all parties refuse it
		v.final = true
		return v, nil
	}
	if c.Op == 0 || !slices.Contains(parties, m.cfg.Partition) {
		return m.refusal(c, posix.EREMOTE), nil
	}
	s := m.look(c)
	v := vote{partition: m.cfg.Partition, time: c.Time, source: s.source, target: s.target}
	v.code, v.final = m.alone(&bound, s)
	b := &voting{machine: m, command: c, vote: &v}
	b.look(&s, parties)
	return v, b.holds
}

// voting collects the vote on a command and its holds.
type voting struct {
	machine *Machine
	command *Command
	vote    *vote
	holds   holdSet
}

// look adds this partition's part of the scene to the vote, and the holds for it.
func (b *voting) look(s *scene, parties []uint16) {
	k, here := b.command.cast(), b.machine.cfg.Partition
	b.directory(&s.from, k.from, b.command.Name)
	b.directory(&s.to, k.to, b.command.NewName)
	if b.vote.source.ino != 0 {
		b.vote.source.at = b.machine.where(&s.source)
	}
	if b.vote.target.ino != 0 {
		b.vote.target.at = b.machine.where(&s.target)
	}
	if b.command.Op == OpPlace && here == tablePartition {
		b.holds.facets(b.command.Ino, 0, facetRule) // the row of the table changes together with the rule
	}
	if k.moved != 0 {
		b.moved(&s.moved, parties)
	}
	if k.replaced != 0 && s.replaced.in(here) {
		b.replaced(&s.replaced)
	}
	if b.command.Op == OpRename {
		b.walks(s)
	}
}

// sees adds an inode of this partition to the vote, and holds some of its facets.
func (b *voting) sees(s *sight, shared, exclusive facet) {
	if !slices.ContainsFunc(b.vote.inodes, func(a posix.Attr) bool { return a.Ino == s.Ino }) {
		b.vote.inodes = append(b.vote.inodes, s.Attr)
	}
	b.holds.facets(s.Ino, shared, exclusive)
}

// directory adds a directory in which c reads or changes a name.
func (b *voting) directory(s *sight, ino posix.Ino, name string) {
	if ino == 0 || s.code != posix.OK {
		return
	}
	if b.command.Op == OpPlace {
		b.sees(s, pinned&^facetRule, facetRule)
		return
	}
	b.sees(s, pinned, 0)
	b.holds.name(s.Ino, name)
}

// moved votes on the inode that loses, gets or changes a name, or moves.
func (b *voting) moved(s *sight, parties []uint16) {
	here, c := b.machine.cfg.Partition, b.command
	ino := c.cast().moved
	moves := c.Op == OpMove || c.Op == OpRename
	if s.code != posix.OK || s.Ino != ino {
		if moves && (here == c.Target || here == ino.Partition()) {
			b.holds.facets(ino, 0, allFacets) // the inode may arrive here
		}
		return
	}
	if moves && s.mayMove(c, parties) {
		b.vote.export = b.machine.export(&s.inode)
	}
	switch {
	case c.Op == OpMove || b.vote.export != nil:
		b.sees(s, 0, allFacets)
	case c.Op == OpRmdir:
		b.sees(s, b.judged(), facetLinks|facetContent)
	default:
		b.sees(s, b.judged()|facetRule, facetLinks|c.reparents(s))
	}
}

// replaced adds the inode that has the new name of a rename.
func (b *voting) replaced(s *sight) {
	exclusive := facetLinks
	switch {
	case b.command.Flags&RenameExchange != 0:
		exclusive |= b.command.reparents(s)
	case s.Mode.IsDir():
		exclusive |= facetContent
	}
	b.sees(s, b.judged(), exclusive)
}

// judged returns the facets of an inode that the checks of the command read because it has a name.
func (b *voting) judged() facet {
	if b.command.Authority == nil {
		return facetPlace
	}
	return facetPlace | facetAccess
}

// reparents returns facetParent for a directory that a rename gives another parent, else no facet.
func (c *Command) reparents(s *sight) facet {
	if c.Op == OpRename && s.Mode.IsDir() && c.Ino != c.NewParent {
		return facetParent
	}
	return 0
}

// mayMove reports whether c moves the inode to its target, provided that it can be exported.
func (s *sight) mayMove(c *Command, parties []uint16) bool {
	if c.Target == s.partition || s.Nlink == 0 || !slices.Contains(parties, c.Target) || !slices.Contains(parties, s.Ino.Partition()) {
		return false
	}
	return c.Op == OpMove || c.Flags&RenameExchange == 0 && !s.Mode.IsDir() && s.Nlink == 1
}

// walks adds the ways up of the directories in c.Chain and c.Back and, if c may move a directory, of both
// directories of the rename. A way up is the sequence of parents of a directory (way.go).
func (b *voting) walks(s *scene) {
	c := b.command
	asked := slices.Concat(c.Chain, c.Back)
	if s.from.code == posix.OK && s.to.code == posix.OK && s.needsWays(c) {
		asked = append(asked, c.Ino, c.NewParent)
	}
	for i, start := range asked {
		if slices.Contains(asked[:i], start) {
			continue
		}
		if w, walked := b.machine.walk(start, c.Child, c.NewChild); len(walked) > 0 {
			b.vote.ways = append(b.vote.ways, w)
		}
	}
	if len(asked) > 0 {
		b.holds = b.machine.pinWays(b.holds, append([]posix.Ino{c.NewParent}, c.Chain...), append([]posix.Ino{c.Ino}, c.Back...))
	}
}

// pinWays adds to holds the directories on the ways up from the new parents of directories (to) and from
// the old ones (from), as far as they are in this partition. A way ends at the first directory that is also
// on the other way.
//
// This suffices to keep a tree. Let c move directory d from directory old to directory new, and let a be the
// lowest common ancestor of both.
//
//  1. From the last vote to the decision, the ways from new to a and from old to a are held. d is in old and
//     not on the way from new, so a is above d.
//  2. For new to get below d, a or an ancestor of a would have to move below d. That move finds its own
//     directory on its way up, which passes d, old and a. So it is refused.
//  3. If a is unknown, because the command does not name the whole way from old, the way from new is held up
//     to the root of a partition, and d is not on it. Roots cannot move, so they need no hold.
//  4. The way from old must be held because the partition of d may vote later. Without the hold, a directory
//     between old and a could move away before, and a could then move below d.
func (m *Machine) pinWays(holds holdSet, to, from []posix.Ino) holdSet {
	up, aboveTo := m.above(to)
	down, aboveFrom := m.above(from)
	pin := func(ways [][]posix.Ino, other map[posix.Ino]bool) {
		for _, way := range ways {
			for _, ino := range way {
				if other[ino] {
					break
				}
				if !isRoot(ino) {
					holds.facets(ino, onWay, 0)
				}
			}
		}
	}
	pin(up, aboveFrom)
	pin(down, aboveTo)
	return holds
}

// above returns the directories on the ways up from starts, as far as they are in this partition. A way ends
// where it meets an earlier one.
func (m *Machine) above(starts []posix.Ino) (ways [][]posix.Ino, seen map[posix.Ino]bool) {
	seen = map[posix.Ino]bool{}
	for _, start := range starts {
		_, way := m.walk(start, 0, 0)
		for i, ino := range way {
			if seen[ino] {
				way = way[:i]
				break
			}
			seen[ino] = true
		}
		ways = append(ways, way)
	}
	return ways, seen
}
