package meta

import "github.com/globalfs/globalfs/internal/posix"

// write stores new content for a range, or at the end of the file.
func (m *Machine) write(c *Command) Result {
	n, code := m.file(c.Ino)
	if code != posix.OK {
		return failed(code)
	}
	if code := c.mayWrite(&n.Attr); code != posix.OK {
		return failed(code)
	}
	if len(c.Data) > 0 && len(c.Blocks) > 0 || !m.mayName(c) {
		return failed(posix.EINVAL)
	}
	offset := c.Offset
	if c.Flags&Append != 0 {
		offset = n.Size
	}
	length := uint64(len(c.Data))
	for _, k := range c.Blocks {
		length += uint64(k.Length)
	}
	switch {
	case length == 0:
		return Result{Attr: n.Attr, Number: offset}
	case offset > posix.MaxSize || length > posix.MaxSize-offset:
		return failed(posix.EFBIG)
	case len(c.Data) > 0:
		m.writeLiteral(&n, offset, c.Data)
	default:
		m.writeBlocks(&n, offset, length, c.Blocks)
	}
	n.Size = max(n.Size, offset+length)
	c.takesSetID(&n)
	n.modified(c.Time)
	m.save(&n)
	return Result{Attr: n.Attr, Number: offset}
}

func (m *Machine) writeBlocks(n *inode, offset, length uint64, blocks []Block) {
	m.clear(n, offset, offset+length)
	for _, k := range blocks {
		m.wrote(k)
		m.setExtent(n, &Extent{Offset: offset, Length: uint64(k.Length), Block: k.ID})
		offset += uint64(k.Length)
	}
}

// writeLiteral stores data, joined with the literal extents on both sides if the result is small, so that
// many small writes make few extents.
func (m *Machine) writeLiteral(n *inode, offset uint64, data []byte) {
	end := offset + uint64(len(data))
	m.clear(n, offset, end)
	e := Extent{Offset: offset, Length: uint64(len(data)), Data: data}
	if left, ok := m.literalBefore(n, offset); ok && len(left.Data)+len(e.Data) <= MaxLiteral {
		m.deleteExtent(n, &left)
		e = join(&left, &e)
	}
	if right, ok := m.literalAfter(n, end); ok && len(right.Data)+len(e.Data) <= MaxLiteral {
		m.deleteExtent(n, &right)
		e = join(&e, &right)
	}
	m.setExtent(n, &e)
}

// join returns one literal extent for two adjacent ones.
func join(a, b *Extent) Extent {
	data := make([]byte, 0, len(a.Data)+len(b.Data))
	data = append(append(data, a.Data...), b.Data...)
	return Extent{Offset: a.Offset, Length: uint64(len(data)), Data: data}
}

// literalBefore returns the literal extent that ends at offset.
func (m *Machine) literalBefore(n *inode, offset uint64) (Extent, bool) {
	if offset == 0 || offset > n.Size || n.Bytes == 0 {
		return Extent{}, false
	}
	b := m.keys.Get(placeKey(prefixExtent, n.Ino, offset))
	if b == nil || b[0] != extentLiteral {
		return Extent{}, false
	}
	return mustDecodeExtent(n.Ino, offset, b), true
}

// literalAfter returns the literal extent that begins at offset.
func (m *Machine) literalAfter(n *inode, offset uint64) (found Extent, ok bool) {
	if offset >= n.Size {
		return Extent{}, false
	}
	m.overlapping(n, offset, offset+1, func(e Extent) {
		if e.Offset == offset && e.Data != nil {
			e.Data = append([]byte(nil), e.Data...)
			found, ok = e, true
		}
	})
	return found, ok
}

// fallocate extends a file, or fills a range with zeros. It reserves no space: extents contain only written
// data.
func (m *Machine) fallocate(c *Command) Result {
	n, code := m.file(c.Ino)
	if code != posix.OK {
		return failed(code)
	}
	const both = FallocatePunch | FallocateZero
	code = c.mayWrite(&n.Attr)
	switch {
	case code != posix.OK:
		return failed(code)
	case c.Length == 0:
		return failed(posix.EINVAL)
	case c.Flags&both == both:
		return failed(posix.EOPNOTSUPP)
	case c.Offset > posix.MaxSize || c.Length > posix.MaxSize-c.Offset:
		return failed(posix.EFBIG)
	}
	end := c.Offset + c.Length
	if c.Flags&both != 0 {
		m.clear(&n, c.Offset, end)
	}
	if c.Flags&(FallocatePunch|FallocateKeepSize) == 0 {
		n.Size = max(n.Size, end)
	}
	c.takesSetID(&n)
	n.modified(c.Time)
	m.save(&n)
	return Result{Attr: n.Attr}
}
