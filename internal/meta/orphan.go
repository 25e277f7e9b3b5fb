package meta

import (
	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// Orphan is an inode without a name: the clients that hold it open can still read and write it, until it is
// reaped. Its home knows these clients. If the orphan lives elsewhere, its home has a record of it too.
// OpGone tells the home, and OpReleased is the home's answer.
type Orphan struct {
	Ino     posix.Ino
	Counter uint64 // of the update that took the last name, or told of it
}

// addOrphan notes that an inode that is here has lost its last name.
func (m *Machine) addOrphan(ino posix.Ino, counter uint64) {
	m.recordOrphan(ino, counter)
	if home := ino.Partition(); home != m.cfg.Partition {
		m.post(home, &Command{Op: OpGone, Child: ino, Target: m.cfg.Partition})
	}
}

func (m *Machine) recordOrphan(ino posix.Ino, counter uint64) {
	m.keys.Set(orphanKey(ino), varint.AppendUint(nil, counter))
}

// Orphans gives at most limit orphans that have their home here, wherever they live, with numbers above
// after, in their order.
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
		r := varint.NewReader(value)
		o := Orphan{inoOf(key), r.Uint64()}
		invariant.Check(r.Done() == nil, "stored orphan %d: %v", o.Ino, r.Err())
		found = append(found, o)
	}
	return found
}

// Reap lets an orphan go for good: its blocks are dropped, here or by a post where it lives. It does nothing
// if ino is none. Like Apply, every replica must do it at the same place of the order, and with the same
// time.
func (m *Machine) Reap(ino posix.Ino, now posix.Time) {
	if ino.Partition() != m.cfg.Partition || m.keys.Get(orphanKey(ino)) == nil || m.undecided.speaks(ino) {
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
		m.keys.Delete(orphanKey(ino)) // told of twice, the second time after it was reaped
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
