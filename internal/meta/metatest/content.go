package metatest

import (
	"maps"
	"slices"
	"strings"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

func (m *Model) file(ino posix.Ino) (*node, posix.Code) {
	n := m.nodes[ino]
	switch {
	case n == nil:
		return nil, posix.ESTALE
	case n.Mode.IsDir():
		return nil, posix.EISDIR
	case !n.Mode.IsRegular():
		return nil, posix.EINVAL
	}
	return n, posix.OK
}

func (n *node) resize(size int) {
	for len(n.data) < size {
		n.data, n.written = append(n.data, 0), append(n.written, false)
	}
	n.data, n.written = n.data[:size], n.written[:size]
}

func (m *Model) setAttr(c *meta.Command) posix.Code {
	n := m.nodes[c.Ino]
	if n == nil {
		return posix.ESTALE
	}
	set := func(bit uint32) bool { return c.Set&bit != 0 }
	if set(meta.SetSize) {
		if _, code := m.file(c.Ino); code != posix.OK {
			return code
		}
		if c.Attr.Size > posix.MaxSize {
			return posix.EFBIG
		}
		n.resize(int(c.Attr.Size))
		n.Mtime = n.implied(n.Mtime, c.Time)
	}
	kill := set(meta.KillSetID) || !set(meta.SetMode) && (set(meta.SetUID) || set(meta.SetGID))
	if set(meta.SetMode) {
		n.Mode = n.Mode.Type() | c.Attr.Mode.Perm()
	}
	if kill && !n.Mode.IsDir() {
		n.Mode &^= posix.SetUID
		if n.Mode&0o010 != 0 {
			n.Mode &^= posix.SetGID
		}
	}
	if set(meta.SetUID) {
		n.UID = c.Attr.UID
	}
	if set(meta.SetGID) {
		n.GID = c.Attr.GID
	}
	switch {
	case set(meta.SetAtimeNow):
		n.Atime = n.implied(n.Atime, c.Time)
	case set(meta.SetAtime):
		n.Atime = c.Attr.Atime
	}
	switch {
	case set(meta.SetMtimeNow):
		n.Mtime = n.implied(n.Mtime, c.Time)
	case set(meta.SetMtime):
		n.Mtime = c.Attr.Mtime
	}
	if c.Set != 0 {
		n.change(c.Time)
	}
	if set(meta.SetCtime) {
		n.change(c.Attr.Ctime)
	}
	return posix.OK
}

func (m *Model) write(c *meta.Command) (uint64, posix.Code) {
	n, code := m.file(c.Ino)
	if code != posix.OK {
		return 0, code
	}
	content := c.Data
	if len(c.Data) > 0 && len(c.Blocks) > 0 {
		return 0, posix.EINVAL
	}
	for i, k := range c.Blocks {
		if m.named[k.ID] || slices.Contains(c.Blocks[:i], k) {
			return 0, posix.EINVAL
		}
		content = append(content, m.blocks[k.ID][:k.Length]...)
	}
	offset := c.Offset
	if c.Flags&meta.Append != 0 {
		offset = uint64(len(n.data))
	}
	if len(content) == 0 {
		return offset, posix.OK
	}
	if offset > posix.MaxSize || offset+uint64(len(content)) > posix.MaxSize {
		return 0, posix.EFBIG
	}
	for _, k := range c.Blocks {
		m.named[k.ID] = true
	}
	n.resize(max(len(n.data), int(offset)+len(content)))
	for i, b := range content {
		n.data[int(offset)+i], n.written[int(offset)+i] = b, true
	}
	touch(n, c.Time)
	return offset, posix.OK
}

func (m *Model) fallocate(c *meta.Command) posix.Code {
	n, code := m.file(c.Ino)
	if code != posix.OK {
		return code
	}
	punch, zero := c.Flags&meta.FallocatePunch != 0, c.Flags&meta.FallocateZero != 0
	end := c.Offset + c.Length
	switch {
	case c.Length == 0:
		return posix.EINVAL
	case punch && zero:
		return posix.EOPNOTSUPP
	case end < c.Offset || end > posix.MaxSize:
		return posix.EFBIG
	}
	if !punch && c.Flags&meta.FallocateKeepSize == 0 {
		n.resize(max(len(n.data), int(end)))
	}
	if punch || zero {
		for i := int(c.Offset); i < int(end) && i < len(n.data); i++ {
			n.data[i], n.written[i] = 0, false
		}
	}
	touch(n, c.Time)
	return posix.OK
}

// xattr sets or removes an extended attribute.
func (m *Model) xattr(c *meta.Command) posix.Code {
	n := m.nodes[c.Ino]
	if n == nil {
		return posix.ESTALE
	}
	if code := xattrName(c.Name); code != posix.OK {
		return code
	}
	_, exists := n.xattrs[c.Name]
	if c.Op == meta.OpRemoveXattr {
		if !exists {
			return posix.ENODATA
		}
		delete(n.xattrs, c.Name)
		n.change(c.Time)
		return posix.OK
	}
	switch {
	case len(c.Data) > 65536:
		return posix.E2BIG
	case exists && c.Flags&meta.XattrCreate != 0:
		return posix.EEXIST
	case !exists && c.Flags&meta.XattrReplace != 0:
		return posix.ENODATA
	case !exists && len(listing(n))+len(c.Name)+1 > 65536:
		return posix.ENOSPC
	}
	n.xattrs[c.Name] = string(c.Data)
	n.change(c.Time)
	return posix.OK
}

func xattrName(name string) posix.Code {
	switch {
	case name == "", len(name) > 255:
		return posix.ERANGE
	case strings.Contains(name, "\x00"):
		return posix.EINVAL
	}
	return posix.OK
}

// listing returns the result of listxattr.
func listing(n *node) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(n.xattrs)) {
		b.WriteString(name + "\x00")
	}
	return b.String()
}
