package meta

import "github.com/globalfs/globalfs/internal/posix"

// alone decides whether this partition can refuse a command of several partitions without the votes of the
// others. It returns the code of the refusal, or OK. bind has been called for c, and s is the scene of this
// partition.
//
//   - If alone refuses, the outcome of the command is a refusal: each check here is also a check of the
//     outcome, and reads state that only this partition has.
//   - EREMOTE means that the client's information about this partition is out of date.
//   - The code is final if the failed check is the first one of the outcome. Otherwise an earlier check may
//     fail with the state of another party, and the outcome has another code.
func (m *Machine) alone(c *Command, s scene) (code posix.Code, final bool) {
	if s.from.code == posix.ESTALE && c.cast().from.Partition() != m.cfg.Partition {
		s.from.code = posix.EREMOTE // only the home knows that an inode does not exist
	}
	for _, n := range []*sight{&s.from, &s.to, &s.moved, &s.replaced} {
		if n.code == posix.EHELD {
			return posix.EHELD, false // the inode is not made yet
		}
	}
	switch code = s.check(c); code {
	case posix.OK:
		return posix.OK, false
	case posix.ESTALE, posix.EIO: // the inode does not exist: the outcome ignores it
		return posix.EREMOTE, false
	case posix.EREMOTE: // the rest of the scene is elsewhere; later checks may read state that is here
	default:
		return code, true
	}
	switch c.Op {
	case OpLink:
		code = first(s.linksTo(c), s.linked(c))
	case OpUnlink, OpRmdir:
		code = first(s.removesFrom(c), s.removed(c))
	case OpRename:
		code = first(s.renamesFrom(c), s.renamesTo(c), s.renamed(c))
	default:
		code = posix.OK
	}
	return code, false
}

// check runs the checks of c up to the first one that reads state of another partition; that is EREMOTE.
func (s *scene) check(c *Command) posix.Code {
	switch c.Op {
	case OpLink:
		return s.checkLink(c)
	case OpUnlink, OpRmdir:
		return s.checkRemove(c)
	case OpRename:
		return s.checkRename(c)
	case OpMove:
		return s.checkMove(c)
	case OpPlace:
		return s.checkPlace(c)
	}
	return posix.EINVAL
}

// first returns the first code that is not OK.
func first(codes ...posix.Code) posix.Code {
	for _, code := range codes {
		if code != posix.OK {
			return code
		}
	}
	return posix.OK
}

// linksTo checks the directory of a link.
func (s *scene) linksTo(c *Command) posix.Code {
	if s.to.code != posix.OK {
		return posix.OK
	}
	code := s.to.finds(c, c.NewName)
	if code == posix.OK && (s.target.ino != 0 || isDots(c.NewName)) {
		code = posix.EEXIST
	}
	return first(code, c.enters(&s.to))
}

// linked checks the inode of a link.
func (s *scene) linked(c *Command) posix.Code {
	if s.moved.code != posix.OK {
		return posix.OK
	}
	return first(s.checkLinks(), c.mayLink(&s.moved.Attr))
}

// removesFrom checks the directory of an unlink or rmdir.
func (s *scene) removesFrom(c *Command) posix.Code {
	if s.from.code != posix.OK {
		return posix.OK
	}
	code := first(s.from.finds(c, c.Name), s.checkTypeToRemove(c), c.enters(&s.from))
	if code == posix.OK && c.Child != s.source.ino {
		code = posix.EREMOTE
	}
	return code
}

// removed checks the inode of an unlink or rmdir.
func (s *scene) removed(c *Command) posix.Code {
	switch {
	case s.moved.code != posix.OK:
		return posix.OK
	case s.moved.Mode.IsDir() != (c.Op == OpRmdir):
		return posix.EREMOTE // the name is not of this inode
	case c.Op == OpRmdir && s.moved.Size > 0:
		return posix.ENOTEMPTY
	}
	return posix.OK
}

// renamesFrom checks the directory that a rename takes a name from.
func (s *scene) renamesFrom(c *Command) posix.Code {
	if s.from.code != posix.OK {
		return posix.OK
	}
	code := s.from.finds(c, c.Name)
	switch {
	case code != posix.OK:
	case isDots(c.Name):
		code = posix.EBUSY
	case s.source.ino == 0:
		code = posix.ENOENT
	case isRoot(s.source.ino):
		code = posix.EBUSY
	case c.Child != s.source.ino:
		code = posix.EREMOTE
	case c.Child != c.NewChild:
		code = c.enters(&s.from)
	}
	return code
}

// renamesTo checks the directory that a rename gives a name to.
func (s *scene) renamesTo(c *Command) posix.Code {
	if s.to.code != posix.OK {
		return posix.OK
	}
	code, replaces := s.to.finds(c, c.NewName), s.target.ino != 0
	switch {
	case code != posix.OK:
	case isDots(c.NewName) && c.Flags&RenameNoReplace == 0:
		code = posix.EBUSY
	case isDots(c.NewName), replaces && c.Flags&RenameNoReplace != 0:
		code = posix.EEXIST
	case !replaces && c.Flags&RenameExchange != 0:
		code = posix.ENOENT
	case isRoot(s.target.ino):
		code = posix.EBUSY
	case c.NewChild != s.target.ino:
		code = posix.EREMOTE
	case c.Child != c.NewChild:
		code = c.enters(&s.to)
	}
	return code
}

// renamed checks the inodes of a rename.
func (s *scene) renamed(c *Command) posix.Code {
	if c.Child == c.NewChild {
		return posix.OK // both names are of one file, and stay, or it is refused for another reason
	}
	code := c.checkMoves(s)
	if code == posix.OK && s.replaced.code == posix.OK && c.Flags&RenameExchange == 0 && s.replaced.Mode.IsDir() && s.replaced.Size > 0 {
		code = posix.ENOTEMPTY
	}
	return code
}
