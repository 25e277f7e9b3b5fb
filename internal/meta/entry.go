package meta

import (
	"strings"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// firstCookie leaves cookies 1 and 2 to the caller, for "." and "..".
const firstCookie = 3

// entry is a name in a directory. It is stored under two keys: by name, and by cookie for ReadDir.
type entry struct {
	name   string
	ino    posix.Ino
	kind   posix.Mode // type bits
	cookie uint64
	at     uint16 // partition of the inode when the entry was written; the inode may have moved since
}

// attr returns the attributes that an entry has without its inode.
func (e *entry) attr() posix.Attr { return posix.Attr{Ino: e.ino, Mode: e.kind} }

// foreign reports whether the inode of e is stored in another partition, whatever its home is.
func (m *Machine) foreign(e *entry) bool { return m.keys.Get(inodeKey(e.ino)) == nil }

// where returns the partition of the inode of e, as far as this partition knows.
func (m *Machine) where(e *entry) uint16 {
	if !m.foreign(e) {
		return m.cfg.Partition
	}
	if e.ino.Partition() == m.cfg.Partition {
		return m.likelyPartition(e.ino)
	}
	if e.at != m.cfg.Partition {
		return e.at
	}
	return e.ino.Partition() // the inode was here and has left: ask its home
}

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

// addEntry adds the entry e to dir. The caller saves dir.
func (m *Machine) addEntry(dir *inode, e entry) {
	dir.cookie++
	dir.Size++
	if e.kind == posix.TypeDir {
		dir.Nlink++
	}
	e.cookie = dir.cookie
	m.setEntry(dir.Ino, &e)
}

// replaceEntry makes the entry old of dir name the inode of now; its name and cookie stay.
func (m *Machine) replaceEntry(dir *inode, old, now entry) {
	if old.kind == posix.TypeDir {
		dir.Nlink--
	}
	if now.kind == posix.TypeDir {
		dir.Nlink++
	}
	now.name, now.cookie = old.name, old.cookie
	m.setEntry(dir.Ino, &now)
}

// removeEntry removes an entry from dir. The caller saves dir.
func (m *Machine) removeEntry(dir *inode, e entry) {
	dir.Size--
	if e.kind == posix.TypeDir {
		dir.Nlink--
	}
	m.keys.Delete(nameKey(prefixDirent, dir.Ino, e.name))
	m.keys.Delete(placeKey(prefixCookie, dir.Ino, e.cookie))
}

func (m *Machine) setEntry(dir posix.Ino, e *entry) {
	b := e.common(28)
	m.keys.Set(nameKey(prefixDirent, dir, e.name), varint.AppendUint(b, e.cookie))
	m.keys.Set(placeKey(prefixCookie, dir, e.cookie), append(b, e.name...))
}

// common encodes the fields that both stored values of an entry have, with capacity for room more bytes.
func (e *entry) common(room int) []byte {
	b := make([]byte, 0, room+len(e.name))
	b = varint.AppendUint(b, e.ino)
	b = varint.AppendUint(b, e.kind)
	return varint.AppendUint(b, e.at)
}

func decodeDirent(name string, b []byte) (entry, error) {
	r := varint.NewReader(b)
	e := entry{name: name, ino: posix.Ino(r.Uint64()), kind: posix.Mode(r.Uint32()), at: r.Uint16(), cookie: r.Uint64()}
	return e, r.Done()
}

func decodeCookie(cookie uint64, b []byte) (entry, error) {
	r := varint.NewReader(b)
	e := entry{ino: posix.Ino(r.Uint64()), kind: posix.Mode(r.Uint32()), at: r.Uint16(), name: string(r.Rest()), cookie: cookie}
	return e, r.Err()
}

// checkName refuses names that no entry can have. It accepts "." and "..", whose result depends on the
// operation.
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

// parentOf reads the directory of a lookup and checks the name in it.
func (m *Machine) parentOf(c *Command) (inode, posix.Code) {
	n, code := m.directory(c.Ino)
	if code == posix.OK {
		code = c.mayFind(&n.Attr)
	}
	if code == posix.OK {
		code = checkName(c.Name)
	}
	return n, code
}
