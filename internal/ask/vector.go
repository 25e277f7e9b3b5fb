package ask

import (
	"slices"

	"github.com/globalfs/globalfs/internal/varint"
)

// MaxPartitions bounds the length of a vector.
const MaxPartitions = 1 << 12

// Vector is the vector clock (T 3.4.1): entry p is the seen part of partition p. Missing entries are zero.
// The lists in its entries are shared by copies, and never changed.
type Vector []Seen

// Of returns the entry of partition p.
func (v Vector) Of(p uint16) Seen {
	if int(p) < len(v) {
		return v[p]
	}
	return Seen{}
}

// Merge returns the union of v and other, entry by entry. It overwrites v; other is not changed.
func (v Vector) Merge(other Vector) Vector {
	for len(v) < len(other) {
		v = append(v, Seen{})
	}
	for i := range other {
		v[i].merge(&other[i])
	}
	return v
}

// Clone returns a copy that can be merged into.
func (v Vector) Clone() Vector { return slices.Clone(v) }

// Covers reports whether v is as new as other, in every entry.
func (v Vector) Covers(other Vector) bool {
	for i := range other {
		if !v.Of(uint16(i)).Covers(other[i]) {
			return false
		}
	}
	return true
}

// Append appends the encoding of v.
func (v Vector) Append(b []byte) []byte {
	b = varint.AppendUint(b, uint64(len(v)))
	for i := range v {
		b = v[i].Append(b)
	}
	return b
}

// ReadVector reads a vector that Append has written; nil if it has no entries. If the bytes are malformed,
// r.Err reports it.
func ReadVector(r *varint.Reader) Vector {
	var v Vector
	n := r.Count()
	if n > MaxPartitions {
		r.Fail()
	}
	for ; n > 0 && r.Err() == nil; n-- {
		v = append(v, ReadSeen(r))
	}
	return v
}
