package meta

import "github.com/globalfs/globalfs/internal/posix"

// way is a part of the way up from a directory: its parents, as far as they are in one partition without a
// gap. The inode of each directory has its parent, so the ways of all partitions together show whether a
// directory is below another one.
type way struct {
	start  posix.Ino
	top    posix.Ino // the last directory of the way in this partition
	next   posix.Ino // its parent, in another partition; 0: top is the root of a partition, which is in no cycle
	passes uint8     // a set of the named directories on the way, the start included
}

const (
	passesMoved uint8 = 1 << iota
	passesReplaced
)

type ways []way

// walk follows the parents of a directory of this partition. It also returns the directories on the way.
func (m *Machine) walk(start, moved, replaced posix.Ino) (w way, walked []posix.Ino) {
	w = way{start: start, top: start, next: start}
	for range m.state.inodes + 1 { // the bound ends the walk even in a cycle, which would violate I3
		n, code := m.inode(w.next)
		if code != posix.OK || !n.Mode.IsDir() {
			return w, walked
		}
		walked = append(walked, n.Ino)
		if n.Ino == moved {
			w.passes |= passesMoved
		}
		if n.Ino == replaced {
			w.passes |= passesReplaced
		}
		w.top, w.next = n.Ino, n.parent
		if isRoot(n.Ino) {
			w.next = 0
			return w, walked
		}
	}
	return w, walked
}

func (w ways) from(ino posix.Ino) *way {
	for i := range w {
		if w[i].start == ino {
			return &w[i]
		}
	}
	return nil
}

// pass reports whether the way up from start passes a directory of the given kind, if that is known.
func (w ways) pass(start posix.Ino, what uint8) (passes, known bool) {
	for range w {
		x := w.from(start)
		switch {
		case x == nil:
			return false, false
		case x.passes&what != 0:
			return true, true
		case x.next == 0:
			return false, true
		}
		start = x.next
	}
	return false, false
}

// below reports whether directory to is a directory of the given kind or below one, given that this directory
// is below from. If both ways meet in a partition, the answer is known without the rest of the ways.
func (w ways) below(to, from posix.Ino, what uint8) (below, known bool) {
	if below, known = w.pass(to, what); known {
		return below, true
	}
	a, b := w.from(from), w.from(to)
	return false, a != nil && b != nil && a.top == b.top && a.next == b.next
}

// chain answers OpChain.
func (m *Machine) chain(c *Command) Result {
	if _, code := m.directory(c.Ino); code != posix.OK {
		return failed(code)
	}
	w, _ := m.walk(c.Ino, 0, 0)
	if w.next == 0 {
		return Result{}
	}
	return Result{Attr: posix.Attr{Ino: w.next, Mode: posix.TypeDir}, Number: uint64(m.likelyPartition(w.next))}
}
