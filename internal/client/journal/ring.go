package journal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Sizes in bytes.
const (
	Size = 16 << 20 // of the memory of a client

	headerSize = 64
	recordSize = 8 // of the header of a record
)

// Places in the header.
const (
	placeFormat = 8
	placeHeads  = 16
	headSize    = 16
)

var magic = [8]byte{'G', 'F', 'S', 'L', 'O', 'G', 0, '\n'}

// Formats: the number increases when an older version would misread the memory.
const (
	format        = 2
	withoutBlocks = 1 // operations have no blocks
)

var table = crc32.MakeTable(crc32.Castagnoli)

// ring is the memory as a ring of records.
type ring struct {
	memory []byte
	head   uint64 // position of the oldest record
	tail   uint64 // position after the newest record
	turn   int    // which of the two places of the header gets the next head: 0 or 1
	format uint32
}

// isNew reports whether nothing was written to the memory.
func isNew(memory []byte) bool {
	for _, b := range memory[:headerSize] {
		if b != 0 {
			return false
		}
	}
	return true
}

// prepare writes the header into new memory.
func (r *ring) prepare() {
	r.format = format
	binary.LittleEndian.PutUint32(r.memory[placeFormat:], format)
	r.setHead(0)
	copy(r.memory, magic[:]) // last, because it makes the memory valid
}

// open reads the header.
func (r *ring) open() error {
	if [8]byte(r.memory[:8]) != magic {
		return fmt.Errorf("log of held directories: it begins with %q: unmount, and mount again; what it holds is lost", r.memory[:8])
	}
	if r.format = binary.LittleEndian.Uint32(r.memory[placeFormat:]); r.format != format && r.format != withoutBlocks {
		return fmt.Errorf("log of held directories: format %d, this version knows %d: go on with the version that wrote it, or unmount, and mount with this one", r.format, format)
	}
	found := false
	for place := range 2 {
		at := r.memory[placeHeads+place*headSize:][:headSize]
		head := binary.LittleEndian.Uint64(at)
		if binary.LittleEndian.Uint32(at[8:]) == crc32.Checksum(at[:8], table) && (!found || head > r.head) {
			r.head, r.turn, found = head, 1-place, true
		}
	}
	if !found {
		return fmt.Errorf("log of held directories: its header is damaged: unmount, and mount again; what it holds is lost")
	}
	r.tail = r.head
	return nil
}

// setHead frees all records before a position.
func (r *ring) setHead(position uint64) {
	at := r.memory[placeHeads+r.turn*headSize:][:headSize]
	binary.LittleEndian.PutUint64(at, position)
	binary.LittleEndian.PutUint32(at[8:], crc32.Checksum(at[:8], table))
	r.head, r.turn = position, 1-r.turn
}

func (r *ring) size() uint64 { return uint64(len(r.memory) - headerSize) }

// room returns the bytes that are free.
func (r *ring) room() uint64 { return r.size() - (r.tail - r.head) }

// append writes a record of two parts, for which there is room, and returns its position.
func (r *ring) append(content, rest []byte) uint64 {
	var header [recordSize]byte
	at, length := r.tail, len(content)+len(rest)
	binary.LittleEndian.PutUint32(header[:], uint32(length))
	binary.LittleEndian.PutUint32(header[4:], checksum(at, content, rest))
	r.write(at+recordSize, content)
	r.write(at+recordSize+uint64(len(content)), rest)
	r.write(at, header[:])
	r.tail += recordSize + uint64(length)
	return at
}

// next reads the record at the tail of a ring that is being opened. ok is false if there is none, or if it is
// torn.
func (r *ring) next() (content []byte, position uint64, ok bool) {
	if r.room() < recordSize {
		return nil, 0, false
	}
	var header [recordSize]byte
	r.read(r.tail, header[:])
	length := uint64(binary.LittleEndian.Uint32(header[:]))
	if length == 0 || length > r.room()-recordSize {
		return nil, 0, false
	}
	content = make([]byte, length)
	r.read(r.tail+recordSize, content)
	if checksum(r.tail, content, nil) != binary.LittleEndian.Uint32(header[4:]) {
		return nil, 0, false
	}
	position = r.tail
	r.tail += recordSize + length
	return content, position, true
}

func checksum(position uint64, content, rest []byte) uint32 {
	var at [8]byte
	binary.LittleEndian.PutUint64(at[:], position)
	return crc32.Update(crc32.Update(crc32.Checksum(at[:], table), table, content), table, rest)
}

func (r *ring) write(position uint64, b []byte) {
	at := headerSize + position%r.size()
	n := copy(r.memory[at:], b)
	copy(r.memory[headerSize:], b[n:])
}

func (r *ring) read(position uint64, into []byte) {
	at := headerSize + position%r.size()
	n := copy(into, r.memory[at:])
	copy(into[n:], r.memory[headerSize:])
}
