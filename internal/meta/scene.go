package meta

import "github.com/globalfs/globalfs/internal/posix"

// sight is an inode that a command concerns, as read in this partition or received in a vote. code is OK,
// or the reason why the inode is not known. Of an inode in another partition, only the attributes in its
// entry are known.
type sight struct {
	inode
	partition uint16 // partition of the inode
	code      posix.Code
}

// scene has all inodes and entries that a command on names concerns. For a command of one partition, look
// reads it from the store. For a command of several partitions, gather composes it from their votes. The
// checks of both are the same, in the same order.
type scene struct {
	from, to        sight // the directories of Name and of NewName
	source, target  entry // the entries of these names; ino 0: there is none
	moved, replaced sight // the inodes of these entries; of Link and Move, moved is the inode itself
	ways            ways  // the ways up from both directories of a Rename
}

// cast has the numbers of the inodes in the scene of a command, as far as the command names them; 0: it names
// none.
type cast struct{ from, to, moved, replaced posix.Ino }

func (c *Command) cast() cast {
	switch c.Op {
	case OpMknod, OpPlace:
		return cast{from: c.Ino}
	case OpLink:
		return cast{to: c.NewParent, moved: c.Ino}
	case OpUnlink, OpRmdir:
		return cast{from: c.Ino, moved: c.Child}
	case OpRename:
		return cast{from: c.Ino, to: c.NewParent, moved: c.Child, replaced: c.NewChild}
	case OpMove:
		return cast{moved: c.Child}
	}
	return cast{}
}

// look returns the part of the scene of c that is in this partition.
func (m *Machine) look(c *Command) scene {
	var s scene
	k := c.cast()
	s.from, s.source = m.seeName(k.from, c.Name)
	if k.to == k.from && k.to != 0 && c.NewName == c.Name {
		s.to, s.target = s.from, s.source
	} else {
		s.to, s.target = m.seeName(k.to, c.NewName)
		if s.to.code == posix.ESTALE && k.to.Partition() != m.cfg.Partition {
			s.to.code = posix.EREMOTE // the command is here because of the other directory
		}
	}
	s.moved = m.see(k.moved, &s.source)
	s.replaced = m.see(k.replaced, &s.target)
	return s
}

// see reads the inode ino or, if that is 0, the inode of entry e.
func (m *Machine) see(ino posix.Ino, e *entry) (s sight) {
	if ino == 0 {
		ino = e.ino
	}
	s.partition = m.cfg.Partition
	if ino == 0 {
		s.code = posix.EREMOTE
		return s
	}
	s.inode, s.code = m.inode(ino)
	switch {
	case s.code != posix.ESTALE:
	case ino.Partition() != m.cfg.Partition || m.cfg.Copy:
		s.code = posix.EREMOTE
	case ino == e.ino:
		s.code = posix.EIO // invariant I1 is violated, or the store has failed
	}
	return s
}

// seeName reads a directory and its entry of a name.
func (m *Machine) seeName(dir posix.Ino, name string) (sight, entry) {
	if dir == 0 {
		return sight{code: posix.EREMOTE}, entry{}
	}
	s := sight{partition: m.cfg.Partition}
	s.inode, s.code = m.inode(dir)
	if s.code != posix.OK || !s.Mode.IsDir() {
		return s, entry{}
	}
	e, _ := m.entry(dir, name)
	return s, e
}

// in reports whether the inode was found in a partition.
func (s *sight) in(partition uint16) bool { return s.code == posix.OK && s.partition == partition }

// directory checks that s is a directory that can have an entry name.
func (s *sight) directory(name string) posix.Code {
	switch {
	case s.code != posix.OK:
		return s.code
	case !s.Mode.IsDir():
		return posix.ENOTDIR
	case s.Nlink == 0:
		return posix.ENOENT
	}
	return checkName(name)
}

// finds makes the checks of directory, and checks that the user may look up the name.
func (s *sight) finds(c *Command, name string) posix.Code {
	if code := s.directory(name); code != posix.OK {
		return code
	}
	return c.may(&s.Attr, posix.Execute)
}

// refuse returns the result of a refused command of one partition.
func (m *Machine) refuse(c *Command, s *scene, code posix.Code) Result {
	if code != posix.EREMOTE {
		return failed(code)
	}
	k := c.cast()
	for _, x := range []struct {
		ino   posix.Ino
		e     *entry
		sight *sight
	}{{k.from, nil, &s.from}, {k.to, nil, &s.to}, {k.moved, &s.source, &s.moved}, {k.replaced, &s.target, &s.replaced}} {
		switch {
		case x.sight.code != posix.EREMOTE:
		case x.e != nil && x.e.ino != 0:
			return elsewhere(x.e.ino, m.where(x.e))
		case x.ino != 0:
			return elsewhere(x.ino, m.likelyPartition(x.ino))
		}
	}
	for _, w := range s.ways {
		if w.next != 0 {
			return elsewhere(w.next, m.likelyPartition(w.next))
		}
	}
	return elsewhere(c.Ino, m.cfg.Partition)
}
