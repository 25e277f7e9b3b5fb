package meta

import (
	"strings"

	"github.com/globalfs/globalfs/internal/posix"
)

// Permissions of a client with an Authority; see "Permissions" in the package comment. Without an Authority,
// all these functions allow everything.

// bind makes c a command of a user for which its client may act. It returns EPERM if there is no such user,
// or if no client with an Authority may send the command. All parties of a command get the same result.
func (c *Command) bind() posix.Code {
	if c.Authority == nil {
		return posix.OK
	}
	switch c.Op {
	case OpSetAttr, OpMknod, OpLink, OpUnlink, OpRmdir, OpRename, OpSetXattr, OpRemoveXattr, OpPlace:
		if c.Op == OpSetAttr && c.setsContent() {
			break
		}
		var code posix.Code
		c.Cred, code = c.Authority.As(c.Cred)
		return code
	case OpWrite, OpFallocate, OpLock, OpTask:
	case OpLookup, OpGetAttr, OpReadlink, OpReadDir, OpGetXattr, OpListXattr, OpExtents, OpStatFS, OpRule, OpTasks, OpGetLock, OpChain:
	default:
		return posix.EPERM // the command concerns more than an inode and its names
	}
	c.Cred = posix.Nobody() // the user does not matter: a kernel writes pages back as nobody
	return posix.OK
}

// may checks that the user of the command has all the permissions want for n.
func (c *Command) may(n *posix.Attr, want posix.Access) posix.Code {
	if c.Authority == nil || c.Authority.May(c.Cred, n, want) {
		return posix.OK
	}
	return posix.EACCES
}

// admits checks that any user of the client's machine has one of the permissions for n.
func (c *Command) admits(n *posix.Attr, oneOf ...posix.Access) posix.Code {
	if c.Authority == nil {
		return posix.OK
	}
	for _, want := range oneOf {
		if c.Authority.Admits(n, want) {
			return posix.OK
		}
	}
	return posix.EACCES
}

// owns checks that the user of the command owns n.
func (c *Command) owns(n *posix.Attr) posix.Code {
	if c.Authority == nil || c.Authority.Owns(c.Cred, n) {
		return posix.OK
	}
	return posix.EPERM
}

// mayRead checks that the content of a file may be read. Permission to execute it is enough: the kernel must
// read a file to execute it.
func (c *Command) mayRead(n *posix.Attr) posix.Code { return c.admits(n, posix.Read, posix.Execute) }

// mayWrite checks that the content of a file may be written.
func (c *Command) mayWrite(n *posix.Attr) posix.Code { return c.admits(n, posix.Write) }

// mayLock checks that a file may be locked, which needs any access to it. The home of an inode that lives
// elsewhere does not know its owner, and permits the lock.
func (m *Machine) mayLock(c *Command) posix.Code {
	if c.Authority == nil || c.Flags&LockUnlock != 0 {
		return posix.OK
	}
	n, code := m.inode(c.Ino)
	if code != posix.OK {
		return posix.OK
	}
	return c.admits(&n.Attr, posix.Read, posix.Write, posix.Execute)
}

// ownsRow reports whether the client may see a directory in a table: the directory is in this partition, and
// one of the client's users owns it.
func (m *Machine) ownsRow(dir posix.Ino, c *Command) bool {
	if c.Authority == nil {
		return true
	}
	n, code := m.inode(dir)
	return code == posix.OK && c.Authority.MayUser(n.UID)
}

const entering = posix.Write | posix.Execute // the permissions to change the names in a directory

// enters checks that the user of the command may change the names in a directory.
func (c *Command) enters(dir *sight) posix.Code { return c.may(&dir.Attr, entering) }

// mayTake checks that the user may remove the name of n from dir.
func (c *Command) mayTake(dir, n *posix.Attr) posix.Code {
	if c.Authority == nil || c.Authority.MayTake(c.Cred, dir, n) {
		return posix.OK
	}
	return posix.EPERM
}

// mayLink refuses a new name for an inode that the user could not change or open otherwise, as Linux does
// with fs.protected_hardlinks. A command names the number of the inode, so the directories on a path do not
// protect it.
func (c *Command) mayLink(n *posix.Attr) posix.Code {
	const groupExec = 0o010
	setID := n.Mode&posix.SetUID != 0 || n.Mode&posix.SetGID != 0 && n.Mode&groupExec != 0
	if c.owns(n) == posix.OK || n.Mode.IsRegular() && !setID && c.may(n, posix.Read|posix.Write) == posix.OK {
		return posix.OK
	}
	return posix.EPERM
}

// mayMake refuses a new device. It clears the set-group-id bit of n if the owner is not in the group.
func (c *Command) mayMake(n *posix.Attr) posix.Code {
	if c.Authority == nil {
		return posix.OK
	}
	switch n.Mode.Type() {
	case posix.TypeBlock:
		return posix.EPERM
	case posix.TypeChar:
		if n.Rdev != 0 { // device 0 is a whiteout, which every user may make
			return posix.EPERM
		}
	}
	if !n.Mode.IsDir() && !c.Authority.In(c.Cred, n.GID) {
		n.Mode &^= posix.SetGID
	}
	return posix.OK
}

// checkMoves checks the permissions that a rename needs in addition to those for both directories. If a
// directory gets another parent, the directory itself is changed.
func (c *Command) checkMoves(s *scene) posix.Code {
	if c.Authority == nil {
		return posix.OK
	}
	for _, x := range []struct{ dir, n *sight }{{&s.from, &s.moved}, {&s.to, &s.replaced}} {
		if x.n.code != posix.OK {
			continue // no inode is replaced
		}
		if code := c.mayTake(&x.dir.Attr, &x.n.Attr); code != posix.OK {
			return code
		}
		stays := c.Ino == c.NewParent || x.n == &s.replaced && c.Flags&RenameExchange == 0
		if x.n.Mode.IsDir() && !stays {
			if code := c.may(&x.n.Attr, posix.Write); code != posix.OK {
				return code
			}
		}
	}
	return posix.OK
}

// Sets of fields of a SetAttr.
const (
	setNow     = SetAtimeNow | SetMtimeNow
	setTimes   = SetAtime | SetMtime | SetCtime
	setContent = SetSize | KillSetID
	setAll     = SetMode | SetUID | SetGID | setContent | setNow | setTimes
)

// setsContent reports whether a SetAttr makes only changes that a write to an open file may cause.
func (c *Command) setsContent() bool {
	with := uint32(0)
	if c.Set&SetSize != 0 {
		with = setNow
	}
	return c.Set&setContent != 0 && c.Set&^(setContent|with) == 0
}

// maySet refuses a SetAttr of n that is not allowed. It removes changes that Linux ignores for users without
// the permission.
func (c *Command) maySet(n *posix.Attr) posix.Code {
	a := c.Authority
	if a == nil || c.Set == 0 {
		return posix.OK
	}
	switch owner := c.owns(n) == posix.OK; {
	case c.Set&^setAll != 0:
		return posix.EINVAL
	case c.Set&(SetMode|SetUID|SetGID|setTimes) != 0 && !owner,
		c.Set&SetUID != 0 && c.Attr.UID != n.UID,
		c.Set&SetGID != 0 && c.Attr.GID != n.GID && !a.In(c.Cred, c.Attr.GID):
		return posix.EPERM
	case c.Set&setContent != 0 && c.mayWrite(n) != posix.OK:
		return posix.EACCES
	case c.Set&setNow != 0 && c.Set&SetSize == 0 && !owner && c.may(n, posix.Write) != posix.OK:
		return posix.EACCES
	}
	group := n.GID
	if c.Set&SetGID != 0 {
		group = c.Attr.GID
	}
	if c.Set&SetMode != 0 && !a.In(c.Cred, group) {
		c.Attr.Mode &^= posix.SetGID
	}
	if c.Set&SetSize != 0 {
		c.Set |= KillSetID
	}
	return posix.OK
}

// takesSetID clears the set-id bits of a file after a change of its content: the owner has set them for the
// program before the change.
func (c *Command) takesSetID(n *inode) {
	if c.Authority != nil {
		n.killSetID()
	}
}

// userXattr is the prefix of the names of xattrs that belong to users.
const userXattr = "user."

// seesXattr reports whether the client may learn that an xattr of this name exists.
func (c *Command) seesXattr(name string) bool {
	return c.Authority == nil || strings.HasPrefix(name, userXattr)
}

// maySetXattr checks a change of an xattr of n. Only files and directories can have xattrs in the namespace
// user.
func (c *Command) maySetXattr(n *posix.Attr) posix.Code {
	switch {
	case c.Authority == nil:
		return posix.OK
	case !c.seesXattr(c.Name), !n.Mode.IsRegular() && !n.Mode.IsDir(),
		n.Mode.IsDir() && n.Mode&posix.Sticky != 0 && c.owns(n) != posix.OK:
		return posix.EPERM
	}
	return c.may(n, posix.Write)
}

// mayGetXattr checks a read of an xattr of n.
func (c *Command) mayGetXattr(n *posix.Attr) posix.Code {
	if !c.seesXattr(c.Name) {
		return posix.ENODATA
	}
	return c.admits(n, posix.Read)
}
