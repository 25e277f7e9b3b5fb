package block

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"github.com/globalfs/globalfs/internal/varint"
)

// recordHeader is the size of what precedes the data in a segment. See the package
// comment for the bytes.
const recordHeader = 32

var recordMagic = [4]byte{'G', 'B', 'K', '1'}

// record is the decoded header of one record.
type record struct {
	id     ID
	length uint32
	crc    uint32
}

// encode gives the header of r.
func (r *record) encode() [recordHeader]byte {
	var b [recordHeader]byte
	copy(b[:], recordMagic[:])
	copy(b[4:], r.id[:])
	binary.LittleEndian.PutUint32(b[20:], r.length)
	binary.LittleEndian.PutUint32(b[24:], r.crc)
	binary.LittleEndian.PutUint32(b[28:], crc32.Checksum(b[:28], castagnoli))
	return b
}

// decodeRecord reads a header; false if these bytes are none.
func decodeRecord(b *[recordHeader]byte) (record, bool) {
	r := record{
		id:     ID(b[4:20]),
		length: binary.LittleEndian.Uint32(b[20:]),
		crc:    binary.LittleEndian.Uint32(b[24:]),
	}
	good := [4]byte(b[:4]) == recordMagic &&
		binary.LittleEndian.Uint32(b[28:]) == crc32.Checksum(b[:28], castagnoli) &&
		r.length > 0 && r.length <= MaxSize
	return r, good
}

// place is where a record begins.
type place struct {
	segment uint32
	offset  uint64
}

// entry is what the index knows of a block: its bytes, or where its record is.
type entry struct {
	crc    uint32
	inline []byte // nil if the bytes are in a segment
	at     place
	length uint32
}

// Kinds of index entries, for ever.
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
	b = varint.AppendUint(b, e.at.segment)
	b = varint.AppendUint(b, e.at.offset)
	return varint.AppendUint(b, e.length)
}

// decodeEntry reads an entry; its inline bytes alias b.
func decodeEntry(b []byte) (entry, error) {
	r := varint.NewReader(b)
	var crc [4]byte
	kind := r.Uint8()
	r.Fixed(crc[:])
	e := entry{crc: binary.LittleEndian.Uint32(crc[:])}
	switch kind {
	case kindInline:
		if e.inline = r.Rest(); e.inline == nil || len(e.inline) > MaxSize {
			r.Fail()
		}
	case kindSegment:
		e.at = place{segment: r.Uint32(), offset: r.Uint(1 << 40)}
		if e.length = uint32(r.Uint(MaxSize)); e.length == 0 {
			r.Fail()
		}
	default:
		r.Fail()
	}
	return e, r.Done()
}

// frontierVersion is the version of the format of the whole directory. Version 1 did not
// know how much of a segment is live.
const frontierVersion = 2

// appendFrontier appends the encoding of the frontier p.
func appendFrontier(b []byte, p place) []byte {
	b = varint.AppendUint(b, uint8(frontierVersion))
	b = varint.AppendUint(b, p.segment)
	return varint.AppendUint(b, p.offset)
}

// decodeFrontier reads a frontier and the version of the format.
func decodeFrontier(b []byte) (place, uint8, error) {
	r := varint.NewReader(b)
	version := r.Uint8()
	if version < 1 || version > frontierVersion {
		r.Fail()
	}
	p := place{segment: r.Uint32(), offset: r.Uint(1 << 40)}
	return p, version, r.Done()
}
