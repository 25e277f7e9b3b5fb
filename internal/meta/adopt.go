package meta

import (
	"fmt"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// A client that gets an existing directory exclusively (package delegation) gets a copy of it: the directory
// with all its names, and the files in it that have no other name.

// Adoptable returns the attributes of a directory that a client may hold, and the files in it that the client
// then holds, in the order of their cookies: those that live in this partition, have their home here, and
// have one name. ok is false if the directory is the root of a partition, has a rule or more than most names,
// or if an undecided command concerns it or one of the files.
func Adoptable(m *Machine, dir posix.Ino, most uint64) (attr posix.Attr, files []posix.Ino, ok bool) {
	n, code := m.directory(dir)
	if code != posix.OK || !NeedsTicket(dir) || dir.Partition() != m.cfg.Partition || n.Size > most ||
		m.keys.Get(ruleKey(dir)) != nil || len(m.undecided.about[dir]) > 0 {
		return attr, nil, false
	}
	for e := range entriesAfter(m, dir, 0) {
		switch {
		case len(m.undecided.about[e.ino]) > 0:
			return attr, nil, false
		case isAdoptable(m, &e):
			files = append(files, e.ino)
		}
	}
	return n.Attr, files, true
}

func isAdoptable(m *Machine, e *entry) bool {
	if e.kind == posix.TypeDir || e.ino.Partition() != m.cfg.Partition {
		return false
	}
	n, code := m.inode(e.ino)
	return code == posix.OK && n.Nlink == 1
}

// Carry answers OpCarry with the files that the grant of the directory covers. A file that has lost its other
// name since the grant is not covered. The client holds the directory, so all replicas that have executed the
// grant have the same state of it.
func Carry(m *Machine, c *Command, covered func(file posix.Ino) bool) Result {
	dir, code := m.directory(c.Ino)
	if code != posix.OK {
		return failed(code)
	}
	var r Result
	if c.Offset == 0 {
		if r.Data = varint.AppendBytes(nil, m.export(&dir)); len(r.Data) == 1 {
			return failed(posix.EFBIG)
		}
	}
	last := c.Offset
	for e := range entriesAfter(m, dir.Ino, c.Offset) {
		if last > c.Offset && uint64(len(r.Data)) >= min(c.Length, MaxScan) {
			r.Number = last
			break
		}
		last = e.cookie
		n, code := m.inode(e.ino)
		if code != posix.OK || !covered(e.ino) {
			continue
		}
		file := m.export(&n)
		if file == nil {
			return failed(posix.EFBIG)
		}
		r.Data = varint.AppendBytes(r.Data, file)
	}
	return r
}

// Adopt replaces a directory and its files in m, which is a copy of a part of the tree, by those in the
// answers to OpCarry. It returns the files in order. After an error, m may contain a part of the answers.
func Adopt(m *Machine, dir posix.Ino, pages [][]byte) (files []posix.Ino, err error) {
	first := true
	for _, page := range pages {
		r := varint.NewReader(page)
		for r.Len() > 0 && r.Err() == nil {
			x, err := decodeExport(r.Bytes())
			switch {
			case err != nil:
				return nil, err
			case first != (x.inode.Ino == dir) || first != x.inode.Mode.IsDir() || len(x.rule) > 0:
				return nil, fmt.Errorf("copy of directory %d: inode %d of type %o is not expected", dir, x.inode.Ino, x.inode.Mode.Type())
			case !first:
				files = append(files, x.inode.Ino)
			}
			first = false
			replace(m, x)
		}
		if r.Err() != nil {
			return nil, fmt.Errorf("copy of directory %d: %w", dir, r.Err())
		}
	}
	if first {
		return nil, fmt.Errorf("copy of directory %d: there is none", dir)
	}
	m.saveState()
	return files, nil
}

// replace stores an inode in a copy of a part of the tree. It first removes what the copy had of the inode,
// with the records of its blocks, which belong to this inode only.
func replace(m *Machine, x *exported) {
	n := x.inode
	if old, code := m.inode(n.Ino); code == posix.OK {
		m.state.inodes--
		m.state.bytes -= old.Bytes
	}
	for _, prefix := range []byte{prefixDirent, prefixCookie, prefixXattr} {
		for key := range m.keys.Scan(numberKey(prefix, uint64(n.Ino)), after(prefix, n.Ino)) {
			m.keys.Delete(key)
		}
	}
	forgetExtents(m, n.Ino)
	m.keys.Delete(orphanKey(n.Ino))
	n.Bytes = 0
	for i := range x.extents {
		e := &x.extents[i]
		m.setExtent(&n, e)
		if e.Data == nil {
			k, _ := m.blockOf(e.Block)
			k.state = blockHeld
			k.number++
			m.setBlock(e.Block, k)
		}
	}
	for i := range x.entries {
		m.setEntry(n.Ino, &x.entries[i])
	}
	for i := range x.xattrs {
		m.keys.Set(nameKey(prefixXattr, n.Ino, x.xattrs[i].name), x.xattrs[i].value)
	}
	m.storeNew(&n)
}

func forgetExtents(m *Machine, ino posix.Ino) {
	for key, value := range m.keys.Scan(numberKey(prefixExtent, uint64(ino)), after(prefixExtent, ino)) {
		if e, err := decodeExtent(placeOf(key), value); err == nil && e.Data == nil {
			m.keys.Delete(blockKey(e.Block))
		}
		m.keys.Delete(key)
	}
}
