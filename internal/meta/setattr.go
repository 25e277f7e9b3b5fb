package meta

import "github.com/globalfs/globalfs/internal/posix"

// setAttr executes chmod, chown, truncate and utimens, or several of them together.
func (m *Machine) setAttr(c *Command) Result {
	n, code := m.inode(c.Ino)
	if code != posix.OK {
		return failed(code)
	}
	if c.Set == 0 {
		return Result{Attr: n.Attr}
	}
	if code := c.checkSize(&n); code != posix.OK {
		return failed(code)
	}
	if code := c.maySet(&n.Attr); code != posix.OK {
		return failed(code)
	}
	if c.Set&SetSize != 0 {
		m.resize(&n, c.Attr.Size)
		n.Mtime = n.merged(n.Mtime, c.Time)
	}
	n.setOwner(c)
	n.setTimes(c)
	m.save(&n)
	return Result{Attr: n.Attr}
}

// checkSize refuses to set the size of an inode that is not a regular file, and refuses an invalid size.
func (c *Command) checkSize(n *inode) posix.Code {
	switch {
	case c.Set&SetSize == 0:
		return posix.OK
	case n.Mode.IsDir():
		return posix.EISDIR
	case !n.Mode.IsRegular():
		return posix.EINVAL
	case c.Attr.Size > posix.MaxSize:
		return posix.EFBIG
	}
	return posix.OK
}

// setOwner sets mode, owner and group. A new owner or group clears the set-id bits, unless the command also
// sets the mode, which then has the bits to keep.
func (n *inode) setOwner(c *Command) {
	if c.Set&SetUID != 0 {
		n.UID = c.Attr.UID
	}
	if c.Set&SetGID != 0 {
		n.GID = c.Attr.GID
	}
	switch {
	case c.Set&SetMode != 0:
		n.Mode = n.Mode.Type() | c.Attr.Mode.Perm()
		if c.Set&KillSetID != 0 {
			n.killSetID()
		}
	case c.Set&(SetUID|SetGID|KillSetID) != 0:
		n.killSetID()
	}
}

// killSetID clears the set-user-id bit, and the set-group-id bit unless it means mandatory locking.
func (n *inode) killSetID() {
	const groupExec = 0o010
	if n.Mode.IsDir() {
		return
	}
	n.Mode &^= posix.SetUID
	if n.Mode&groupExec != 0 {
		n.Mode &^= posix.SetGID
	}
}

// setTimes sets the times that the command gives. ctime only grows.
func (n *inode) setTimes(c *Command) {
	switch {
	case c.Set&SetAtimeNow != 0:
		n.Atime = n.merged(n.Atime, c.Time)
	case c.Set&SetAtime != 0:
		n.Atime = c.Attr.Atime
	}
	switch {
	case c.Set&SetMtimeNow != 0:
		n.Mtime = n.merged(n.Mtime, c.Time)
	case c.Set&SetMtime != 0:
		n.Mtime = c.Attr.Mtime
	}
	n.changed(c.Time)
	if c.Set&SetCtime != 0 {
		n.changed(c.Attr.Ctime)
	}
}
