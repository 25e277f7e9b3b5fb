package meta

import (
	"strings"

	"github.com/globalfs/globalfs/internal/posix"
)

// mknod makes an inode of any type with its first name, or opens the regular file that has it.
func (m *Machine) mknod(c *Command) Result {
	dir, code := m.parentOf(c.Ino, c.Name)
	if code != posix.OK {
		return failed(code)
	}
	if isDots(c.Name) {
		return failed(posix.EEXIST)
	}
	n, code := newInode(c, &dir)
	if code != posix.OK {
		return failed(code)
	}
	if e, found := m.entry(dir.Ino, c.Name); found {
		return m.open(c, &n, &e)
	}
	if n.Mode.IsDir() && dir.Nlink >= posix.MaxLinks {
		return failed(posix.EMLINK)
	}
	m.state.last++
	m.state.inodes++
	n.Ino = posix.MakeIno(m.cfg.Partition, m.state.last)
	m.addEntry(&dir, c.Name, n.Ino, n.Mode.Type())
	dir.modified(c.Time)
	m.save(&dir)
	m.save(&n)
	return Result{Attr: n.Attr}
}

// newInode is the inode that c asks for, without its number.
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

// open answers a mknod of wanted where e has the name already.
func (m *Machine) open(c *Command, wanted *inode, e *entry) Result {
	switch {
	case c.Flags&Exclusive != 0 || !wanted.Mode.IsRegular():
		return failed(posix.EEXIST)
	case e.kind == posix.TypeDir:
		return failed(posix.EISDIR)
	case e.kind != posix.TypeRegular:
		return failed(posix.EEXIST)
	}
	n, code := m.child(e)
	if code != posix.OK {
		return failed(code)
	}
	if c.Flags&Truncate != 0 {
		m.resize(&n, 0)
		n.modified(c.Time)
		m.save(&n)
	}
	return Result{Attr: n.Attr}
}
