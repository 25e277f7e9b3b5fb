package ask

import (
	"encoding/base64"
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/internal/varint"
)

// MaxPartitions bounds the length of a vector.
const MaxPartitions = 1 << 12

// Vector is the vector clock (T 3.4.1): entry p is what was seen of partition p. Missing entries are zero. The lists in
// its entries are shared by copies, and never changed.
type Vector []Seen

// Of returns the entry of partition p.
func (v Vector) Of(p uint16) Seen {
	if int(p) < len(v) {
		return v[p]
	}
	return Seen{}
}

// Merge returns what v and other have seen together. It overwrites v; other is not changed.
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

// Token returns v as text, for people and scripts that carry it to another machine. ParseToken is the
// inverse.
func (v Vector) Token() string { return base64.RawURLEncoding.EncodeToString(v.Append(nil)) }

// ParseToken reads a vector that Token has returned. The error quotes a text that is no token.
func ParseToken(text string) (Vector, error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("token %q: %w", text, err)
	}
	r := varint.NewReader(b)
	v := ReadVector(r)
	if err := r.Done(); err != nil {
		return nil, fmt.Errorf("token %q: %w", text, err)
	}
	return v, nil
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
