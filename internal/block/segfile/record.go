package segfile

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/globalfs/globalfs/internal/posix"
)

// HeaderSize is the size of the header of a record in bytes. The data follows it.
const HeaderSize = 32

// Magic begins each record.
const Magic = "GBK1"

// headerTable is for the checksums of headers.
var headerTable = crc32.MakeTable(crc32.Castagnoli)

// Record is the header of one record.
type Record struct {
	ID     posix.BlockID
	Length uint32 // of the data, in bytes
	Sum    uint32 // CRC32C of the id and the data
}

// Header encodes r.
func (r *Record) Header() [HeaderSize]byte {
	var b [HeaderSize]byte
	copy(b[:], Magic)
	copy(b[4:], r.ID[:])
	binary.LittleEndian.PutUint32(b[20:], r.Length)
	binary.LittleEndian.PutUint32(b[24:], r.Sum)
	binary.LittleEndian.PutUint32(b[28:], crc32.Checksum(b[:28], headerTable))
	return b
}

// ParseHeader decodes a header. It returns false if the bytes are not a header: the magic, its checksum or
// the length is wrong.
func ParseHeader(b *[HeaderSize]byte) (Record, bool) {
	r := Record{
		ID:     posix.BlockID(b[4:20]),
		Length: binary.LittleEndian.Uint32(b[20:]),
		Sum:    binary.LittleEndian.Uint32(b[24:]),
	}
	good := string(b[:4]) == Magic &&
		binary.LittleEndian.Uint32(b[28:]) == crc32.Checksum(b[:28], headerTable) &&
		r.Length > 0 && r.Length <= posix.MaxBlock
	return r, good
}

// Place is where a record begins.
type Place struct {
	Segment uint32
	Offset  uint64
}
