package ask

import (
	"encoding/base64"
	"fmt"

	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Seen is the part of a partition's history that a client or a replica has seen.
type Seen struct {
	Count uint64             // number of commands in the order of the partition
	Cross multicast.Position // last command of several partitions, in the order between partitions
}

// Covers reports whether s includes other.
func (s Seen) Covers(other Seen) bool {
	return s.Count >= other.Count && s.Cross.Compare(other.Cross) >= 0
}

// Vector is the vector clock (T 3.4.1): entry p is what was seen of partition p. Missing entries are zero.
type Vector []Seen

// Of returns the entry of partition p.
func (v Vector) Of(p uint16) Seen {
	if int(p) < len(v) {
		return v[p]
	}
	return Seen{}
}

// Merge returns the pointwise maximum of v and other. It overwrites v; other is not changed.
func (v Vector) Merge(other Vector) Vector {
	for len(v) < len(other) {
		v = append(v, Seen{})
	}
	for i, s := range other {
		v[i].Count = max(v[i].Count, s.Count)
		if s.Cross.Compare(v[i].Cross) > 0 {
			v[i].Cross = s.Cross
		}
	}
	return v
}

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
	for _, s := range v {
		b = varint.AppendUint(b, s.Count)
		b = AppendPosition(b, s.Cross)
	}
	return b
}

// ReadVector reads a vector that Append has written; nil if it has no entries. If the bytes are malformed,
// r.Err reports it.
func ReadVector(r *varint.Reader) Vector {
	var v Vector
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		v = append(v, Seen{Count: r.Uint64(), Cross: ReadPosition(r)})
	}
	return v
}
