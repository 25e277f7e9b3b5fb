package meta

import (
	"strings"

	"github.com/globalfs/globalfs/internal/posix"
)

// mknod makes an inode of any type with its first name, or opens the existing regular file of that name.
func (m *Machine) mknod(c *Command) Result {
	s := m.look(c)
	n, code := s.checkMknod(c)
	switch {
	case code != posix.OK:
		return m.refuse(c, &s, code)
	case s.source.ino != 0:
		return m.open(c, &s.source)
	}
	if at := m.placeFor(c.Ino, c.Name, n.Mode.Type()); at != m.cfg.Partition && m.chosen == 0 {
		return m.makeAt(at, c, &s, &n)
	}
	if n.Ino = m.chosen; n.Ino == 0 {
		n.Ino = m.freshNumber()
	}
	m.enterNew(c, &s, &n, m.cfg.Partition)
	m.storeNew(&n)
	return Result{Attr: n.Attr, Number: uint64(m.cfg.Partition), Dir: c.dirResult(&s)}
}

// dirResult returns the attributes of the directory of c after the change, if the client requests them.
func (c *Command) dirResult(s *scene) posix.Attr {
	if c.Flags&ReturnDir == 0 {
		return posix.Attr{}
	}
	return s.from.Attr
}

// freshNumber returns a number that no inode ever had.
func (m *Machine) freshNumber() posix.Ino {
	m.state.last++
	return posix.MakeIno(m.cfg.Partition, m.state.last)
}

// enterNew adds the name of a new inode to its directory.
func (m *Machine) enterNew(c *Command, s *scene, n *inode, at uint16) {
	dir := &s.from.inode
	m.addEntry(dir, entry{name: c.Name, ino: n.Ino, kind: n.Mode.Type(), at: at})
	dir.modified(c.Time)
	m.save(dir)
}

// storeNew stores a new inode.
func (m *Machine) storeNew(n *inode) {
	m.state.inodes++
	m.save(n)
}

// checkMknod returns the inode that c requests, without its number, or the reason why c is refused. For an
// existing inode of the name, the caller checks whether it may be opened.
func (s *scene) checkMknod(c *Command) (inode, posix.Code) {
	if code := s.from.finds(c, c.Name); code != posix.OK {
		return inode{}, code
	}
	if isDots(c.Name) {
		return inode{}, posix.EEXIST
	}
	n, code := newInode(c, &s.from.inode)
	switch {
	case code != posix.OK:
		return n, code
	case s.source.ino != 0:
		return n, checkOpen(c, &n, &s.source)
	case n.Mode.IsDir() && s.from.Nlink >= posix.MaxLinks:
		return n, posix.EMLINK
	}
	if code := c.enters(&s.from); code != posix.OK {
		return n, code
	}
	return n, c.mayMake(&n.Attr)
}

// newInode returns the inode that c requests, without its number.
func newInode(c *Command, dir *inode) (inode, posix.Code) {
	n := inode{Attr: posix.Attr{
		Mode: c.Mode & (posix.TypeMask | posix.PermMask), Nlink: 1, UID: c.Cred.UID, GID: c.Cred.GID,
		Atime: c.Time, Mtime: c.Time, Ctime: c.Time,
	}}
	if dir.Mode&posix.SetGID != 0 {
		n.GID = dir.GID
	}
	switch c.Mode.Type() {
	case 0:
		n.Mode |= posix.TypeRegular
	case posix.TypeRegular, posix.TypeFIFO, posix.TypeSocket:
	case posix.TypeChar, posix.TypeBlock:
		n.Rdev = c.Rdev
	case posix.TypeDir:
		n.Nlink, n.parent, n.cookie = 2, dir.Ino, firstCookie-1
		n.Mode |= dir.Mode & posix.SetGID
	case posix.TypeSymlink:
		n.Mode = posix.TypeSymlink | 0o777
		n.target, n.Size = string(c.Data), uint64(len(c.Data))
		return n, checkTarget(n.target)
	default:
		return n, posix.EINVAL
	}
	return n, posix.OK
}

func checkTarget(target string) posix.Code {
	switch {
	case target == "":
		return posix.ENOENT
	case len(target) > posix.MaxTarget:
		return posix.ENAMETOOLONG
	case strings.Contains(target, "\x00"):
		return posix.EINVAL
	}
	return posix.OK
}

// checkOpen returns whether a mknod of wanted may open e, which has the name already.
func checkOpen(c *Command, wanted *inode, e *entry) posix.Code {
	switch {
	case c.Flags&Exclusive != 0 || !wanted.Mode.IsRegular():
		return posix.EEXIST
	case e.kind == posix.TypeDir:
		return posix.EISDIR
	case e.kind != posix.TypeRegular:
		return posix.EEXIST
	}
	return posix.OK
}

// open answers a mknod whose name is the existing entry e. The client itself must open, and truncate, a file
// in another partition.
func (m *Machine) open(c *Command, e *entry) Result {
	n := m.see(e.ino, e)
	switch n.code {
	case posix.OK:
	case posix.EREMOTE:
		return Result{Attr: e.attr(), Number: uint64(m.where(e))}
	default:
		return failed(n.code)
	}
	if c.Flags&Truncate != 0 {
		if code := c.may(&n.Attr, posix.Write); code != posix.OK {
			return failed(code)
		}
		m.resize(&n.inode, 0)
		c.takesSetID(&n.inode)
		n.modified(c.Time)
		m.save(&n.inode)
	}
	return Result{Attr: n.Attr, Number: uint64(m.cfg.Partition)}
}
