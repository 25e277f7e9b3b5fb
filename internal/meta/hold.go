package meta

import "github.com/globalfs/globalfs/internal/posix"

// An undecided command holds what its vote speaks of, so that it stays true until Decide. Who meets
// a hold changes nothing and gets EREMOTE; nobody waits, so nothing can deadlock. Queries do not look at holds.

type holdKind uint8

const (
	holdName    holdKind = 1 + iota // exclusive: the name, whether something has it or not
	holdPin                         // shared: the directory stays where it is, in the tree and in its partition
	holdLinks                       // exclusive: the names of the inode
	holdContent                     // exclusive: all of the inode
	onContent                       // is never held: an update that must not meet holdContent
)

type hold struct {
	kind holdKind
	ino  posix.Ino
	name string // of holdName
}

type heldName struct {
	dir  posix.Ino
	name string
}

type heldInode struct{ pins, links, contents int }

// holds is what all undecided commands hold. It is made of them, and not stored.
type holds struct {
	names  map[heldName]int
	inodes map[posix.Ino]heldInode
}

// meets reports whether h cannot be had beside what is held.
func (t *holds) meets(h hold) bool {
	n := t.inodes[h.ino]
	switch h.kind {
	case holdName:
		return n.contents > 0 || t.names[heldName{h.ino, h.name}] > 0
	case holdPin:
		return n.links > 0 || n.contents > 0
	case onContent:
		return n.contents > 0
	}
	return n != heldInode{}
}

// add takes h once more, or with -1 lets it go.
func (t *holds) add(h hold, delta int) {
	if h.kind == holdName {
		key := heldName{h.ino, h.name}
		if t.names[key] += delta; t.names[key] == 0 {
			delete(t.names, key)
		}
		return
	}
	n := t.inodes[h.ino]
	switch h.kind {
	case holdPin:
		n.pins += delta
	case holdLinks:
		n.links += delta
	case holdContent:
		n.contents += delta
	}
	if n == (heldInode{}) {
		delete(t.inodes, h.ino)
		return
	}
	t.inodes[h.ino] = n
}

// blocked gives what stands in the way of a command in this partition alone.
func (m *Machine) blocked(c *Command) (posix.Ino, bool) {
	if len(m.undecided) == 0 {
		return 0, false
	}
	for _, h := range m.wanted(c) {
		if m.holds.meets(h) {
			return h.ino, true
		}
	}
	return 0, false
}

// wanted is what a command in one partition changes, as holds that it must not meet.
func (m *Machine) wanted(c *Command) []hold {
	var w []hold
	name := func(dir posix.Ino, name string, child holdKind) {
		w = append(w, hold{kind: holdName, ino: dir, name: name})
		if e, found := m.entry(dir, name); found && child != 0 {
			w = append(w, hold{kind: child, ino: e.ino})
		}
	}
	switch c.Op {
	case OpLock, OpTask, OpGone, OpReleased, OpReserve, OpUnmake, OpDropped, OpCollected:
	case OpMknod:
		if c.Flags&Truncate != 0 {
			name(c.Ino, c.Name, onContent)
		} else {
			name(c.Ino, c.Name, 0)
		}
	case OpLink:
		w = append(w, hold{kind: holdLinks, ino: c.Ino})
		name(c.NewParent, c.NewName, 0)
	case OpUnlink, OpRmdir:
		name(c.Ino, c.Name, holdLinks)
	case OpRename:
		name(c.Ino, c.Name, holdLinks)
		name(c.NewParent, c.NewName, holdLinks)
	case OpPlace:
		name(c.Ino, "", 0)
	case OpMove:
		w = append(w, hold{kind: holdContent, ino: c.Child})
	default:
		w = append(w, hold{kind: onContent, ino: c.Ino})
	}
	return w
}
