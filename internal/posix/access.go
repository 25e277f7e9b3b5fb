package posix

// Access is a kind of use of an inode: the bits of one class of a Mode.
type Access uint8

// The bits of an Access.
const (
	Execute Access = 1 << iota // of a directory: look up its names
	Write
	Read
)

// Classes of a Mode, as shifts.
const (
	ownerClass = 6
	groupClass = 3
	otherClass = 0
)

func (m Mode) grants(class int, want Access) bool { return Access(m>>class)&want == want }

// The rules below are those of POSIX for processes without privileges. Two facts are known of a client: the
// users and groups for which its machine may act (Authority), and the user and group that it names in a
// request (Cred). The named ones must be among the former. The rules are about users (May, Owns) where the
// user matters, and about machines (Admits) where a distinction of users does not help.
//
// The supplementary groups of a user are unknown: only the machine's kernel knows them. So the rules treat
// the user as a member or not a member of each group for which the machine may act, whichever gives more.

// As returns the credentials with which a acts for c: root becomes Nobody if a may not act for root. EPERM: a
// may not act for this user, or not for this group.
func (a *Authority) As(c Cred) (Cred, Code) {
	switch {
	case a.Root():
		return c, OK
	case c.UID == 0:
		return Nobody(), OK
	case !a.actsFor(c.UID) || !a.mayBeIn(c.GID):
		return Cred{}, EPERM
	}
	return c, OK
}

// actsFor is like MayUser, but true for Nobody: every machine may act as Nobody, by a request as root.
func (a *Authority) actsFor(uid uint32) bool { return uid == NobodyID || a.MayUser(uid) }

func (a *Authority) mayBeIn(gid uint32) bool { return gid == NobodyID || a.MayGroup(gid) }

// May reports whether c, a user of a, has all rights in want to n.
func (a *Authority) May(c Cred, n *Attr, want Access) bool {
	switch {
	case a.Root():
		return true
	case c.UID == n.UID:
		return n.Mode.grants(ownerClass, want)
	case c.GID == n.GID:
		return n.Mode.grants(groupClass, want)
	}
	return n.Mode.grants(otherClass, want) || a.mayBeIn(n.GID) && n.Mode.grants(groupClass, want)
}

// Admits reports whether any user of a has all rights in want to n, or could have them after
// changing the mode: then the machine may have used them, and given the result to another of its programs.
func (a *Authority) Admits(n *Attr, want Access) bool {
	return a.Root() || a.actsFor(n.UID) || n.Mode.grants(otherClass, want) || a.mayBeIn(n.GID) && n.Mode.grants(groupClass, want)
}

// Owns reports whether c, a user of a, has the rights of the owner of n.
func (a *Authority) Owns(c Cred, n *Attr) bool { return c.UID == n.UID || a.Root() }

// In reports whether c, a user of a, may be in a group.
func (a *Authority) In(c Cred, gid uint32) bool { return c.GID == gid || a.mayBeIn(gid) }

// MayTake reports whether c, a user of a, may remove the name of n from dir. It checks the sticky bit only.
func (a *Authority) MayTake(c Cred, dir, n *Attr) bool {
	return dir.Mode&Sticky == 0 || a.Owns(c, n) || a.Owns(c, dir)
}
