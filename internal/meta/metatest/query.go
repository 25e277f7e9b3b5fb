package metatest

import (
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Query answers the queries with exactly one right result. The results of ReadDir and Extents may differ in
// form, and are compared by their meaning (compare.go).
func (m *Model) Query(c *meta.Command) meta.Result {
	n := m.nodes[c.Ino]
	if n == nil && c.Op != meta.OpStatFS {
		return meta.Result{Code: posix.ESTALE}
	}
	switch c.Op {
	case meta.OpLookup:
		return m.lookup(c)
	case meta.OpGetAttr:
		return meta.Result{Attr: m.stat(c.Ino)}
	case meta.OpReadlink:
		if n.Mode.Type() != posix.TypeSymlink {
			return meta.Result{Code: posix.EINVAL}
		}
		return meta.Result{Data: []byte(n.target)}
	case meta.OpGetXattr:
		value, ok := n.xattrs[c.Name]
		switch code := xattrName(c.Name); {
		case code != posix.OK:
			return meta.Result{Code: code}
		case !ok:
			return meta.Result{Code: posix.ENODATA}
		}
		return meta.Result{Data: []byte(value)}
	case meta.OpListXattr:
		return meta.Result{Data: []byte(listing(n))}
	}
	inodes, bytes := m.usage()
	return meta.Result{Number: inodes, Number2: bytes}
}

func (m *Model) lookup(c *meta.Command) meta.Result {
	dir, code := m.dirAndName(c.Ino, c.Name)
	if code != posix.OK {
		return meta.Result{Code: code}
	}
	ino, ok := dir.names[c.Name]
	switch {
	case c.Name == ".":
		ino = dir.Ino
	case c.Name == "..":
		ino = dir.parent
	case !ok:
		return meta.Result{Code: posix.ENOENT}
	}
	return meta.Result{Attr: m.stat(ino)}
}
