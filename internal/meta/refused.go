package meta

import "github.com/globalfs/globalfs/internal/posix"

// Refused returns the code with which the permissions refuse a query, or an update of one partition, before
// it reads anything else; OK: its execution decides. A client with an Authority can thus not disturb the
// holders of directories that it must not change or read: a refused command recalls nothing.
func Refused(m *Machine, c *Command) posix.Code {
	if c.Authority == nil {
		return posix.OK
	}
	bound := *c
	if code := bound.bind(); code != posix.OK {
		return code
	}
	switch bound.Op {
	case OpMknod, OpUnlink, OpRmdir:
		return refusedBy(m, bound.Ino, bound.mayEnter)
	case OpLink:
		return refusedBy(m, bound.NewParent, bound.mayEnter)
	case OpRename:
		return first(refusedBy(m, bound.Ino, bound.mayEnter), refusedBy(m, bound.NewParent, bound.mayEnter))
	case OpSetAttr:
		return refusedBy(m, bound.Ino, bound.maySet)
	case OpWrite, OpFallocate:
		return refusedBy(m, bound.Ino, bound.mayWrite)
	case OpSetXattr, OpRemoveXattr:
		return refusedBy(m, bound.Ino, bound.maySetXattr)
	case OpPlace:
		return refusedBy(m, bound.Ino, bound.owns)
	case OpLookup:
		return refusedBy(m, bound.Ino, bound.mayFind)
	case OpReadDir:
		return refusedBy(m, bound.Ino, bound.mayList)
	case OpExtents:
		return refusedBy(m, bound.Ino, bound.mayRead)
	case OpGetXattr:
		return refusedBy(m, bound.Ino, bound.mayGetXattr)
	case OpGetLock:
		return m.mayLock(&bound)
	}
	return posix.OK
}

// refusedBy gives may the attributes of an inode, and returns the code of may. If the inode is not in this
// partition, refusedBy refuses nothing.
func refusedBy(m *Machine, ino posix.Ino, may func(*posix.Attr) posix.Code) posix.Code {
	n, code := m.inode(ino)
	if code != posix.OK {
		return posix.OK
	}
	return may(&n.Attr)
}

// mayFind checks that the user may look up a name in a directory. mayList checks that the user may list all
// names of a directory.
func (c *Command) mayFind(dir *posix.Attr) posix.Code { return c.admits(dir, posix.Execute) }
func (c *Command) mayList(dir *posix.Attr) posix.Code { return c.admits(dir, posix.Read) }

// mayEnter checks that names in a directory may be changed.
func (c *Command) mayEnter(dir *posix.Attr) posix.Code { return c.may(dir, entering) }
