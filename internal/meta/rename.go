package meta

import "github.com/globalfs/globalfs/internal/posix"

// renaming is a rename that was found possible.
type renaming struct {
	from, to *inode // the directories; the same pointer if they are one
	source   entry
	target   entry // if replaces
	replaces bool
	moved    inode // what source names
	replaced inode // what target names
}

// rename moves a name, replaces what has the new one, or swaps the two.
func (m *Machine) rename(c *Command, counter uint64) Result {
	r, code := m.planRename(c)
	if code != posix.OK {
		return failed(code)
	}
	if r.replaces && r.moved.Ino == r.replaced.Ino {
		return Result{Attr: r.moved.Attr} // two names of one file: both stay
	}
	switch {
	case c.Flags&RenameExchange != 0:
		m.exchange(r, c.Time)
	case r.replaces:
		m.removeEntry(r.from, r.source)
		m.replaceEntry(r.to, r.target, r.moved.Ino, r.source.kind)
		m.dropLink(&r.replaced, c.Time, counter)
	default:
		m.removeEntry(r.from, r.source)
		m.addEntry(r.to, c.NewName, r.moved.Ino, r.source.kind)
	}
	m.arrive(&r.moved, r.to, c.Time)
	r.from.modified(c.Time)
	r.to.modified(c.Time)
	m.save(r.from)
	if r.to != r.from {
		m.save(r.to)
	}
	return Result{Attr: r.moved.Attr}
}

// exchange swaps the two names; the caller does the rest for moved and the directories.
func (m *Machine) exchange(r *renaming, t posix.Time) {
	m.replaceEntry(r.from, r.source, r.replaced.Ino, r.target.kind)
	m.replaceEntry(r.to, r.target, r.moved.Ino, r.source.kind)
	m.arrive(&r.replaced, r.from, t)
}

// arrive saves n, which has a new name in dir.
func (m *Machine) arrive(n, dir *inode, t posix.Time) {
	if n.Mode.IsDir() {
		n.parent = dir.Ino
	}
	n.Ctime = t
	m.save(n)
}

// planRename reads all that a rename touches and refuses it in the order in which Linux does.
func (m *Machine) planRename(c *Command) (*renaming, posix.Code) {
	const both = RenameExchange | RenameNoReplace
	if c.Flags&both == both {
		return nil, posix.EINVAL
	}
	r, code := m.renameDirs(c)
	if code != posix.OK {
		return nil, code
	}
	var found bool
	if r.source, found = m.entry(r.from.Ino, c.Name); !found {
		return nil, posix.ENOENT
	}
	r.target, r.replaces = m.entry(r.to.Ino, c.NewName)
	switch {
	case r.replaces && c.Flags&RenameNoReplace != 0:
		return nil, posix.EEXIST
	case !r.replaces && c.Flags&RenameExchange != 0:
		return nil, posix.ENOENT
	case m.foreign(&r.source) || r.replaces && m.foreign(&r.target):
		return nil, posix.EBUSY
	}
	if r.moved, code = m.child(&r.source); code != posix.OK {
		return nil, code
	}
	if r.replaces {
		if r.replaced, code = m.child(&r.target); code != posix.OK {
			return nil, code
		}
	}
	if code := m.checkLoops(r, c.Flags); code != posix.OK {
		return nil, code
	}
	return r, r.checkTypes(c.Flags)
}

// renameDirs reads the directories of a rename and checks the names.
func (m *Machine) renameDirs(c *Command) (*renaming, posix.Code) {
	if c.Ino.Partition() != m.cfg.Partition || c.NewParent.Partition() != m.cfg.Partition {
		return nil, posix.EXDEV
	}
	from, code := m.parentOf(c.Ino, c.Name)
	if code != posix.OK {
		return nil, code
	}
	r := &renaming{from: &from, to: &from}
	if c.NewParent == c.Ino {
		code = checkName(c.NewName)
	} else {
		r.to = new(inode)
		*r.to, code = m.parentOf(c.NewParent, c.NewName)
	}
	switch {
	case code != posix.OK:
	case isDots(c.Name):
		code = posix.EBUSY
	case isDots(c.NewName) && c.Flags&RenameNoReplace != 0:
		code = posix.EEXIST
	case isDots(c.NewName):
		code = posix.EBUSY
	}
	return r, code
}

// checkLoops refuses to move a directory below itself, and to replace a directory by what is in it.
func (m *Machine) checkLoops(r *renaming, flags uint32) posix.Code {
	if r.from == r.to {
		return posix.OK
	}
	if r.moved.Mode.IsDir() && m.isAbove(r.moved.Ino, r.to) {
		return posix.EINVAL
	}
	if r.replaces && r.replaced.Mode.IsDir() && m.isAbove(r.replaced.Ino, r.from) {
		if flags&RenameExchange != 0 {
			return posix.EINVAL
		}
		return posix.ENOTEMPTY
	}
	return posix.OK
}

// isAbove reports whether dir is n or an ancestor of it in this partition.
func (m *Machine) isAbove(dir posix.Ino, n *inode) bool {
	for ino, parent := n.Ino, n.parent; ; {
		if ino == dir {
			return true
		}
		if parent == ino || parent.Partition() != m.cfg.Partition {
			return false
		}
		up, code := m.inode(parent)
		if code != posix.OK {
			return false
		}
		ino, parent = up.Ino, up.parent
	}
}

// checkTypes refuses to replace a directory by a file, a file by a directory, or a directory that
// holds something.
func (r *renaming) checkTypes(flags uint32) posix.Code {
	exchange := flags&RenameExchange != 0
	toDir := r.replaces && r.replaced.Mode.IsDir()
	if r.replaces && !exchange && r.moved.Ino != r.replaced.Ino {
		switch {
		case r.moved.Mode.IsDir() && !toDir:
			return posix.ENOTDIR
		case !r.moved.Mode.IsDir() && toDir:
			return posix.EISDIR
		case toDir && r.replaced.Size > 0:
			return posix.ENOTEMPTY
		}
	}
	if r.from == r.to || r.moved.Mode.IsDir() == toDir {
		return posix.OK
	}
	if r.moved.Mode.IsDir() && r.to.Nlink >= posix.MaxLinks || exchange && toDir && r.from.Nlink >= posix.MaxLinks {
		return posix.EMLINK
	}
	return posix.OK
}
