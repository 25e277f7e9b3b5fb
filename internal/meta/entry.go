package meta

import (
	"strings"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// firstCookie leaves 1 and 2 to who shows "." and "..".
const firstCookie = 3

// entry is a name in a directory. It is stored twice: by name, and by cookie for
// ReadDir.
type entry struct {
	name   string
	ino    posix.Ino
	kind   posix.Mode // type bits
	cookie uint64
}

// attr is all that is known of an entry without its inode.
func (e *entry) attr() posix.Attr { return posix.Attr{Ino: e.ino, Mode: e.kind} }

// foreign reports whether e names an inode of another partition.
func (m *Machine) foreign(e *entry) bool { return e.ino.Partition() != m.cfg.Partition }

// entry finds a name.
func (m *Machine) entry(dir posix.Ino, name string) (entry, bool) {
	b := m.keys.Get(nameKey(prefixDirent, dir, name))
	if b == nil {
		return entry{}, false
	}
	e, err := decodeDirent(name, b)
	invariant.Check(err == nil, "stored entry %q of %d: %v", name, dir, err)
	return e, true
}

// child reads the inode that an entry of this partition names.
func (m *Machine) child(e *entry) (inode, posix.Code) {
	n, code := m.inode(e.ino)
	if code == posix.ESTALE {
		return n, posix.EIO // I1 is broken, or the store
	}
	return n, code
}

// addEntry adds a name to dir, which the caller saves.
func (m *Machine) addEntry(dir *inode, name string, ino posix.Ino, kind posix.Mode) {
	dir.cookie++
	dir.Size++
	if kind == posix.TypeDir {
		dir.Nlink++
	}
	m.setEntry(dir.Ino, entry{name, ino, kind, dir.cookie})
}

// replaceEntry makes the name old of dir name another inode; its cookie stays.
func (m *Machine) replaceEntry(dir *inode, old entry, ino posix.Ino, kind posix.Mode) {
	if old.kind == posix.TypeDir {
		dir.Nlink--
	}
	if kind == posix.TypeDir {
		dir.Nlink++
	}
	m.setEntry(dir.Ino, entry{old.name, ino, kind, old.cookie})
}

// removeEntry removes a name from dir, which the caller saves.
func (m *Machine) removeEntry(dir *inode, e entry) {
	dir.Size--
	if e.kind == posix.TypeDir {
		dir.Nlink--
	}
	m.keys.Delete(nameKey(prefixDirent, dir.Ino, e.name))
	m.keys.Delete(placeKey(prefixCookie, dir.Ino, e.cookie))
}

func (m *Machine) setEntry(dir posix.Ino, e entry) {
	b := make([]byte, 0, 24+len(e.name))
	b = varint.AppendUint(b, e.ino)
	b = varint.AppendUint(b, e.kind)
	n := len(b)
	b = varint.AppendUint(b, e.cookie)
	m.keys.Set(nameKey(prefixDirent, dir, e.name), b)
	m.keys.Set(placeKey(prefixCookie, dir, e.cookie), append(b[:n], e.name...))
}

func decodeDirent(name string, b []byte) (entry, error) {
	r := varint.NewReader(b)
	e := entry{name: name, ino: posix.Ino(r.Uint64()), kind: posix.Mode(r.Uint32()), cookie: r.Uint64()}
	return e, r.Done()
}

func decodeCookie(cookie uint64, b []byte) (entry, error) {
	r := varint.NewReader(b)
	e := entry{ino: posix.Ino(r.Uint64()), kind: posix.Mode(r.Uint32()), name: string(r.Rest()), cookie: cookie}
	return e, r.Err()
}

// checkName refuses what no entry may be called. "." and ".." pass: what they give
// depends on the operation.
func checkName(name string) posix.Code {
	switch {
	case name == "":
		return posix.ENOENT
	case len(name) > posix.MaxName:
		return posix.ENAMETOOLONG
	case strings.ContainsAny(name, "/\x00"):
		return posix.EINVAL
	}
	return posix.OK
}

func isDots(name string) bool { return name == "." || name == ".." }

// parentOf reads the directory of an operation and checks the name in it.
func (m *Machine) parentOf(dir posix.Ino, name string) (inode, posix.Code) {
	n, code := m.directory(dir)
	if code == posix.OK {
		code = checkName(name)
	}
	return n, code
}
