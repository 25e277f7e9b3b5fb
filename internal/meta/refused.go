package meta

import "github.com/globalfs/globalfs/internal/posix"

// Refused returns the code with which permissions refuse a query, or an update of one partition, before it
// reads anything else; OK: its execution decides. A refused command recalls nothing, so a client with an
// Authority cannot disturb the holders of directories that it may neither change nor read.
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

// refusedBy returns the result of may for the attributes of an inode. It refuses nothing if the inode is not
// in this partition.
func refusedBy(m *Machine, ino posix.Ino, may func(*posix.Attr) posix.Code) posix.Code {
	n, code := m.inode(ino)
	if code != posix.OK {
		return posix.OK
	}
	return may(&n.Attr)
}

// mayFind checks that the user may look up a name in a directory.
func (c *Command) mayFind(dir *posix.Attr) posix.Code { return c.admits(dir, posix.Execute) }

// mayList checks that the user may list the names in a directory.
func (c *Command) mayList(dir *posix.Attr) posix.Code { return c.admits(dir, posix.Read) }

// mayEnter checks that names in a directory may be changed.
func (c *Command) mayEnter(dir *posix.Attr) posix.Code { return c.may(dir, entering) }
