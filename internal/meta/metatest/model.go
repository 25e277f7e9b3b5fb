package metatest

import (
	"maps"
	"slices"
	"strings"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Model is a partition in maps.
type Model struct {
	partition uint16
	newest    uint64
	nodes     map[posix.Ino]*node
	blocks    map[posix.BlockID][]byte // the content of the block store
	named     map[posix.BlockID]bool   // the blocks that a write has named
	lost      map[posix.Ino]uint64     // the orphans, with the number of the update that removed the last name
}

// node is an inode with all that it holds. The size of files and directories is computed.
type node struct {
	posix.Attr
	data    []byte // of a file
	written []bool // which bytes of data were written: the others are holes
	names   map[string]posix.Ino
	parent  posix.Ino
	target  string
	xattrs  map[string]string
}

// NewModel returns the model of a new partition.
func NewModel(cfg meta.Config, blocks map[posix.BlockID][]byte) *Model {
	m := &Model{partition: cfg.Partition, newest: 1, nodes: map[posix.Ino]*node{}, blocks: blocks, named: map[posix.BlockID]bool{}, lost: map[posix.Ino]uint64{}}
	root := m.addRoot(posix.MakeIno(cfg.Partition, 1), cfg.Time)
	for _, b := range cfg.Genesis {
		root.names[b.Name] = b.Ino
	}
	return m
}

// addRoot adds the root directory of a partition.
func (m *Model) addRoot(ino posix.Ino, t posix.Time) *node {
	root := &node{names: map[string]posix.Ino{}, xattrs: map[string]string{}, parent: posix.Root}
	root.Ino, root.Mode = ino, posix.TypeDir|0o755
	root.Atime, root.Mtime, root.Ctime = t, t, t
	m.nodes[ino] = root
	return root
}

// stat computes the result of stat. It counts the links in all directories.
func (m *Model) stat(ino posix.Ino) posix.Attr {
	n := m.nodes[ino]
	if n == nil {
		return posix.Attr{Ino: ino, Mode: posix.TypeDir} // an inode of another partition
	}
	a := n.Attr
	switch n.Mode.Type() {
	case posix.TypeDir:
		a.Size = uint64(len(n.names))
		if m.alive(n) {
			a.Nlink = 2
			for _, child := range n.names {
				if m.isDir(child) {
					a.Nlink++
				}
			}
		}
		return a
	case posix.TypeSymlink:
		a.Size = uint64(len(n.target))
	case posix.TypeRegular:
		a.Size = uint64(len(n.data))
		for _, w := range n.written {
			if w {
				a.Bytes++
			}
		}
	}
	for _, dir := range m.nodes {
		for _, child := range dir.names {
			if child == ino {
				a.Nlink++
			}
		}
	}
	return a
}

func (m *Model) isDir(ino posix.Ino) bool {
	n := m.nodes[ino]
	return n == nil || n.Mode.IsDir()
}

// alive reports whether n has a name, or is the root.
func (m *Model) alive(n *node) bool {
	_, orphan := m.lost[n.Ino]
	return !orphan
}

func (m *Model) dir(ino posix.Ino) (*node, posix.Code) {
	n := m.nodes[ino]
	switch {
	case n == nil:
		return nil, posix.ESTALE
	case !n.Mode.IsDir():
		return nil, posix.ENOTDIR
	case !m.alive(n):
		return nil, posix.ENOENT
	}
	return n, posix.OK
}

// dirAndName makes the checks with which every operation on a name begins, and returns the directory.
func (m *Model) dirAndName(ino posix.Ino, name string) (*node, posix.Code) {
	n, code := m.dir(ino)
	switch {
	case code != posix.OK:
	case name == "":
		code = posix.ENOENT
	case len(name) > 255:
		code = posix.ENAMETOOLONG
	case strings.Contains(name, "/") || strings.Contains(name, "\x00"):
		code = posix.EINVAL
	}
	return n, code
}

// forget removes a name. An inode without another name becomes an orphan.
func (m *Model) forget(dir *node, name string, c *meta.Command, counter uint64) {
	ino := dir.names[name]
	delete(dir.names, name)
	n := m.nodes[ino]
	n.change(c.Time)
	if n.Mode.IsDir() || m.stat(ino).Nlink == 0 {
		m.lost[ino] = counter
	}
}

// implied returns the time that a change at t sets: t, unless n was changed later. In that case the time must
// not decrease.
func (n *node) implied(old, t posix.Time) posix.Time {
	if t < n.Ctime {
		return max(old, t)
	}
	return t
}

// change sets ctime, which never decreases.
func (n *node) change(t posix.Time) { n.Ctime = max(n.Ctime, t) }

func touch(n *node, t posix.Time) {
	n.Mtime = n.implied(n.Mtime, t)
	n.change(t)
}

// Apply executes an update.
func (m *Model) Apply(c *meta.Command, counter uint64) meta.Result {
	var code posix.Code
	var r meta.Result
	about := c.Ino
	switch c.Op {
	case meta.OpMknod:
		about, code = m.mknod(c)
	case meta.OpLink:
		code = m.link(c)
	case meta.OpUnlink, meta.OpRmdir:
		about, code = m.remove(c, counter)
	case meta.OpRename:
		about, code = m.rename(c, counter)
	case meta.OpSetAttr:
		code = m.setAttr(c)
	case meta.OpWrite:
		r.Number, code = m.write(c)
	case meta.OpFallocate:
		code = m.fallocate(c)
	case meta.OpSetXattr, meta.OpRemoveXattr:
		return meta.Result{Code: m.xattr(c)}
	}
	if code != posix.OK {
		return meta.Result{Code: code}
	}
	r.Attr = m.stat(about)
	return r
}

// try returns the code that Apply would return, and changes nothing.
func (m *Model) try(c *meta.Command) posix.Code {
	other := *m
	other.nodes, other.named, other.lost = map[posix.Ino]*node{}, maps.Clone(m.named), maps.Clone(m.lost)
	for ino, n := range m.nodes {
		copied := *n
		copied.data, copied.written = slices.Clone(n.data), slices.Clone(n.written)
		copied.names, copied.xattrs = maps.Clone(n.names), maps.Clone(n.xattrs)
		other.nodes[ino] = &copied
	}
	return other.Apply(c, 0).Code
}

func (m *Model) mknod(c *meta.Command) (posix.Ino, posix.Code) {
	dir, code := m.dirAndName(c.Ino, c.Name)
	if code != posix.OK {
		return 0, code
	}
	kind := c.Mode.Type()
	if kind == 0 {
		kind = posix.TypeRegular
	}
	if c.Name == "." || c.Name == ".." {
		return 0, posix.EEXIST
	}
	if kind == posix.TypeSymlink {
		switch target := string(c.Data); {
		case target == "":
			return 0, posix.ENOENT
		case len(target) > 4095:
			return 0, posix.ENAMETOOLONG
		case strings.Contains(target, "\x00"):
			return 0, posix.EINVAL
		}
	}
	if old, ok := dir.names[c.Name]; ok {
		switch {
		case kind != posix.TypeRegular || c.Flags&meta.Exclusive != 0:
			return 0, posix.EEXIST
		case m.isDir(old):
			return 0, posix.EISDIR
		case !m.nodes[old].Mode.IsRegular():
			return 0, posix.EEXIST
		}
		if c.Flags&meta.Truncate != 0 {
			n := m.nodes[old]
			n.data, n.written = nil, nil
			touch(n, c.Time)
		}
		return old, posix.OK
	}
	n := &node{xattrs: map[string]string{}}
	n.Mode, n.UID, n.GID = kind|c.Mode.Perm(), c.Cred.UID, c.Cred.GID
	n.Atime, n.Mtime, n.Ctime = c.Time, c.Time, c.Time
	if dir.Mode&posix.SetGID != 0 {
		n.GID = dir.GID
	}
	switch kind {
	case posix.TypeDir:
		n.names, n.parent = map[string]posix.Ino{}, dir.Ino
		if dir.Mode&posix.SetGID != 0 {
			n.Mode |= posix.SetGID
		}
	case posix.TypeSymlink:
		n.Mode, n.target = posix.TypeSymlink|0o777, string(c.Data)
	case posix.TypeChar, posix.TypeBlock:
		n.Rdev = c.Rdev
	}
	m.newest++
	n.Ino = posix.MakeIno(m.partition, m.newest)
	m.nodes[n.Ino] = n
	dir.names[c.Name] = n.Ino
	touch(dir, c.Time)
	return n.Ino, posix.OK
}

func (m *Model) link(c *meta.Command) posix.Code {
	n := m.nodes[c.Ino]
	if n == nil {
		return posix.ESTALE
	}
	dir, code := m.dirAndName(c.NewParent, c.NewName)
	if code != posix.OK {
		return code
	}
	_, exists := dir.names[c.NewName]
	switch {
	case exists, c.NewName == ".", c.NewName == "..":
		return posix.EEXIST
	case n.Mode.IsDir():
		return posix.EPERM
	case !m.alive(n):
		return posix.ENOENT
	}
	dir.names[c.NewName] = n.Ino
	n.change(c.Time)
	touch(dir, c.Time)
	return posix.OK
}

// remove executes unlink and rmdir.
func (m *Model) remove(c *meta.Command, counter uint64) (posix.Ino, posix.Code) {
	dir, code := m.dirAndName(c.Ino, c.Name)
	if code != posix.OK {
		return 0, code
	}
	rmdir := c.Op == meta.OpRmdir
	ino, ok := dir.names[c.Name]
	switch {
	case !rmdir && (c.Name == "." || c.Name == ".."):
		return 0, posix.EISDIR
	case c.Name == ".":
		return 0, posix.EINVAL
	case c.Name == "..":
		return 0, posix.ENOTEMPTY
	case !ok:
		return 0, posix.ENOENT
	case isRoot(ino):
		return 0, posix.EBUSY
	case !rmdir && m.isDir(ino):
		return 0, posix.EISDIR
	case rmdir && !m.isDir(ino):
		return 0, posix.ENOTDIR
	case rmdir && len(m.nodes[ino].names) > 0:
		return 0, posix.ENOTEMPTY
	}
	m.forget(dir, c.Name, c, counter)
	touch(dir, c.Time)
	return ino, posix.OK
}

// isRoot reports whether ino is the root directory of a partition.
func isRoot(ino posix.Ino) bool { return ino.Counter() == 1 }

// inside reports whether dir is ino or below it.
func (m *Model) inside(dir *node, ino posix.Ino) bool {
	for dir.Ino != ino && !isRoot(dir.Ino) {
		dir = m.nodes[dir.parent]
	}
	return dir.Ino == ino
}

func (m *Model) rename(c *meta.Command, counter uint64) (posix.Ino, posix.Code) {
	noReplace, exchange := c.Flags&meta.RenameNoReplace != 0, c.Flags&meta.RenameExchange != 0
	if noReplace && exchange {
		return 0, posix.EINVAL
	}
	from, code := m.dirAndName(c.Ino, c.Name)
	if code != posix.OK {
		return 0, code
	}
	to, code := m.dirAndName(c.NewParent, c.NewName)
	if code != posix.OK {
		return 0, code
	}
	source, found := from.names[c.Name]
	target, exists := to.names[c.NewName]
	switch {
	case c.Name == "." || c.Name == "..":
		return 0, posix.EBUSY
	case c.NewName == "." || c.NewName == "..":
		if noReplace {
			return 0, posix.EEXIST
		}
		return 0, posix.EBUSY
	case !found:
		return 0, posix.ENOENT
	case exists && noReplace:
		return 0, posix.EEXIST
	case !exists && exchange:
		return 0, posix.ENOENT
	case isRoot(source), exists && isRoot(target):
		return 0, posix.EBUSY
	case from != to && m.isDir(source) && m.inside(to, source):
		return 0, posix.EINVAL
	case from != to && exists && m.isDir(target) && m.inside(from, target):
		if exchange {
			return 0, posix.EINVAL
		}
		return 0, posix.ENOTEMPTY
	case exists && source == target:
		return source, posix.OK
	}
	moved := m.nodes[source]
	switch {
	case exchange:
		other := m.nodes[target]
		from.names[c.Name], to.names[c.NewName] = target, source
		other.parent = from.Ino
		other.change(c.Time)
	case exists && moved.Mode.IsDir() && !m.isDir(target):
		return 0, posix.ENOTDIR
	case exists && !moved.Mode.IsDir() && m.isDir(target):
		return 0, posix.EISDIR
	case exists && m.isDir(target) && len(m.nodes[target].names) > 0:
		return 0, posix.ENOTEMPTY
	default:
		if exists {
			m.forget(to, c.NewName, c, counter)
		}
		delete(from.names, c.Name)
		to.names[c.NewName] = source
	}
	moved.parent = to.Ino
	moved.change(c.Time)
	touch(from, c.Time)
	touch(to, c.Time)
	return source, posix.OK
}

// Reap removes an orphan.
func (m *Model) Reap(ino posix.Ino) {
	if _, ok := m.lost[ino]; ok {
		delete(m.lost, ino)
		delete(m.nodes, ino)
	}
}

// Orphans returns the orphans in the order of their numbers.
func (m *Model) Orphans() []meta.Orphan {
	var all []meta.Orphan
	for _, ino := range slices.Sorted(maps.Keys(m.lost)) {
		all = append(all, meta.Orphan{Ino: ino, Counter: m.lost[ino]})
	}
	return all
}

// usage returns the result of statfs.
func (m *Model) usage() (inodes, bytes uint64) {
	for ino := range m.nodes {
		bytes += m.stat(ino).Bytes
	}
	return uint64(len(m.nodes)), bytes
}
