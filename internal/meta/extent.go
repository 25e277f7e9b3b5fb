package meta

import (
	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// The key of an extent has the offset of its end, so a scan from offset a+1 begins with the first extent that
// ends after a, however long it is.

const (
	extentLiteral = iota
	extentBlock
)

func (e *Extent) end() uint64 { return e.Offset + e.Length }

// clip returns the part of e in [from, to), which e must overlap.
func (e *Extent) clip(from, to uint64) Extent {
	c := *e
	if c.Offset < from {
		cut := from - c.Offset
		c.Offset, c.Length = from, c.Length-cut
		if c.Data != nil {
			c.Data = c.Data[cut:]
		} else {
			c.Skip += uint32(cut)
		}
	}
	if c.end() > to {
		c.Length = to - c.Offset
		if c.Data != nil {
			c.Data = c.Data[:c.Length]
		}
	}
	return c
}

// Clip returns the part of e in [from, to), which e must overlap.
func (e *Extent) Clip(from, to uint64) Extent { return e.clip(from, to) }

func (e *Extent) encode() []byte {
	if e.Data != nil {
		b := append(make([]byte, 0, 1+len(e.Data)), extentLiteral)
		return append(b, e.Data...)
	}
	b := append(make([]byte, 0, 32), extentBlock)
	b = append(b, e.Block[:]...)
	b = varint.AppendUint(b, e.Length)
	return varint.AppendUint(b, e.Skip)
}

// decodeExtent reads the extent that ends at end; Data aliases b.
func decodeExtent(end uint64, b []byte) (Extent, error) {
	r := varint.NewReader(b)
	var e Extent
	switch r.Uint8() {
	case extentLiteral:
		e.Data = r.Rest()
		e.Length = uint64(len(e.Data))
	case extentBlock:
		r.Fixed(e.Block[:])
		e.Length, e.Skip = r.Uint64(), r.Uint32()
	default:
		r.Fail()
	}
	if e.Length == 0 || e.Length > end {
		r.Fail()
	}
	e.Offset = end - e.Length
	return e, r.Done()
}

func mustDecodeExtent(ino posix.Ino, end uint64, b []byte) Extent {
	e, err := decodeExtent(end, b)
	invariant.Check(err == nil, "stored extent of %d that ends at %d: %v", ino, end, err)
	return e
}

// overlapping calls do for each extent of n that overlaps [from, to), in order. do may write extents that end
// at or before the end of its argument.
func (m *Machine) overlapping(n *inode, from, to uint64, do func(e Extent)) {
	to = min(to, n.Size)
	if from >= to || n.Bytes == 0 {
		return
	}
	scan := m.keys.Scan(placeKey(prefixExtent, n.Ino, from+1), after(prefixExtent, n.Ino))
	for key, value := range scan {
		e := mustDecodeExtent(n.Ino, placeOf(key), value)
		if e.Offset >= to {
			return
		}
		do(e)
	}
}

// setExtent stores e. Blocks are counted apart, by reference.
func (m *Machine) setExtent(n *inode, e *Extent) {
	m.keys.Set(placeKey(prefixExtent, n.Ino, e.end()), e.encode())
	m.addUsed(n, int64(e.Length))
}

func (m *Machine) deleteExtent(n *inode, e *Extent) {
	m.keys.Delete(placeKey(prefixExtent, n.Ino, e.end()))
	m.addUsed(n, -int64(e.Length))
}

// addUsed changes the counts of bytes in extents, of n and of the partition, by delta.
func (m *Machine) addUsed(n *inode, delta int64) {
	n.Bytes += uint64(delta)
	m.state.bytes += uint64(delta)
}

// clear makes [from, to) a hole.
func (m *Machine) clear(n *inode, from, to uint64) {
	m.overlapping(n, from, to, func(e Extent) {
		m.deleteExtent(n, &e)
		pieces := 0
		if e.Offset < from {
			left := e.clip(e.Offset, from)
			m.setExtent(n, &left)
			pieces++
		}
		if e.end() > to {
			right := e.clip(to, e.end())
			m.setExtent(n, &right)
			pieces++
		}
		if e.Data == nil {
			m.reference(e.Block, pieces-1)
		}
	})
}

// resize sets the size of a file: it removes content after the new size, or adds a hole.
func (m *Machine) resize(n *inode, size uint64) {
	m.clear(n, size, n.Size)
	n.Size = size
}

// extents answers where the content of a range is.
func (m *Machine) extents(c *Command) Result {
	n, code := m.file(c.Ino)
	if code == posix.OK {
		code = c.mayRead(&n.Attr)
	}
	if code != posix.OK {
		return failed(code)
	}
	r := Result{Attr: n.Attr}
	if c.Offset >= n.Size {
		return r
	}
	end := min(n.Size, c.Offset+min(c.Length, posix.MaxSize)) // neither is above MaxSize: no overflow
	r.Number = end
	if n.Bytes == 0 || end <= c.Offset {
		return r
	}
	literal := 0
	for key, value := range m.keys.Scan(placeKey(prefixExtent, n.Ino, c.Offset+1), after(prefixExtent, n.Ino)) {
		e := mustDecodeExtent(n.Ino, placeOf(key), value)
		switch {
		case e.Offset >= end:
			return r
		case len(r.Extents) == MaxExtents || literal > MaxBlock:
			r.Number = e.Offset
			return r
		}
		e = e.clip(c.Offset, end)
		if e.Data != nil {
			e.Data = append([]byte(nil), e.Data...)
			literal += len(e.Data)
		}
		r.Extents = append(r.Extents, e)
	}
	return r
}
