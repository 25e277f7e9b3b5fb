package metatest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// asker answers queries: one machine, or the machines of several partitions.
type asker interface {
	Query(c *meta.Command) meta.Result
}

// sameDir compares a listing, read in pages, with the model.
func (m *Model) sameDir(machine asker, ino posix.Ino, page uint64) error {
	dir, code := m.dir(ino)
	seen, last := map[string]bool{}, uint64(0)
	for {
		r := machine.Query(&meta.Command{Op: meta.OpReadDir, Ino: ino, Offset: last, Length: page})
		if r.Code != code {
			return fmt.Errorf("readdir %d: %v, want %v", ino, r.Code, code)
		}
		for _, e := range r.Entries {
			child, ok := dir.names[e.Name]
			switch {
			case !ok || seen[e.Name]:
				return fmt.Errorf("readdir %d: entry %q should not be there", ino, e.Name)
			case e.Cookie <= last:
				return fmt.Errorf("readdir %d: cookie %d after %d", ino, e.Cookie, last)
			case e.Attr != m.stat(child):
				return fmt.Errorf("readdir %d: %q is %+v, want %+v", ino, e.Name, e.Attr, m.stat(child))
			}
			seen[e.Name], last = true, e.Cookie
		}
		if len(r.Entries) == 0 {
			break
		}
	}
	if code == posix.OK && len(seen) != len(dir.names) {
		return fmt.Errorf("readdir %d: %d entries, want %d", ino, len(seen), len(dir.names))
	}
	return nil
}

// sameContent reads a range through its extents and compares.
func (m *Model) sameContent(machine asker, ino posix.Ino, offset, length uint64) error {
	n, code := m.file(ino)
	r := machine.Query(&meta.Command{Op: meta.OpExtents, Ino: ino, Offset: offset, Length: length})
	if r.Code != code || code != posix.OK {
		if r.Code != code {
			return fmt.Errorf("extents of %d: %v, want %v", ino, r.Code, code)
		}
		return nil
	}
	from := min(offset, uint64(len(n.data)))
	want, written := n.data[from:], n.written[from:]
	if length < uint64(len(want)) {
		want, written = want[:length], written[:length]
	}
	got, covered, last := make([]byte, len(want)), make([]bool, len(want)), offset
	for _, e := range r.Extents {
		if e.Offset < last || e.Length == 0 || e.Offset+e.Length > offset+uint64(len(want)) {
			return fmt.Errorf("extent [%d, +%d) of %d: out of order or out of [%d, +%d)", e.Offset, e.Length, ino, offset, len(want))
		}
		last = e.Offset + e.Length
		data := e.Data
		if data == nil && m.blocks[e.Block] == nil {
			return fmt.Errorf("extent [%d, +%d) of %d: block %v was deleted", e.Offset, e.Length, ino, e.Block)
		}
		if data == nil {
			data = m.blocks[e.Block][e.Skip:][:e.Length]
		}
		copy(got[e.Offset-offset:], data[:e.Length])
		for i := range e.Length {
			covered[e.Offset-offset+i] = true
		}
	}
	if !bytes.Equal(got, want) || !slices.Equal(covered, written) {
		return fmt.Errorf("content of %d in [%d, +%d) differs", ino, offset, length)
	}
	return nil
}

// Same compares the answers of the machine to all queries with those of the model.
func (m *Model) Same(machine *meta.Machine) error {
	if got, want := machine.Orphans(0, len(m.nodes)+1), m.Orphans(); !slices.Equal(got, want) {
		return fmt.Errorf("orphans %v, want %v", got, want)
	}
	return m.sameTree(machine)
}

// sameTree compares all inodes.
func (m *Model) sameTree(machine asker) error {
	for _, ino := range slices.Sorted(maps.Keys(m.nodes)) {
		n := m.nodes[ino]
		r := machine.Query(&meta.Command{Op: meta.OpGetAttr, Ino: ino})
		if r.Code != posix.OK || r.Attr != m.stat(ino) {
			return fmt.Errorf("inode %d: %v %+v, want %+v", ino, r.Code, r.Attr, m.stat(ino))
		}
		for name, value := range n.xattrs {
			if r := machine.Query(&meta.Command{Op: meta.OpGetXattr, Ino: ino, Name: name}); string(r.Data) != value {
				return fmt.Errorf("inode %d: xattr %q is %q, want %q", ino, name, r.Data, value)
			}
		}
		var err error
		switch n.Mode.Type() {
		case posix.TypeDir:
			err = m.sameDir(machine, ino, 3)
		case posix.TypeRegular:
			err = m.sameContent(machine, ino, 0, posix.MaxSize)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
