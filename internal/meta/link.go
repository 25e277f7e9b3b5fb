package meta

import "github.com/globalfs/globalfs/internal/posix"

// link gives an inode another name.
func (m *Machine) link(c *Command) Result {
	s := m.look(c)
	if code := s.checkLink(c); code != posix.OK {
		return m.refuse(c, &s, code)
	}
	r := m.applyLink(c, &s)
	if c.Flags&ReturnDir != 0 {
		r.Dir = s.to.Attr
	}
	return r
}

func (s *scene) checkLink(c *Command) posix.Code {
	if s.moved.code != posix.OK {
		return s.moved.code
	}
	if code := s.to.finds(c, c.NewName); code != posix.OK {
		return code
	}
	if s.target.ino != 0 || isDots(c.NewName) {
		return posix.EEXIST
	}
	return first(s.checkLinks(), c.enters(&s.to), c.mayLink(&s.moved.Attr))
}

// checkLinks checks that the inode of a link may get one more name.
func (s *scene) checkLinks() posix.Code {
	switch {
	case s.moved.Mode.IsDir():
		return posix.EPERM
	case s.moved.Nlink == 0:
		return posix.ENOENT
	case s.moved.Nlink >= posix.MaxLinks:
		return posix.EMLINK
	}
	return posix.OK
}

func (m *Machine) applyLink(c *Command, s *scene) Result {
	dir, n := &s.to.inode, &s.moved.inode
	if s.to.in(m.cfg.Partition) {
		m.addEntry(dir, entry{name: c.NewName, ino: n.Ino, kind: n.Mode.Type(), at: s.moved.partition})
		dir.modified(c.Time)
		m.save(dir)
	}
	n.Nlink++
	n.changed(c.Time)
	if s.moved.in(m.cfg.Partition) {
		m.save(n)
	}
	return Result{Attr: n.Attr}
}

// remove is unlink, which removes a name of an inode that is not a directory, and rmdir, which removes an
// empty directory.
func (m *Machine) remove(c *Command, counter uint64) Result {
	s := m.look(c)
	if code := s.checkRemove(c); code != posix.OK {
		return m.refuse(c, &s, code)
	}
	r := m.applyRemove(c, &s, counter)
	r.Dir = c.dirResult(&s)
	return r
}

func (s *scene) checkRemove(c *Command) posix.Code {
	if code := s.from.finds(c, c.Name); code != posix.OK {
		return code
	}
	if code := s.checkTypeToRemove(c); code != posix.OK {
		return code
	}
	if code := c.enters(&s.from); code != posix.OK {
		return code
	}
	switch {
	case c.Child != 0 && c.Child != s.source.ino:
		return posix.EREMOTE
	case s.moved.code != posix.OK:
		return s.moved.code
	}
	if code := c.mayTake(&s.from.Attr, &s.moved.Attr); code != posix.OK {
		return code
	}
	if c.Op == OpRmdir && s.moved.Size > 0 {
		return posix.ENOTEMPTY
	}
	return posix.OK
}

// checkTypeToRemove checks that the operation can remove an inode of this type.
func (s *scene) checkTypeToRemove(c *Command) posix.Code {
	unlink, isDir := c.Op == OpUnlink, s.source.kind == posix.TypeDir
	switch {
	case unlink && isDots(c.Name):
		return posix.EISDIR
	case c.Name == ".":
		return posix.EINVAL
	case c.Name == "..":
		return posix.ENOTEMPTY
	case s.source.ino == 0:
		return posix.ENOENT
	case isRoot(s.source.ino):
		return posix.EBUSY
	case unlink && isDir:
		return posix.EISDIR
	case !unlink && !isDir:
		return posix.ENOTDIR
	}
	return posix.OK
}

// applyRemove removes the name from its directory, and a link from the inode.
func (m *Machine) applyRemove(c *Command, s *scene, counter uint64) Result {
	if dir := &s.from.inode; s.from.in(m.cfg.Partition) {
		m.removeEntry(dir, s.source)
		dir.modified(c.Time)
		m.save(dir)
	}
	m.dropLink(&s.moved, c.Time, counter)
	return Result{Attr: s.moved.Attr}
}

// dropLink removes a link from n; all links if n is a directory. It saves n if n is in this partition. An
// inode without links becomes an orphan.
func (m *Machine) dropLink(n *sight, t posix.Time, counter uint64) {
	n.Nlink--
	if n.Mode.IsDir() {
		n.Nlink = 0
	}
	n.changed(t)
	if !n.in(m.cfg.Partition) {
		return
	}
	if n.Nlink == 0 {
		m.addOrphan(n.Ino, counter)
	}
	m.save(&n.inode)
}
