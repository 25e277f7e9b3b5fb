package meta

import (
	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/posix"
)

// For directories that a client holds exclusively (package delegation), this file finds the objects that a
// command touches, and chooses the numbers of inodes that the client makes there.

// Object is an inode that a command reads or changes, with its names if it is a directory.
type Object struct {
	Ino   posix.Ino
	IsDir bool
}

// Touched returns the objects that an update reads or changes in this partition. It omits directories that
// are only on a way up: the command reads nothing of them but their parents.
func Touched(m *Machine, c *Command) []Object {
	switch c.Op {
	case OpBatch, OpTask, OpCollected, OpLock:
		return nil
	}
	return objectsOf(m, m.wanted(c))
}

// ApplyNumbered is like Machine.Apply, for a command that makes an inode with a given number in the partition
// of its directory; 0: the machine chooses the number. The caller guarantees that no inode ever had the
// number.
func ApplyNumbered(m *Machine, c *Command, counter uint64, number posix.Ino) Result {
	m.chosen = number
	defer func() { m.chosen = 0 }()
	return m.Apply(c, counter)
}

// TouchedHere is like Touched, for a command of several partitions. A command that permissions refuse here
// touches nothing.
func TouchedHere(m *Machine, c *Command, parties []uint16) []Object {
	v, wanted := m.ballot(c, parties)
	if v.code == posix.EACCES || v.code == posix.EPERM {
		return nil
	}
	return objectsOf(m, wanted)
}

func objectsOf(m *Machine, wanted holdSet) (all []Object) {
	for i := range wanted {
		h := &wanted[i]
		if h.name == "" && h.exclusive == 0 && h.shared == onWay || hasObject(all, h.ino) {
			continue
		}
		n, code := m.inode(h.ino)
		all = append(all, Object{Ino: h.ino, IsDir: code == posix.OK && n.Mode.IsDir()})
	}
	return all
}

// hasObject reports whether all contains an inode.
func hasObject(all []Object, ino posix.Ino) bool {
	for i := range all {
		if all[i].Ino == ino {
			return true
		}
	}
	return false
}

// EntryOf returns the inode of a name in a directory, if the name exists.
func EntryOf(m *Machine, dir posix.Ino, name string) (o Object, exists bool) {
	e, exists := m.entry(dir, name)
	return Object{Ino: e.ino, IsDir: e.kind == posix.TypeDir}, exists
}

// IsDir reports whether an inode is a directory of this partition.
func IsDir(m *Machine, ino posix.Ino) bool {
	n, code := m.inode(ino)
	return code == posix.OK && n.Mode.IsDir()
}

// Has reports whether an inode is in this partition.
func Has(m *Machine, ino posix.Ino) bool {
	_, code := m.inode(ino)
	return code == posix.OK
}

// TakeNumbers takes count fresh inode numbers. The first one is a multiple of align.
func TakeNumbers(m *Machine, count, align uint64) (first posix.Ino) {
	start := (m.state.last + align) / align * align
	m.state.last = start + count - 1
	m.saveState()
	return posix.MakeIno(m.cfg.Partition, start)
}

// AddDelegated adds a directory without entries to m, which is a copy of a part of the tree. The parent need
// not be in m.
func AddDelegated(m *Machine, dir posix.Attr, parent posix.Ino) {
	invariant.Check(dir.Mode.IsDir() && dir.Size == 0, "inode %d: mode %o, size %d", dir.Ino, dir.Mode, dir.Size)
	m.save(&inode{Attr: dir, parent: parent, cookie: firstCookie - 1})
	m.state.inodes++
	m.saveState()
}

// Inodes returns the number of inodes in use.
func Inodes(m *Machine) uint64 { return m.state.inodes }
