package disk

import (
	"bytes"
	"encoding/binary"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/segfile"
	"github.com/globalfs/globalfs/internal/varint"
)

// entry is the value of a block in the index: its bytes, or the place of its record.
type entry struct {
	crc    uint32
	inline []byte // nil if the bytes are in a segment
	at     segfile.Place
	length uint32
}

// The kinds of index entries. Their numbers never change.
const (
	kindInline  = 1
	kindSegment = 2
)

// same reports whether two entries name the same copy.
func (e *entry) same(o *entry) bool {
	return e.crc == o.crc && e.at == o.at && e.length == o.length && bytes.Equal(e.inline, o.inline)
}

// append appends the encoding of e.
func (e *entry) append(b []byte) []byte {
	if e.inline != nil {
		b = binary.LittleEndian.AppendUint32(append(b, kindInline), e.crc)
		return append(b, e.inline...)
	}
	b = binary.LittleEndian.AppendUint32(append(b, kindSegment), e.crc)
	b = varint.AppendUint(b, e.at.Segment)
	b = varint.AppendUint(b, e.at.Offset)
	return varint.AppendUint(b, e.length)
}

// decodeEntry decodes an entry; its inline bytes alias b.
func decodeEntry(b []byte) (entry, error) {
	r := varint.NewReader(b)
	var crc [4]byte
	kind := r.Uint8()
	r.Fixed(crc[:])
	e := entry{crc: binary.LittleEndian.Uint32(crc[:])}
	switch kind {
	case kindInline:
		if e.inline = r.Rest(); e.inline == nil || len(e.inline) > block.MaxSize {
			r.Fail()
		}
	case kindSegment:
		e.at = segfile.Place{Segment: r.Uint32(), Offset: r.Uint(1 << 40)}
		if e.length = uint32(r.Uint(block.MaxSize)); e.length == 0 {
			r.Fail()
		}
	default:
		r.Fail()
	}
	return e, r.Done()
}

// frontierVersion is the version of the format of the whole directory. Version 1 did not have the live bytes
// of segments.
const frontierVersion = 2

// appendFrontier appends the encoding of the frontier p.
func appendFrontier(b []byte, p segfile.Place) []byte {
	b = varint.AppendUint(b, uint8(frontierVersion))
	b = varint.AppendUint(b, p.Segment)
	return varint.AppendUint(b, p.Offset)
}

// decodeFrontier decodes a frontier and the version of the format.
func decodeFrontier(b []byte) (segfile.Place, uint8, error) {
	r := varint.NewReader(b)
	version := r.Uint8()
	if version < 1 || version > frontierVersion {
		r.Fail()
	}
	p := segfile.Place{Segment: r.Uint32(), Offset: r.Uint(1 << 40)}
	return p, version, r.Done()
}
