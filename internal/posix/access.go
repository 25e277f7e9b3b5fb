package posix

// Access is what somebody wants to do with an inode: the bits of one class of a Mode.
type Access uint8

// The bits of an Access.
const (
	Execute Access = 1 << iota // of a directory: find what it names
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

// The rules below are those of POSIX for processes without privileges. Two things are known of a client: for
// whom its machine may speak, and as whom it says that it asks now. What it says can only be one of those, so
// the rules are about users (May, Owns) where that matters, and about machines (Admits) where it does not
// help.
//
// Nobody tells which supplementary groups a user is in: the machine's kernel knows. So whoever asks may be in
// each group that the machine may speak for, and not be in it, whichever gives more.

// As gives who c is where a speaks for it: root that has no power becomes Nobody. EPERM: a may not speak for
// this user, or not for this group.
func (a *Authority) As(c Cred) (Cred, Code) {
	switch {
	case a.Root():
		return c, OK
	case c.UID == 0:
		return Nobody(), OK
	case !a.speaksFor(c.UID) || !a.mayBeIn(c.GID):
		return Cred{}, EPERM
	}
	return c, OK
}

// speaksFor is MayUser with Nobody, whom everybody can be: by asking as root.
func (a *Authority) speaksFor(uid uint32) bool { return uid == NobodyID || a.MayUser(uid) }

func (a *Authority) mayBeIn(gid uint32) bool { return gid == NobodyID || a.MayGroup(gid) }

// May reports whether c, for whom a speaks, may do all of want with n.
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

// Admits reports whether anybody for whom a speaks may do all of want with n, or could once he has changed
// its mode: then the machine may have done so, and told another of its programs the result.
func (a *Authority) Admits(n *Attr, want Access) bool {
	return a.Root() || a.speaksFor(n.UID) || n.Mode.grants(otherClass, want) || a.mayBeIn(n.GID) && n.Mode.grants(groupClass, want)
}

// Owns reports whether c, for whom a speaks, may do what only the owner of n may.
func (a *Authority) Owns(c Cred, n *Attr) bool { return c.UID == n.UID || a.Root() }

// In reports whether c, for whom a speaks, may be in a group.
func (a *Authority) In(c Cred, gid uint32) bool { return c.GID == gid || a.mayBeIn(gid) }

// MayTake reports whether c, for whom a speaks, may take the name of n out of dir, as far as the sticky bit
// goes.
func (a *Authority) MayTake(c Cred, dir, n *Attr) bool {
	return dir.Mode&Sticky == 0 || a.Owns(c, n) || a.Owns(c, dir)
}
