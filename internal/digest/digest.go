// Package digest sums a set of keys and values into 128 bits, so that two stores can be compared without
// reading them. The sum of a store can be kept up to date with each write: the hash of the key with its old
// value is subtracted, and the hash of the key with its new value is added.
//
// A Sum is the sum modulo 2^128 of the first half of SHA-256 of each key with its value. It finds faults: two
// different stores have the same sum with a probability of 2^-128. It does not resist an attacker: many
// chosen keys and values can make two stores have the same sum.
package digest

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"iter"
	"math/bits"
)

// Scheme is the version of the content of a Sum: sums of different schemes cannot be compared. In the first
// scheme the value of each entry counted.
const Scheme = 2

// Size is the length of the encoding of a Sum, in bytes: the number, and Scheme. The first scheme had no byte
// for that.
const Size = 16 + 1

// Part is how much of an entry counts.
type Part int

// The parts.
const (
	Whole Part = iota // the key and its value
	Key               // the key only: versions of the program may write different values
	None              // nothing: the entry belongs to one replica
)

// Sum is a number modulo 2^128. The zero value is the sum of no keys.
type Sum struct{ high, low uint64 }

// Add returns s + other.
func (s Sum) Add(other Sum) Sum {
	low, carry := bits.Add64(s.low, other.low, 0)
	high, _ := bits.Add64(s.high, other.high, carry)
	return Sum{high, low}
}

// Sub returns s - other.
func (s Sum) Sub(other Sum) Sum {
	low, borrow := bits.Sub64(s.low, other.low, 0)
	high, _ := bits.Sub64(s.high, other.high, borrow)
	return Sum{high, low}
}

// Bytes returns the encoding of s.
func (s Sum) Bytes() []byte {
	return append(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, s.high), s.low), Scheme)
}

// Parse reads the encoding by Bytes. ok is false for another length or scheme.
func Parse(b []byte) (s Sum, ok bool) {
	if len(b) != Size || b[Size-1] != Scheme {
		return s, false
	}
	return Sum{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}, true
}

// String returns the number in hexadecimal.
func (s Sum) String() string { return hex.EncodeToString(s.Bytes()[:Size-1]) }

// Hasher hashes entries. Its zero value is ready. It is not safe for concurrent use.
type Hasher struct{ buffer []byte }

// Entry returns the sum of one key with its value.
func (h *Hasher) Entry(key, value []byte) Sum {
	h.buffer = binary.AppendUvarint(h.buffer[:0], uint64(len(key)))
	h.buffer = append(append(h.buffer, key...), value...)
	sum := sha256.Sum256(h.buffer)
	return Sum{binary.BigEndian.Uint64(sum[:]), binary.BigEndian.Uint64(sum[8:])}
}

// Counted returns the Sum that one key with its value adds to a sum, if part of the entry counts.
func (h *Hasher) Counted(part Part, key, value []byte) Sum {
	switch part {
	case None:
		return Sum{}
	case Key:
		value = nil
	}
	return h.Entry(key, value)
}

// Of returns the sum of entries. part tells how much of the entry with a key counts.
func Of(entries iter.Seq2[[]byte, []byte], part func(key []byte) Part) (s Sum) {
	var h Hasher
	for key, value := range entries {
		s = s.Add(h.Counted(part(key), key, value))
	}
	return s
}
