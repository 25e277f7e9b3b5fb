package meta

import (
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/internal/posix"
)

// readNames reads all names, and removes those without their inode (J2).
func (r *reconciler) readNames() error {
	for p, m := range r.machines {
		for key, value := range m.keys.Scan([]byte{prefixDirent}, []byte{prefixDirent + 1}) {
			e, err := decodeDirent(string(key[9:]), value)
			if err != nil {
				return fmt.Errorf("partition %d: entry of %d: %w", p, inoOf(key), err)
			}
			r.noteUsed(e.ino)
			name, n := &naming{entry: e, dir: inoOf(key), partition: uint16(p)}, r.inodes[e.ino]
			switch {
			case n == nil:
				r.unname(name)
				r.note(name, "its %s (inode %d) is in none of the surviving states: the name is removed", noun(e.kind), e.ino)
			case n.Mode.Type() != e.kind:
				r.unname(name)
				r.note(name, "it names %s, and inode %d is %s now: the name is removed", kindName(e.kind), e.ino, kindName(n.Mode.Type()))
			default:
				n.names = append(n.names, name)
			}
		}
	}
	return nil
}

func noun(kind posix.Mode) string {
	if kind == posix.TypeDir {
		return "directory"
	}
	return "file"
}

// unname removes a name.
func (r *reconciler) unname(n *naming) {
	keys := r.machines[n.partition].keys
	keys.Delete(nameKey(prefixDirent, n.dir, n.name))
	keys.Delete(placeKey(prefixCookie, n.dir, n.cookie))
}

// chooseNames removes the names that are out of date (J3, J4).
func (r *reconciler) chooseNames() {
	for _, ino := range r.order {
		n := r.inodes[ino]
		if removed := n.Nlink == 0 && !r.short[n.partition]; n.Mode.IsDir() && !removed {
			r.chooseName(n)
		} else if !r.short[n.partition] {
			r.dropOldNames(n)
		}
	}
}

// chooseName keeps one name of a directory (J3).
func (r *reconciler) chooseName(n *standing) {
	if len(n.names) < 2 {
		return
	}
	rank := func(x *naming) int {
		score := 0
		if x.dir == n.parent {
			score++
		}
		if !r.short[x.partition] {
			score += 2
		}
		if x.dir == n.parent && !r.short[n.partition] {
			score += 4
		}
		return score
	}
	best := n.names[0]
	for _, x := range n.names[1:] {
		if rank(x) > rank(best) {
			best = x
		}
	}
	for _, x := range n.names {
		if x != best {
			r.unname(x)
			r.note(x, "directory %d was moved from here: the name is removed", n.Ino)
		}
	}
	n.names = []*naming{best}
}

// dropOldNames removes names of a file that are out of date (J4).
func (r *reconciler) dropOldNames(n *standing) {
	excess := len(n.names) - int(n.Nlink)
	old := slices.DeleteFunc(slices.Clone(n.names), func(x *naming) bool { return !r.short[x.partition] })
	suspects := old
	if len(old) == 0 {
		suspects = n.names
	}
	switch {
	case excess <= 0:
	case excess < len(suspects) || len(old) == 0:
		for _, x := range suspects {
			r.note(x, "one of %d names of inode %d was removed, and it is not known which one: all stay", len(suspects), n.Ino)
		}
	default:
		n.names = slices.DeleteFunc(n.names, func(x *naming) bool {
			if r.short[x.partition] {
				r.unname(x)
				r.note(x, "inode %d was renamed or removed here: the name is removed", n.Ino)
			}
			return r.short[x.partition]
		})
	}
}

// breakCycles removes a name in each cycle of directories (J3).
func (r *reconciler) breakCycles() {
	for _, ino := range r.order {
		var path []*standing
		n := r.inodes[ino]
		for n != nil && n.Mode.IsDir() && !isRoot(n.Ino) && !n.rooted && len(n.names) > 0 && !slices.Contains(path, n) {
			path = append(path, n)
			n = r.inodes[n.names[0].dir]
		}
		if n != nil && slices.Contains(path, n) {
			r.unname(n.names[0])
			r.note(n.names[0], "directory %d was inside of itself: the name is removed", n.Ino)
			n.names = nil
		}
		for _, p := range path {
			p.rooted = true
		}
	}
}

// nameAll removes the inodes that must have no name, and names those that have lost their names (J5).
func (r *reconciler) nameAll() {
	for _, ino := range r.order {
		n := r.inodes[ino]
		switch {
		case len(n.names) > 0 || isRoot(ino):
		case n.Nlink == 0:
			r.remove(n)
			delete(r.inodes, ino)
		default:
			dir := r.lostAndFound(r.nearestRoot(n.partition))
			name := r.enter(dir, fmt.Sprintf("#%d", ino), n)
			r.note(name, "%s (inode %d) has lost its name, and is here now", kindName(n.Mode.Type()), ino)
		}
	}
	r.order = r.order[:0]
	for ino := range r.inodes {
		r.order = append(r.order, ino)
	}
	slices.Sort(r.order)
}

// nearestRoot returns partition p, or partition 0 if the root of p has no name: only the first shard of a
// region has one.
func (r *reconciler) nearestRoot(p uint16) uint16 {
	if len(r.inodes[posix.MakeIno(p, 1)].names) == 0 {
		return 0
	}
	return p
}

// lostAndFound returns the directory of a partition for inodes that have lost their names.
func (r *reconciler) lostAndFound(p uint16) *standing {
	if dir := r.found[p]; dir != nil {
		return dir
	}
	m, root := r.machines[p], r.inodes[posix.MakeIno(p, 1)]
	name := "lost+found"
	for i := 2; ; i++ {
		e, exists := m.entry(root.Ino, name)
		if !exists {
			break
		}
		if n := r.inodes[e.ino]; n != nil && n.partition == p && n.Mode.IsDir() && n.Nlink > 0 {
			r.found[p] = n
			return n
		}
		name = fmt.Sprintf("lost+found.%d", i)
	}
	m.state.last = max(m.state.last, r.newest[p]) + 1
	dir := &standing{partition: p, inode: inode{
		Attr: posix.Attr{
			Ino: posix.MakeIno(p, m.state.last), Mode: posix.TypeDir | 0o700, Nlink: 2,
			UID: root.UID, GID: root.GID, Atime: r.now, Mtime: r.now, Ctime: r.now,
		},
		parent: root.Ino, cookie: firstCookie - 1,
	}}
	r.inodes[dir.Ino], r.found[p] = dir, dir
	r.enter(root, name, dir)
	return dir
}

// enter gives an inode a name in a directory of the same partition.
func (r *reconciler) enter(dir *standing, name string, n *standing) *naming {
	dir.cookie++
	x := &naming{dir: dir.Ino, partition: dir.partition, entry: entry{name: name, ino: n.Ino, kind: n.Mode.Type(), cookie: dir.cookie, at: n.partition}}
	r.machines[dir.partition].setEntry(dir.Ino, &x.entry)
	n.names = append(n.names, x)
	return x
}
