package meta

import (
	"bytes"
	"strings"

	"github.com/globalfs/globalfs/internal/posix"
)

// maxXattrNames bounds the bytes of the names that ListXattr returns for one inode, as in Linux.
const maxXattrNames = 64 << 10

// checkXattr reads the inode of an xattr operation and checks the name as Linux does.
func (m *Machine) checkXattr(c *Command) (inode, posix.Code) {
	n, code := m.inode(c.Ino)
	switch {
	case code != posix.OK:
		return n, code
	case c.Name == "" || len(c.Name) > posix.MaxName:
		return n, posix.ERANGE
	case strings.Contains(c.Name, "\x00"):
		return n, posix.EINVAL
	}
	return n, posix.OK
}

func (m *Machine) setXattr(c *Command) Result {
	n, code := m.checkXattr(c)
	if code == posix.OK {
		code = c.maySetXattr(&n.Attr)
	}
	if code != posix.OK {
		return failed(code)
	}
	key := nameKey(prefixXattr, n.Ino, c.Name)
	exists := m.keys.Get(key) != nil
	names := n.names
	if !exists {
		names += uint64(len(c.Name)) + 1
	}
	switch {
	case len(c.Data) > posix.MaxXattr:
		return failed(posix.E2BIG)
	case exists && c.Flags&XattrCreate != 0:
		return failed(posix.EEXIST)
	case !exists && c.Flags&XattrReplace != 0:
		return failed(posix.ENODATA)
	case names > maxXattrNames:
		return failed(posix.ENOSPC)
	}
	m.keys.Set(key, c.Data)
	n.names = names
	n.changed(c.Time)
	m.save(&n)
	return Result{}
}

func (m *Machine) removeXattr(c *Command) Result {
	n, code := m.checkXattr(c)
	if code == posix.OK {
		code = c.maySetXattr(&n.Attr)
	}
	if code != posix.OK {
		return failed(code)
	}
	key := nameKey(prefixXattr, n.Ino, c.Name)
	if m.keys.Get(key) == nil {
		return failed(posix.ENODATA)
	}
	m.keys.Delete(key)
	n.names -= uint64(len(c.Name)) + 1
	n.changed(c.Time)
	m.save(&n)
	return Result{}
}

func (m *Machine) getXattr(c *Command) Result {
	n, code := m.checkXattr(c)
	if code == posix.OK {
		code = c.mayGetXattr(&n.Attr)
	}
	if code != posix.OK {
		return failed(code)
	}
	value := m.keys.Get(nameKey(prefixXattr, n.Ino, c.Name))
	if value == nil {
		return failed(posix.ENODATA)
	}
	return Result{Data: bytes.Clone(value)}
}

func (m *Machine) listXattr(c *Command) Result {
	n, code := m.inode(c.Ino)
	if code != posix.OK || n.names == 0 {
		return failed(code)
	}
	r := Result{Data: make([]byte, 0, n.names)}
	for key := range m.keys.Scan(numberKey(prefixXattr, uint64(n.Ino)), after(prefixXattr, n.Ino)) {
		if c.seesXattr(string(key[9:])) {
			r.Data = append(append(r.Data, key[9:]...), 0)
		}
	}
	return r
}

func (m *Machine) deleteXattrs(n *inode) {
	if n.names == 0 {
		return
	}
	for key := range m.keys.Scan(numberKey(prefixXattr, uint64(n.Ino)), after(prefixXattr, n.Ino)) {
		m.keys.Delete(key)
	}
}
