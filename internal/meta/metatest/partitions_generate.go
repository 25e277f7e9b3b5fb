package metatest

import (
	"maps"
	"slices"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// next generates a command. Some of the commands, such as Move, are unknown to the model, because they do not
// change the tree.
func (c *cluster) next() *meta.Command {
	u := c.command()
	switch c.pick(10) {
	case 2:
		*u = meta.Command{Time: c.time, Cred: u.Cred}
		c.setAttr(u)
		u.Ino = c.dir()
	case 0:
		*u = meta.Command{Op: meta.OpMove, Time: c.time, Child: c.ino(0), Target: c.partition().cfg.Partition}
	case 1:
		var rule meta.Rule
		for p := range uint16(partitionCount) {
			if c.chance(2) {
				rule.Spread = append(rule.Spread, p)
			}
		}
		*u = meta.Command{Op: meta.OpPlace, Time: c.time, Ino: c.dir(), Data: rule.Append(nil), Target: c.partition().cfg.Partition}
		if c.chance(3) {
			u.Flags = meta.PlaceMove
		}
	}
	return u
}

// collide changes u so that it concerns an inode that x also concerns.
func (c *cluster) collide(u *meta.Command, x *pending) {
	ino := c.involved(x)
	n := c.model.nodes[ino]
	if n == nil {
		return
	}
	switch u.Op {
	case meta.OpMove:
		u.Child = ino
	case meta.OpMknod, meta.OpPlace:
		if n.Mode.IsDir() {
			u.Ino = ino
		}
	case meta.OpUnlink, meta.OpRmdir:
		u.Ino, u.Name = c.anyName(ino, u.Ino, u.Name)
	case meta.OpRename:
		if c.chance(2) {
			u.Ino, u.Name = c.anyName(ino, u.Ino, u.Name)
		} else {
			u.NewParent, u.NewName = c.anyName(ino, u.NewParent, u.NewName)
		}
	default:
		u.Ino = ino
	}
}

// involved draws one of the inodes that x concerns.
func (c *cluster) involved(x *pending) posix.Ino {
	switch c.pick(4) {
	case 0:
		return x.asked.Ino
	case 1:
		return x.asked.NewParent
	case 2:
		return c.known[x.command.NewChild]
	}
	return c.known[x.command.Child]
}

// anyName picks one of the names of ino at random. If ino has no name, it returns otherDir and other.
func (c *cluster) anyName(ino, otherDir posix.Ino, other string) (posix.Ino, string) {
	type place struct {
		dir  posix.Ino
		name string
	}
	var places []place
	for _, dir := range slices.Sorted(maps.Keys(c.model.nodes)) {
		names := c.model.nodes[dir].names
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if names[name] == ino {
				places = append(places, place{dir, name})
			}
		}
	}
	if len(places) == 0 {
		return otherDir, other
	}
	p := places[c.pick(len(places))]
	return p.dir, p.name
}
