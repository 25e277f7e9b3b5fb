package meta

import "github.com/globalfs/globalfs/internal/posix"

// rename moves a name, replaces the inode of the new name, or exchanges both.
func (m *Machine) rename(c *Command, counter uint64) Result {
	s := m.look(c)
	if s.needsWays(c) {
		for _, dir := range []posix.Ino{c.Ino, c.NewParent} {
			w, _ := m.walk(dir, s.source.ino, s.target.ino)
			s.ways = append(s.ways, w)
		}
	}
	if code := s.checkRename(c); code != posix.OK {
		return m.refuse(c, &s, code)
	}
	r := m.applyRename(c, &s, s.moved.partition, counter)
	if c.Flags&ReturnDir == 0 || s.sameFile() {
		return r
	}
	r.Dir = s.from.Attr
	if c.Ino != c.NewParent {
		r.Others = append(r.Others, s.to.Attr)
	}
	if s.target.ino != 0 {
		r.Others = append(r.Others, s.replaced.Attr)
	}
	return r
}

// sameFile reports whether both names belong to the same file; then both stay.
func (s *scene) sameFile() bool { return s.target.ino == s.source.ino }

// applyRename executes this partition's part of a rename. at is the partition of the renamed inode
// afterwards.
func (m *Machine) applyRename(c *Command, s *scene, at uint16, counter uint64) Result {
	if s.sameFile() {
		return Result{Attr: s.moved.Attr}
	}
	from, to := &s.from.inode, &s.to.inode
	if c.Ino == c.NewParent {
		to = from
	}
	exchange := c.Flags&RenameExchange != 0
	if s.from.in(m.cfg.Partition) {
		if exchange {
			m.replaceEntry(from, s.source, entry{ino: s.target.ino, kind: s.target.kind, at: s.replaced.partition})
		} else {
			m.removeEntry(from, s.source)
		}
		from.modified(c.Time)
	}
	if s.to.in(m.cfg.Partition) {
		now := entry{name: c.NewName, ino: s.source.ino, kind: s.source.kind, at: at}
		if s.target.ino != 0 {
			m.replaceEntry(to, s.target, now)
		} else {
			m.addEntry(to, now)
		}
		to.modified(c.Time)
		m.save(to)
	}
	if s.from.in(m.cfg.Partition) && from != to {
		m.save(from)
	}
	switch {
	case exchange:
		m.arrive(&s.replaced, from.Ino, c.Time)
	case s.target.ino != 0:
		m.dropLink(&s.replaced, c.Time, counter)
	}
	m.arrive(&s.moved, to.Ino, c.Time)
	return Result{Attr: s.moved.Attr}
}

// arrive gives n a new name in dir, and saves n if it is in this partition.
func (m *Machine) arrive(n *sight, dir posix.Ino, t posix.Time) {
	if n.Mode.IsDir() {
		n.parent = dir
	}
	n.changed(t)
	if n.in(m.cfg.Partition) {
		m.save(&n.inode)
	}
}

// checkRename refuses a rename with the same priorities as Linux.
func (s *scene) checkRename(c *Command) posix.Code {
	const both = RenameExchange | RenameNoReplace
	if c.Flags&both == both {
		return posix.EINVAL
	}
	if code := s.checkDirs(c); code != posix.OK {
		return code
	}
	replaces := s.target.ino != 0
	switch {
	case s.source.ino == 0:
		return posix.ENOENT
	case replaces && c.Flags&RenameNoReplace != 0:
		return posix.EEXIST
	case !replaces && c.Flags&RenameExchange != 0:
		return posix.ENOENT
	case isRoot(s.source.ino) || isRoot(s.target.ino):
		return posix.EBUSY
	}
	if code := s.changesDirs(c); code != posix.OK {
		return code
	}
	switch {
	case c.Child != 0 && (c.Child != s.source.ino || c.NewChild != s.target.ino):
		return posix.EREMOTE
	case s.moved.code != posix.OK:
		return s.moved.code
	case replaces && s.replaced.code != posix.OK:
		return s.replaced.code
	case s.sameFile():
		return posix.OK
	}
	if code := c.checkMoves(s); code != posix.OK {
		return code
	}
	if code := s.checkLoops(c); code != posix.OK {
		return code
	}
	return s.checkTypes(c)
}

// changesDirs checks the permissions for both directories, if the rename changes them.
func (s *scene) changesDirs(c *Command) posix.Code {
	if s.sameFile() {
		return posix.OK
	}
	if code := c.enters(&s.from); code != posix.OK {
		return code
	}
	return c.enters(&s.to)
}

// checkDirs checks the directories of a rename and the names.
func (s *scene) checkDirs(c *Command) posix.Code {
	if code := s.from.finds(c, c.Name); code != posix.OK {
		return code
	}
	code := s.to.finds(c, c.NewName)
	switch {
	case code != posix.OK:
	case isDots(c.Name):
		code = posix.EBUSY
	case isDots(c.NewName) && c.Flags&RenameNoReplace != 0:
		code = posix.EEXIST
	case isDots(c.NewName):
		code = posix.EBUSY
	}
	return code
}

// needsWays reports whether a rename could make a cycle of directories. If so, the parties need the ways from
// both directories to the root.
func (s *scene) needsWays(c *Command) bool {
	return c.Ino != c.NewParent && (s.source.kind == posix.TypeDir || s.target.kind == posix.TypeDir)
}

// checkLoops refuses to move a directory below itself, and to replace a directory by an inode below it. It
// returns EREMOTE if the known ways do not decide this. It need not check a replaced directory above the
// source: such a directory is not empty.
func (s *scene) checkLoops(c *Command) posix.Code {
	if c.Ino == c.NewParent {
		return posix.OK
	}
	if s.source.kind == posix.TypeDir {
		switch below, known := s.ways.below(c.NewParent, c.Ino, passesMoved); {
		case below:
			return posix.EINVAL
		case !known:
			return posix.EREMOTE
		}
	}
	if s.target.kind == posix.TypeDir {
		exchange := c.Flags&RenameExchange != 0
		switch below, known := s.ways.below(c.Ino, c.NewParent, passesReplaced); {
		case below && exchange:
			return posix.EINVAL
		case below:
			return posix.ENOTEMPTY
		case !known && exchange:
			return posix.EREMOTE
		}
	}
	return posix.OK
}

// checkTypes refuses to replace a directory by a file, a file by a directory, or a directory that is not
// empty.
func (s *scene) checkTypes(c *Command) posix.Code {
	exchange := c.Flags&RenameExchange != 0
	isDir, toDir := s.source.kind == posix.TypeDir, s.target.kind == posix.TypeDir
	if s.target.ino != 0 && !exchange {
		switch {
		case isDir && !toDir:
			return posix.ENOTDIR
		case !isDir && toDir:
			return posix.EISDIR
		case toDir && s.replaced.Size > 0:
			return posix.ENOTEMPTY
		}
	}
	if c.Ino == c.NewParent || isDir == toDir {
		return posix.OK
	}
	if isDir && s.to.Nlink >= posix.MaxLinks || exchange && toDir && s.from.Nlink >= posix.MaxLinks {
		return posix.EMLINK
	}
	return posix.OK
}
