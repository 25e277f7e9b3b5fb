package meta

import (
	"strings"

	"github.com/globalfs/globalfs/internal/posix"
)

// The permissions of a client that has an Authority: see "Permissions" in the package comment. Without an
// Authority all of these functions allow everything.

// bind makes c a command of a user for which its client may speak. EPERM: there is no such user, or no bound
// client may give the command. All parties of a command come to the same.
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
		return posix.EPERM // it is about more than an inode and its names
	}
	c.Cred = posix.Nobody() // the user does not matter: a kernel writes pages back in nobody's name
	return posix.OK
}

// may checks that the user of the command has all of the permissions want for n.
func (c *Command) may(n *posix.Attr, want posix.Access) posix.Code {
	if c.Authority == nil || c.Authority.May(c.Cred, n, want) {
		return posix.OK
	}
	return posix.EACCES
}

// admits checks that somebody of the machine that asks may have one of the accesses to n.
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

// mayWrite is of the content of a file.
func (c *Command) mayWrite(n *posix.Attr) posix.Code { return c.admits(n, posix.Write) }

// mayLock is of a file that is open for something. Locks are at the home of an inode: of one that lives
// elsewhere its owner is not known there, and it may be locked.
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

// ownsRow reports whether the machine that asks may know of a directory in a table: whether it is here and
// one of its users owns it.
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

// mayTake checks that n may lose its name in dir.
func (c *Command) mayTake(dir, n *posix.Attr) posix.Code {
	if c.Authority == nil || c.Authority.MayTake(c.Cred, dir, n) {
		return posix.OK
	}
	return posix.EPERM
}

// mayLink refuses a name for an inode that the user could not have changed or held open anyway, as Linux does
// with fs.protected_hardlinks: a command says the number of an inode, so the directories on a path do not
// protect it.
func (c *Command) mayLink(n *posix.Attr) posix.Code {
	const groupExec = 0o010
	setID := n.Mode&posix.SetUID != 0 || n.Mode&posix.SetGID != 0 && n.Mode&groupExec != 0
	if c.owns(n) == posix.OK || n.Mode.IsRegular() && !setID && c.may(n, posix.Read|posix.Write) == posix.OK {
		return posix.OK
	}
	return posix.EPERM
}

// mayMake refuses to make a device, and takes from n a set-group-id bit for a group in which its owner is
// not.
func (c *Command) mayMake(n *posix.Attr) posix.Code {
	if c.Authority == nil {
		return posix.OK
	}
	switch n.Mode.Type() {
	case posix.TypeBlock:
		return posix.EPERM
	case posix.TypeChar:
		if n.Rdev != 0 { // 0 is a whiteout, which everybody may make
			return posix.EPERM
		}
	}
	if !n.Mode.IsDir() && !c.Authority.In(c.Cred, n.GID) {
		n.Mode &^= posix.SetGID
	}
	return posix.OK
}

// checkMoves checks the permissions that a rename needs beside those for its two directories. A directory
// that gets another parent is changed.
func (c *Command) checkMoves(s *scene) posix.Code {
	if c.Authority == nil {
		return posix.OK
	}
	for _, x := range []struct{ dir, n *sight }{{&s.from, &s.moved}, {&s.to, &s.replaced}} {
		if x.n.code != posix.OK {
			continue // there is none to replace
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

// setsContent reports whether a SetAttr makes only changes that a write to an open file may bring along.
func (c *Command) setsContent() bool {
	with := uint32(0)
	if c.Set&SetSize != 0 {
		with = setNow
	}
	return c.Set&setContent != 0 && c.Set&^(setContent|with) == 0
}

// maySet refuses a SetAttr of n that is not allowed, and takes out of it the changes that have no effect for
// users without the permission to make them.
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

// takesSetID takes the set-id bits from a file after a change of its content: the owner has given the bits to
// the unchanged program.
func (c *Command) takesSetID(n *inode) {
	if c.Authority != nil {
		n.killSetID()
	}
}

// userXattr is the prefix of the names of xattrs that belong to users.
const userXattr = "user."

// seesXattr reports whether there is an xattr of this name, as far as the client is concerned.
func (c *Command) seesXattr(name string) bool {
	return c.Authority == nil || strings.HasPrefix(name, userXattr)
}

// maySetXattr checks a change of an xattr of n. Only files and directories can have some of users.
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

// mayGetXattr checks a look at an xattr of n.
func (c *Command) mayGetXattr(n *posix.Attr) posix.Code {
	if !c.seesXattr(c.Name) {
		return posix.ENODATA
	}
	return c.admits(n, posix.Read)
}
