package meta

import (
	"slices"

	"github.com/globalfs/globalfs/internal/posix"
)

// touched is the state that queries can read and a command changes: names, and inodes with their attributes
// and content. Directories that a command only passes on the path to the root (a way up, way.go) are held,
// but not touched.
type touched struct {
	names  []hold      // the names
	inodes []posix.Ino // the inodes
	moved  []posix.Ino // the inodes that get another parent
	whole  []posix.Ino // the inodes that arrive, leave or are removed, with all their names
	rows   bool        // the table of placements, or the tasks
}

// touchedBy returns the state that c changes if it is executed.
func touchedBy(c *Command) (t touched) {
	k := c.cast()
	switch c.Op {
	case OpUnlink, OpRmdir:
		t.names = []hold{{ino: c.Ino, name: c.Name}}
	case OpLink:
		t.names = []hold{{ino: c.NewParent, name: c.NewName}}
	case OpRename:
		t.names = []hold{{ino: c.Ino, name: c.Name}, {ino: c.NewParent, name: c.NewName}}
	}
	for _, ino := range []posix.Ino{k.from, k.to, k.moved, k.replaced} {
		if ino != 0 {
			t.inodes = append(t.inodes, ino)
		}
	}
	if c.Op == OpRename || c.Op == OpMove {
		t.moved = []posix.Ino{k.moved, k.replaced}
	}
	for _, ino := range []posix.Ino{k.moved, k.replaced} {
		if ino != 0 {
			t.whole = append(t.whole, ino)
		}
	}
	t.rows = c.Op == OpPlace || c.Op == OpRename
	return t
}

// Touches reports whether an undecided command would change the answer to c, a query or an update: it changes
// a name that c looks up, the attributes of the directory of such a name, or an inode that c links, unlinks,
// moves or replaces. It is false for a command that this partition has refused, and for one that waits.
// Counters of the whole partition (OpStatFS) and answers about blocks do not count.
func (m *Machine) Touches(number uint64, c *Command) bool {
	u := m.undecided.commands[number]
	if u == nil || u.waits || u.vote.Code != posix.OK {
		return false
	}
	t := &u.touches
	switch c.Op {
	case OpRules, OpTasks:
		return t.rows
	case OpLookup:
		return m.touchesName(t, c.Ino, c.Name)
	case OpChain:
		_, walked := m.walk(c.Ino, 0, 0)
		return t.inode(c.Ino) || slices.ContainsFunc(walked, t.inode)
	case OpReadDir:
		return t.inode(c.Ino) || m.touchesEntries(t, c)
	case OpMknod, OpUnlink, OpRmdir:
		return m.touchesName(t, c.Ino, c.Name)
	case OpLink:
		return t.inode(c.Ino) || m.touchesName(t, c.NewParent, c.NewName)
	case OpRename:
		return m.touchesName(t, c.Ino, c.Name) || m.touchesName(t, c.NewParent, c.NewName)
	case OpMove:
		return t.inode(c.Child)
	case OpStatFS, OpScan, OpQueue, OpGarbage, OpCollected, OpGetLock, OpLock:
		return false
	}
	return t.inode(c.Ino)
}

func (t *touched) inode(ino posix.Ino) bool { return slices.Contains(t.inodes, ino) }

// touchesName reports whether a name in dir may get another inode, or names an inode that changes.
func (m *Machine) touchesName(t *touched, dir posix.Ino, name string) bool {
	if slices.Contains(t.whole, dir) {
		return true
	}
	if name == "." {
		return t.inode(dir)
	}
	if name == ".." {
		n, code := m.inode(dir)
		return slices.Contains(t.moved, dir) || code == posix.OK && t.inode(n.parent)
	}
	if slices.ContainsFunc(t.names, func(h hold) bool { return h.ino == dir && h.name == name }) {
		return true
	}
	e, found := m.entry(dir, name)
	return found && t.inode(e.ino)
}

// touchesEntries reports whether a page of a directory shows an inode that changes.
func (m *Machine) touchesEntries(t *touched, c *Command) bool {
	return slices.ContainsFunc(m.readDir(c).Entries, func(e Entry) bool { return t.inode(e.Attr.Ino) })
}
