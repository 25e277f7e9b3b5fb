package meta

import (
	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// Orphan is an inode without a name: it can still be read and written by who holds it open,
// until it is reaped.
type Orphan struct {
	Ino     posix.Ino
	Counter uint64 // of the update that took the last name
}

func (m *Machine) addOrphan(ino posix.Ino, counter uint64) {
	m.keys.Set(orphanKey(ino), varint.AppendUint(nil, counter))
}

// Orphans gives at most limit orphans with numbers above after, in their order.
func (m *Machine) Orphans(after posix.Ino, limit int) []Orphan {
	var found []Orphan
	if after+1 == 0 {
		return nil
	}
	for key, value := range m.keys.Scan(orphanKey(after+1), []byte{prefixOrphan + 1}) {
		if len(found) == limit {
			break
		}
		r := varint.NewReader(value)
		o := Orphan{inoOf(key), r.Uint64()}
		invariant.Check(r.Done() == nil, "stored orphan %d: %v", o.Ino, r.Err())
		found = append(found, o)
	}
	return found
}

// Reap removes an orphan for good and drops its blocks; it does nothing if ino is none. Like Apply, every replica
// must do it at the same place of the order.
func (m *Machine) Reap(ino posix.Ino) {
	n, code := m.inode(ino)
	if code != posix.OK || n.Nlink != 0 {
		return
	}
	if n.Mode.IsRegular() {
		m.resize(&n, 0)
	}
	if n.names > 0 {
		for key := range m.keys.Scan(numberKey(prefixXattr, uint64(ino)), after(prefixXattr, ino)) {
			m.keys.Delete(key)
		}
	}
	m.keys.Delete(orphanKey(ino))
	m.keys.Delete(inodeKey(ino))
	m.state.inodes--
	m.saveState()
}
