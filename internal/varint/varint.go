// Package varint is the byte format of everything the cores write: unsigned
// varints, and byte strings with their length in front. Writing is appending,
// with the standard library's binary.AppendUvarint and Bytes below; reading
// goes through a Reader that checks every bound, because its bytes came from a
// wire or a disk.
package varint

import (
	"encoding/binary"
	"errors"
)

// ErrMalformed is the error of a Reader for bytes that are cut short, too long or
// out of range.
var ErrMalformed = errors.New("malformed encoding")

// AppendUint appends v.
func AppendUint[T ~uint8 | ~uint16 | ~uint32 | ~uint64](b []byte, v T) []byte {
	return binary.AppendUvarint(b, uint64(v))
}

// AppendInt appends v in zig-zag form.
func AppendInt(b []byte, v int64) []byte { return binary.AppendVarint(b, v) }

// AppendBytes appends the length of s, then s.
func AppendBytes[T ~[]byte | ~string](b []byte, s T) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// Bit returns 1 for true and 0 for false, as the encodings write them.
func Bit(set bool) uint64 {
	if set {
		return 1
	}
	return 0
}

// Reader reads the encodings of the functions above. The first error sticks: after
// it every read gives zero, so that a decoder checks Err or Done once.
type Reader struct {
	unread []byte
	err    error
}

// NewReader reads b. The result of Bytes aliases b.
func NewReader(b []byte) *Reader { return &Reader{unread: b} }

// Uint reads an unsigned number of at most max.
func (r *Reader) Uint(max uint64) uint64 {
	v, n := binary.Uvarint(r.unread)
	if r.err != nil || n <= 0 || v > max {
		r.fail()
		return 0
	}
	r.unread = r.unread[n:]
	return v
}

// Uint64 reads any unsigned number.
func (r *Reader) Uint64() uint64 { return r.Uint(1<<64 - 1) }

// Uint32 reads a number below 2^32.
func (r *Reader) Uint32() uint32 { return uint32(r.Uint(1<<32 - 1)) }

// Uint16 reads a number below 2^16.
func (r *Reader) Uint16() uint16 { return uint16(r.Uint(1<<16 - 1)) }

// Uint8 reads a number below 2^8.
func (r *Reader) Uint8() uint8 { return uint8(r.Uint(1<<8 - 1)) }

// Int reads a zig-zag number.
func (r *Reader) Int() int64 {
	v, n := binary.Varint(r.unread)
	if r.err != nil || n <= 0 {
		r.fail()
		return 0
	}
	r.unread = r.unread[n:]
	return v
}

// Count reads the number of elements that follow, each of at least one byte,
// so that a forged count cannot make the caller allocate more than it was sent.
func (r *Reader) Count() int { return int(r.Uint(uint64(len(r.unread)))) }

// Bytes reads a byte string; nil if it is empty.
func (r *Reader) Bytes() []byte {
	n := r.Count()
	if r.err != nil || n > len(r.unread) {
		r.fail()
		return nil
	}
	if n == 0 {
		return nil
	}
	b := r.unread[:n:n]
	r.unread = r.unread[n:]
	return b
}

// String reads a byte string as a string.
func (r *Reader) String() string { return string(r.Bytes()) }

// Fixed reads exactly len(into) bytes without a length in front.
func (r *Reader) Fixed(into []byte) {
	if r.err != nil || len(r.unread) < len(into) {
		r.fail()
		return
	}
	copy(into, r.unread)
	r.unread = r.unread[len(into):]
}

// Rest reads all bytes that are left, without a length in front; nil if there are none.
func (r *Reader) Rest() []byte {
	b := r.unread
	r.unread = nil
	if len(b) == 0 {
		return nil
	}
	return b
}

// Len returns the number of bytes not read yet.
func (r *Reader) Len() int { return len(r.unread) }

// Fail marks the input as malformed: a value is out of its domain.
func (r *Reader) Fail() { r.fail() }

// Err returns ErrMalformed if a read failed.
func (r *Reader) Err() error { return r.err }

// Done returns ErrMalformed if a read failed or bytes are left over.
func (r *Reader) Done() error {
	if r.err == nil && len(r.unread) != 0 {
		r.fail()
	}
	return r.err
}

func (r *Reader) fail() {
	if r.err == nil {
		r.err = ErrMalformed
	}
	r.unread = nil
}
