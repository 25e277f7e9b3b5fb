package meta

import (
	"iter"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/posix"
)

// MaxEntries bounds the entries in the answer to one ReadDir. An answer without entries marks the end of the
// directory.
const MaxEntries = 4096

func (m *Machine) lookup(c *Command) Result {
	dir, code := m.parentOf(c)
	if code != posix.OK {
		return failed(code)
	}
	var e entry
	switch c.Name {
	case ".":
		return Result{Attr: dir.Attr, Number: uint64(m.cfg.Partition)}
	case "..":
		e = entry{ino: dir.parent, kind: posix.TypeDir, at: dir.parent.Partition()}
	default:
		var found bool
		if e, found = m.entry(dir.Ino, c.Name); !found {
			return failed(posix.ENOENT)
		}
	}
	a, at, code := m.attrOf(&e)
	if code != posix.OK {
		return failed(code)
	}
	return Result{Attr: a, Number: uint64(at)}
}

// attrOf returns the attributes of the inode of an entry, as far as they are in this partition, and the
// partition of the inode.
func (m *Machine) attrOf(e *entry) (posix.Attr, uint16, posix.Code) {
	n := m.see(e.ino, e)
	if n.code == posix.EREMOTE || n.code == posix.EHELD {
		return e.attr(), m.where(e), posix.OK
	}
	return n.Attr, n.partition, n.code
}

func (m *Machine) getAttr(c *Command) Result {
	n, code := m.inode(c.Ino)
	return Result{Code: code, Attr: n.Attr}
}

func (m *Machine) readlink(c *Command) Result {
	n, code := m.inode(c.Ino)
	switch {
	case code != posix.OK:
		return failed(code)
	case n.Mode.Type() != posix.TypeSymlink:
		return failed(posix.EINVAL)
	}
	return Result{Data: []byte(n.target)}
}

func (m *Machine) readDir(c *Command) Result {
	dir, code := m.directory(c.Ino)
	if code == posix.OK {
		code = c.mayList(&dir.Attr)
	}
	if code != posix.OK {
		return failed(code)
	}
	r := Result{Number: dir.cookie}
	if c.Offset >= dir.cookie {
		return r
	}
	count := int(min(c.Length, dir.Size, MaxEntries))
	r.Entries = make([]Entry, 0, count)
	for e := range entriesAfter(m, dir.Ino, c.Offset) {
		if len(r.Entries) == count {
			break
		}
		a, at, code := m.attrOf(&e)
		if code != posix.OK {
			return failed(code)
		}
		r.Entries = append(r.Entries, Entry{Name: e.name, Cookie: e.cookie, Attr: a, At: at})
	}
	return r
}

// entriesAfter yields the entries of a directory after a cookie, in the order of their cookies.
func entriesAfter(m *Machine, dir posix.Ino, cookie uint64) iter.Seq[entry] {
	return func(yield func(entry) bool) {
		for key, value := range m.keys.Scan(placeKey(prefixCookie, dir, cookie+1), after(prefixCookie, dir)) {
			e, err := decodeCookie(placeOf(key), value)
			invariant.Check(err == nil, "stored entry %d of %d: %v", placeOf(key), dir, err)
			if !yield(e) {
				return
			}
		}
	}
}
