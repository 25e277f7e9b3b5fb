package meta

import (
	"slices"

	"github.com/globalfs/globalfs/internal/posix"
)

// ChangeKind is the kind of a Change.
type ChangeKind uint8

// The kinds of changes. Their values are stable: servers send them to clients of other versions.
const (
	// ChangedName: the name Name in the directory Ino was added, removed, or names something else.
	ChangedName ChangeKind = 1 + iota
	// ChangedNames: any names in the directory Ino may have changed.
	ChangedNames
	// ChangedPlace: the inode Ino is not in this partition any more: it was removed, or has moved.
	ChangedPlace
	// ChangedAttr: the attributes of the inode Ino have changed, or it was made here, or has moved here.
	ChangedAttr
	changeKinds
)

// IsKnown reports whether this version defines kind k.
func (k ChangeKind) IsKnown() bool { return k > 0 && k < changeKinds }

// Change is a change of the tree, for clients that cache names and attributes.
type Change struct {
	Kind ChangeKind
	Ino  posix.Ino
	Name string
}

// maxNoted bounds the changes that a Machine keeps until they are taken.
const maxNoted = 1 << 12

// recorder is the store of a Machine. It records the changes of the tree that commands make: it finds them by
// the keys of names and inodes that are written.
type recorder struct {
	Keys
	changes  []Change
	overflow bool        // there were more than maxNoted changes
	released []posix.Ino // inodes on which locks have ended
	orphaned []posix.Ino // inodes that have become orphans
	forgot   bool        // there were more than maxNoted orphaned
}

// Set implements Keys.
func (n *recorder) Set(key, value []byte) {
	n.noteKey(key, false)
	n.Keys.Set(key, value)
}

// Delete implements Keys.
func (n *recorder) Delete(key []byte) {
	n.noteKey(key, true)
	n.Keys.Delete(key)
}

func (n *recorder) noteKey(key []byte, deleted bool) {
	const number = 9 // the length of the prefix and an inode
	switch {
	case len(key) < number:
	case key[0] == prefixDirent:
		n.note(Change{Kind: ChangedName, Ino: inoOf(key), Name: string(key[number:])})
	case key[0] == prefixInode && deleted:
		n.note(Change{Kind: ChangedPlace, Ino: inoOf(key)})
	case key[0] == prefixInode:
		n.noteAttr(inoOf(key))
	case key[0] == prefixLock && deleted && key[1] == lockByIno:
		n.noteReleased(inoOf(key[1:]))
	case key[0] == prefixOrphan && !deleted:
		n.noteOrphaned(inoOf(key))
	}
}

// noteOrphaned records that an inode has become an orphan.
func (n *recorder) noteOrphaned(ino posix.Ino) {
	if len(n.orphaned) >= maxNoted {
		n.orphaned, n.forgot = nil, true
	}
	if !n.forgot {
		n.orphaned = append(n.orphaned, ino)
	}
}

// TakeOrphaned returns the inodes of m that have become orphans since the last call. all means that there
// were too many, so any inode may have.
func TakeOrphaned(m *Machine) (orphaned []posix.Ino, all bool) {
	orphaned, all = m.noted.orphaned, m.noted.forgot
	m.noted.orphaned, m.noted.forgot = nil, false
	return orphaned, all
}

// noteReleased records that a lock on an inode has ended. Beyond maxNoted inodes it does not, and waiting
// clients learn of the end when their queries expire.
func (n *recorder) noteReleased(ino posix.Ino) {
	if len(n.released) < maxNoted && !slices.Contains(n.released[max(0, len(n.released)-8):], ino) {
		n.released = append(n.released, ino)
	}
}

// TakeReleased returns the inodes of m on which locks have ended since the last call. An inode may appear
// more than once.
func TakeReleased(m *Machine) (released []posix.Ino) {
	released, m.noted.released = m.noted.released, nil
	return released
}

// noteAttr records new attributes of an inode, unless that is also the last change: a command may save an
// inode several times.
func (n *recorder) noteAttr(ino posix.Ino) {
	c := Change{Kind: ChangedAttr, Ino: ino}
	if last := len(n.changes) - 1; last < 0 || n.changes[last] != c {
		n.note(c)
	}
}

func (n *recorder) note(c Change) {
	if len(n.changes) >= maxNoted {
		n.changes, n.overflow = nil, true
	}
	if !n.overflow {
		n.changes = append(n.changes, c)
	}
}

// TakeChanges returns the changes in m since the last call. all means that there were too many, so anything
// may have changed.
func TakeChanges(m *Machine) (changes []Change, all bool) {
	changes, all = m.noted.changes, m.noted.overflow
	m.noted.changes, m.noted.overflow = nil, false
	return changes, all
}

// maxWay bounds the number of directories that MayList checks above a directory.
const maxWay = 256

// MayList reports whether a client with an authority may read the names of a directory in m, and may search
// all directories above it, as far as they are in this partition. A nil authority permits everything. ways
// caches the answers for the directories above; it is valid for one authority and one state.
func MayList(m *Machine, authority *posix.Authority, dir posix.Ino, ways map[posix.Ino]bool) (may bool) {
	if authority == nil {
		return true
	}
	n, code := m.inode(dir)
	if code != posix.OK || !authority.Admits(&n.Attr, posix.Read) {
		return false
	}
	var passed []posix.Ino
	defer func() {
		for _, above := range passed {
			ways[above] = may
		}
	}()
	for range maxWay {
		above := n.parent
		if above == n.Ino {
			return true
		}
		if known, ok := ways[above]; ok {
			return known
		}
		passed = append(passed, above)
		if n, code = m.inode(above); code != posix.OK {
			return true // it is in another partition
		}
		if !authority.Admits(&n.Attr, posix.Execute) {
			return false
		}
	}
	return false
}
