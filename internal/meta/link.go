package meta

import "github.com/globalfs/globalfs/internal/posix"

// link gives an inode another name.
func (m *Machine) link(c *Command) Result {
	if c.Ino.Partition() != m.cfg.Partition || c.NewParent.Partition() != m.cfg.Partition {
		return failed(posix.EXDEV)
	}
	n, code := m.inode(c.Ino)
	if code != posix.OK {
		return failed(code)
	}
	dir, code := m.parentOf(c.NewParent, c.NewName)
	if code != posix.OK {
		return failed(code)
	}
	_, exists := m.entry(dir.Ino, c.NewName)
	switch {
	case exists || isDots(c.NewName):
		return failed(posix.EEXIST)
	case n.Mode.IsDir():
		return failed(posix.EPERM)
	case n.Nlink == 0:
		return failed(posix.ENOENT)
	case n.Nlink >= posix.MaxLinks:
		return failed(posix.EMLINK)
	}
	m.addEntry(&dir, c.NewName, n.Ino, n.Mode.Type())
	dir.modified(c.Time)
	n.Nlink++
	n.Ctime = c.Time
	m.save(&dir)
	m.save(&n)
	return Result{Attr: n.Attr}
}

// unlink removes a name of what is not a directory.
func (m *Machine) unlink(c *Command, counter uint64) Result {
	dir, code := m.parentOf(c.Ino, c.Name)
	if code != posix.OK {
		return failed(code)
	}
	e, found := m.entry(dir.Ino, c.Name)
	switch {
	case isDots(c.Name):
		return failed(posix.EISDIR)
	case !found:
		return failed(posix.ENOENT)
	case m.foreign(&e):
		return failed(posix.EBUSY)
	case e.kind == posix.TypeDir:
		return failed(posix.EISDIR)
	}
	n, code := m.child(&e)
	if code != posix.OK {
		return failed(code)
	}
	return m.remove(c, &dir, e, &n, counter)
}

// rmdir removes an empty directory.
func (m *Machine) rmdir(c *Command, counter uint64) Result {
	dir, code := m.parentOf(c.Ino, c.Name)
	if code != posix.OK {
		return failed(code)
	}
	e, found := m.entry(dir.Ino, c.Name)
	switch {
	case c.Name == ".":
		return failed(posix.EINVAL)
	case c.Name == "..":
		return failed(posix.ENOTEMPTY)
	case !found:
		return failed(posix.ENOENT)
	case m.foreign(&e):
		return failed(posix.EBUSY)
	case e.kind != posix.TypeDir:
		return failed(posix.ENOTDIR)
	}
	n, code := m.child(&e)
	if code != posix.OK {
		return failed(code)
	}
	if n.Size > 0 {
		return failed(posix.ENOTEMPTY)
	}
	return m.remove(c, &dir, e, &n, counter)
}

// remove takes the name e of n out of dir.
func (m *Machine) remove(c *Command, dir *inode, e entry, n *inode, counter uint64) Result {
	m.removeEntry(dir, e)
	dir.modified(c.Time)
	m.save(dir)
	m.dropLink(n, c.Time, counter)
	return Result{Attr: n.Attr}
}

// dropLink takes a link from n, all of them from a directory, and saves it. Without
// links it becomes an orphan.
func (m *Machine) dropLink(n *inode, t posix.Time, counter uint64) {
	n.Nlink--
	if n.Mode.IsDir() {
		n.Nlink = 0
	}
	n.Ctime = t
	if n.Nlink == 0 {
		m.addOrphan(n.Ino, counter)
	}
	m.save(n)
}
