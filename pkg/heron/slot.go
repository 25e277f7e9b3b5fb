package heron

import (
	"encoding/binary"
	"hash/crc32"
)

// A slot holds an object: its id, and two versions. A version is a tag, the tag of its predecessor, a
// checksum, the length, and the value. A tag is the place of the request that wrote the version plus one, in
// the log of the group; 0 is the value before all requests, which is absent.
const (
	slotHeader    = 8
	versionHeader = 8 + 8 + 4 + 4
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	le         = binary.LittleEndian
)

func align(n int) int { return (n + 7) / 8 * 8 }

func (cfg *Config) versionSize() int { return align(versionHeader + cfg.ObjectSize) }

func (cfg *Config) slotSize() int { return slotHeader + 2*cfg.versionSize() }

// version is a value with its place in the history of the object.
type version struct {
	tag, prev uint64
	value     []byte // nil if tag is 0
}

// encode returns the bytes of a version of an object. The checksum covers the id, so that a slot of another
// object is never taken for this one.
func (v *version) encode(id ObjectID) []byte {
	b := make([]byte, versionHeader, versionHeader+len(v.value))
	le.PutUint64(b, v.tag)
	le.PutUint64(b[8:], v.prev)
	le.PutUint32(b[20:], uint32(len(v.value)))
	b = append(b, v.value...)
	le.PutUint32(b[16:], checksum(id, b))
	return b
}

// checksum returns the checksum of an encoded version. It leaves out bytes 16 to 19, which hold it.
func checksum(id ObjectID, b []byte) uint32 {
	var head [8]byte
	le.PutUint64(head[:], uint64(id))
	sum := crc32.Update(0, castagnoli, head[:])
	sum = crc32.Update(sum, castagnoli, b[:16])
	return crc32.Update(sum, castagnoli, b[20:])
}

// decodeVersion returns a version, unless it is being written. Zeros are the version 0, which has no value.
func decodeVersion(id ObjectID, b []byte) (v version, ok bool) {
	v = version{tag: le.Uint64(b), prev: le.Uint64(b[8:])}
	n := int(le.Uint32(b[20:]))
	if v.tag == 0 {
		return version{}, v.prev == 0 && n == 0 && le.Uint32(b[16:]) == 0
	}
	if n < 0 || n > len(b)-versionHeader || checksum(id, b[:versionHeader+n]) != le.Uint32(b[16:]) {
		return version{}, false
	}
	v.value = append([]byte{}, b[versionHeader:versionHeader+n]...)
	return v, true
}

// sight is the outcome of a look at a slot.
type sight uint8

const (
	found   sight = iota
	unclear       // a version is being written
	past          // the slot has no version of the time of the request any more
)

// before returns the newest version of a slot with a tag below a bound (Algorithm 2, line 22; V3).
func (cfg *Config) before(id ObjectID, slot []byte, bound uint64) (version, sight) {
	size := cfg.versionSize()
	a, okA := decodeVersion(id, slot[slotHeader:slotHeader+size])
	b, okB := decodeVersion(id, slot[slotHeader+size:slotHeader+2*size])
	if !okA || !okB {
		return version{}, unclear
	}
	if a.tag < b.tag {
		a, b = b, a
	}
	switch {
	case a.tag < bound:
		return a, found
	case b.tag < bound && a.prev == b.tag:
		return b, found
	}
	return version{}, past
}
