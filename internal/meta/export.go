package meta

import (
	"bytes"
	"fmt"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// MaxExport bounds the encoding of an inode that moves to another partition, with all that belongs to it,
// because the encoding is part of a vote.
const MaxExport = 4 << 20

// exported is an inode with all that belongs to it. Its blocks stay where they are stored; only the partition
// with their references changes.
type exported struct {
	inode   inode
	xattrs  []xattr
	extents []Extent
	entries []entry
	rule    []byte
}

type xattr struct {
	name  string
	value []byte
}

// export encodes n for another partition. It returns nil if the encoding exceeds MaxExport.
func (m *Machine) export(n *inode) []byte {
	b := varint.AppendUint(nil, n.Ino)
	b = varint.AppendBytes(b, n.encode())
	b = varint.AppendBytes(b, m.keys.Get(ruleKey(n.Ino)))
	for _, prefix := range []byte{prefixXattr, prefixExtent, prefixCookie} {
		count, items := uint64(0), []byte(nil)
		for key, value := range m.keys.Scan(numberKey(prefix, uint64(n.Ino)), after(prefix, n.Ino)) {
			count++
			switch prefix {
			case prefixXattr:
				items = varint.AppendBytes(items, key[9:])
			case prefixExtent:
				items = varint.AppendUint(items, placeOf(key))
			case prefixCookie:
				value = m.exportEntry(n.Ino, placeOf(key), value)
				items = varint.AppendUint(items, placeOf(key))
			}
			items = varint.AppendBytes(items, value)
			if len(b)+len(items) > MaxExport {
				return nil
			}
		}
		b = append(varint.AppendUint(b, count), items...)
	}
	return b
}

// exportEntry returns the value of an entry with the partition of its inode, as far as this partition knows
// it.
func (m *Machine) exportEntry(dir posix.Ino, cookie uint64, value []byte) []byte {
	e, err := decodeCookie(cookie, value)
	invariant.Check(err == nil, "stored entry %d of %d: %v", cookie, dir, err)
	e.at = m.where(&e)
	return append(e.common(20), e.name...)
}

// decodeExport decodes the output of export. The slices of the result alias b.
func decodeExport(b []byte) (*exported, error) {
	r := varint.NewReader(b)
	x := &exported{}
	ino, stored := posix.Ino(r.Uint64()), r.Bytes()
	x.rule = r.Bytes()
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		x.xattrs = append(x.xattrs, xattr{r.String(), r.Bytes()})
	}
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		e, err := decodeExtent(r.Uint64(), r.Bytes())
		if err != nil {
			return nil, fmt.Errorf("export of %d: extent: %w", ino, err)
		}
		x.extents = append(x.extents, e)
	}
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		e, err := decodeCookie(r.Uint64(), r.Bytes())
		if err != nil {
			return nil, fmt.Errorf("export of %d: entry: %w", ino, err)
		}
		x.entries = append(x.entries, e)
	}
	if err := r.Done(); err != nil {
		return nil, fmt.Errorf("export of %d: %w", ino, err)
	}
	var err error
	if x.inode, err = decodeInode(ino, stored); err != nil {
		return nil, err
	}
	if len(x.rule) > 0 {
		if _, err = DecodeRule(x.rule); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// depart removes x and all that belongs to it from this partition. Its blocks are not dropped, because the
// partition to which x moves needs them.
func (m *Machine) depart(x *exported) {
	n := x.inode
	for i := range x.extents {
		m.deleteExtent(&n, &x.extents[i])
		if x.extents[i].Data == nil {
			m.leaves(x.extents[i].Block)
		}
	}
	for i := range x.entries {
		m.keys.Delete(nameKey(prefixDirent, n.Ino, x.entries[i].name))
		m.keys.Delete(placeKey(prefixCookie, n.Ino, x.entries[i].cookie))
	}
	m.deleteXattrs(&n)
	m.keys.Delete(ruleKey(n.Ino))
	m.keys.Delete(inodeKey(n.Ino))
	m.state.inodes--
}

// storeExported stores x in this partition.
func (m *Machine) storeExported(x *exported) {
	n := x.inode
	n.Bytes = 0
	for i := range x.extents {
		m.setExtent(&n, &x.extents[i])
		if x.extents[i].Data == nil {
			m.comes(x.extents[i].Block)
		}
	}
	for i := range x.entries {
		m.setEntry(n.Ino, &x.entries[i])
	}
	for i := range x.xattrs {
		m.keys.Set(nameKey(prefixXattr, n.Ino, x.xattrs[i].name), x.xattrs[i].value)
	}
	if len(x.rule) > 0 {
		m.keys.Set(ruleKey(n.Ino), bytes.Clone(x.rule))
		r, err := DecodeRule(x.rule)
		invariant.Check(err == nil, "rule of directory %d, which decodeExport has read: %v", n.Ino, err)
		m.fillFor(&r)
	}
	m.storeNew(&n)
}
