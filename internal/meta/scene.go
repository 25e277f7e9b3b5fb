package meta

import "github.com/globalfs/globalfs/internal/posix"

// sight is an inode that a command is about. code says why it is not seen; of one that is in another
// partition only the Attr is known.
type sight struct {
	inode
	partition uint16 // where it is
	code      posix.Code
}

// scene has all inodes and entries that a command on names is about. A command in one partition sees the
// scene there; a command over several partitions puts it together from their votes. The checks, and their
// order, are then the same.
type scene struct {
	from, to        sight // the directories of Name and NewName
	source, target  entry // the entries of these names; ino 0: there is none
	moved, replaced sight // the inodes of these; of Link and Move the inode itself is moved
	ways            ways  // up from directories; of Rename
}

// cast is which inodes a command names for the parts of its scene; 0: none, or not said.
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

// look gives the part of the scene of c that is here.
func (m *Machine) look(c *Command) scene {
	var s scene
	k := c.cast()
	s.from, s.source = m.seeName(k.from, c.Name)
	if k.to == k.from && k.to != 0 && c.NewName == c.Name {
		s.to, s.target = s.from, s.source
	} else {
		s.to, s.target = m.seeName(k.to, c.NewName)
		if s.to.code == posix.ESTALE && k.to.Partition() != m.cfg.Partition {
			s.to.code = posix.EREMOTE // the command came here for the other directory
		}
	}
	s.moved = m.see(k.moved, &s.source)
	s.replaced = m.see(k.replaced, &s.target)
	return s
}

// see reads ino, or the inode that e names if ino is not known.
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
		s.code = posix.EIO // I1 is broken, or the store
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

// in reports whether the inode was seen in a partition.
func (s *sight) in(partition uint16) bool { return s.code == posix.OK && s.partition == partition }

// directory checks that s can be the directory of a name.
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

// finds is directory for a command that must be allowed to look the name up.
func (s *sight) finds(c *Command, name string) posix.Code {
	if code := s.directory(name); code != posix.OK {
		return code
	}
	return c.may(&s.Attr, posix.Execute)
}

// refuse answers a command that met something in this partition alone.
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
			return elsewhere(x.ino, m.believed(x.ino))
		}
	}
	for _, w := range s.ways {
		if w.next != 0 {
			return elsewhere(w.next, m.believed(w.next))
		}
	}
	return elsewhere(c.Ino, m.cfg.Partition)
}
