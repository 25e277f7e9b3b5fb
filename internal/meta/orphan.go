package meta

import (
	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// Orphan is an inode without a name. Clients that hold it open can read and write it until it is reaped. The
// home of the orphan knows these clients. If the orphan lives elsewhere, its home has a record of it, too:
// OpGone informs the home, and the home later answers with OpReleased.
type Orphan struct {
	Ino     posix.Ino
	Counter uint64 // number of the update that removed the last name, or that informed the home
}

// addOrphan records that an inode of this partition has lost its last name.
func (m *Machine) addOrphan(ino posix.Ino, counter uint64) {
	m.recordOrphan(ino, counter)
	if home := ino.Partition(); home != m.cfg.Partition {
		m.post(home, &Command{Op: OpGone, Child: ino, Target: m.cfg.Partition})
	}
}

func (m *Machine) recordOrphan(ino posix.Ino, counter uint64) {
	m.keys.Set(orphanKey(ino), varint.AppendUint(nil, counter))
}

// Orphans returns at most limit orphans with their home in this partition, wherever they live, with numbers
// above after, ascending.
func (m *Machine) Orphans(after posix.Ino, limit int) []Orphan {
	var found []Orphan
	first, end := posix.MakeIno(m.cfg.Partition, 0), posix.MakeIno(m.cfg.Partition, 1<<posix.CounterBits-1)
	if after >= end {
		return nil
	}
	for key, value := range m.keys.Scan(orphanKey(max(first, after+1)), orphanKey(end)) {
		if len(found) == limit {
			break
		}
		found = append(found, decodeOrphan(inoOf(key), value))
	}
	return found
}

// OrphanOf returns the orphan with a number, if it has its home in this partition.
func OrphanOf(m *Machine, ino posix.Ino) (o Orphan, is bool) {
	value := m.keys.Get(orphanKey(ino))
	if value == nil || ino.Partition() != m.cfg.Partition {
		return Orphan{}, false
	}
	return decodeOrphan(ino, value), true
}

func decodeOrphan(ino posix.Ino, value []byte) Orphan {
	r := varint.NewReader(value)
	o := Orphan{ino, r.Uint64()}
	invariant.Check(r.Done() == nil, "stored orphan %d: %v", ino, r.Err())
	return o
}

// Reap removes an orphan and drops its blocks; if it lives in another partition, a post does that there. It
// does nothing if ino is no orphan. Like Apply, all replicas call it at the same place of the order with the
// same time.
func (m *Machine) Reap(ino posix.Ino, now posix.Time) {
	if ino.Partition() != m.cfg.Partition || m.keys.Get(orphanKey(ino)) == nil || m.undecided.concerns(ino) {
		return
	}
	m.now = now
	if at, away := m.forwarding(ino); away {
		m.keys.Delete(orphanKey(ino))
		m.keys.Delete(forwardingKey(ino))
		m.endFileLocks(ino)
		m.post(at, &Command{Op: OpReleased, Child: ino})
		m.saveState()
		return
	}
	n, code := m.inode(ino)
	switch {
	case code != posix.OK:
		m.keys.Delete(orphanKey(ino)) // a second post has recorded it again after the orphan was reaped
	case n.Nlink == 0:
		m.endFileLocks(ino)
		m.destroy(&n)
		m.saveState()
	}
}

// destroy removes an inode without links, and drops its blocks.
func (m *Machine) destroy(n *inode) {
	if n.Mode.IsRegular() {
		m.resize(n, 0)
	}
	m.deleteXattrs(n)
	m.keys.Delete(ruleKey(n.Ino))
	m.keys.Delete(orphanKey(n.Ino))
	m.keys.Delete(inodeKey(n.Ino))
	m.state.inodes--
}
