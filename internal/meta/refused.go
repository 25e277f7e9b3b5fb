package meta

import "github.com/globalfs/globalfs/internal/posix"

// Refused returns the code with which the permissions refuse an update of one partition before it reads
// anything else; OK: its execution decides. A client with an Authority can thus not disturb the holders of
// directories that it must not change: a refused update recalls nothing.
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
	}
	return posix.OK
}

// refusedBy checks an inode. One that is not here refuses nothing.
func refusedBy(m *Machine, ino posix.Ino, may func(*posix.Attr) posix.Code) posix.Code {
	n, code := m.inode(ino)
	if code != posix.OK {
		return posix.OK
	}
	return may(&n.Attr)
}

// mayEnter checks that names in a directory may be changed.
func (c *Command) mayEnter(dir *posix.Attr) posix.Code { return c.may(dir, entering) }
