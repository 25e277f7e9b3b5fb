package replica

import (
	"encoding/base64"
	"fmt"

	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Seen is what somebody has seen of a partition.
type Seen struct {
	Count uint64             // commands in the order of the partition
	Cross multicast.Position // commands of several partitions, this one among them, in the order between partitions
}

// Covers reports whether s has all that other has.
func (s Seen) Covers(other Seen) bool {
	return s.Count >= other.Count && s.Cross.Compare(other.Cross) >= 0
}

// Vector is the vector clock: what was seen of each partition, by its index (T 3.4.1). Missing entries
// are zero.
type Vector []Seen

// Of gives the entry of partition p.
func (v Vector) Of(p uint16) Seen {
	if int(p) < len(v) {
		return v[p]
	}
	return Seen{}
}

// Merge returns the pointwise maximum of v and other, in v if it is large enough.
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

// Token gives v as text, for people and scripts to carry to another machine.
func (v Vector) Token() string { return base64.RawURLEncoding.EncodeToString(appendVector(nil, v)) }

// ParseToken reads what Token gave.
func ParseToken(text string) (Vector, error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("token %q: %w", text, err)
	}
	r := varint.NewReader(b)
	v := readVector(r)
	if err := r.Done(); err != nil {
		return nil, fmt.Errorf("token %q: %w", text, err)
	}
	return v, nil
}

func appendVector(b []byte, v Vector) []byte {
	b = varint.AppendUint(b, uint64(len(v)))
	for _, s := range v {
		b = varint.AppendUint(b, s.Count)
		b = appendPosition(b, s.Cross)
	}
	return b
}

func readVector(r *varint.Reader) Vector {
	var v Vector
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		v = append(v, Seen{Count: r.Uint64(), Cross: readPosition(r)})
	}
	return v
}

// appendPosition is one byte for the zero position.
func appendPosition(b []byte, p multicast.Position) []byte {
	b = varint.AppendUint(b, uint64(p.Final))
	if p.Final == 0 {
		return b
	}
	b = varint.AppendUint(b, uint32(p.ID.Sender))
	return varint.AppendUint(b, p.ID.Seq)
}

func readPosition(r *varint.Reader) (p multicast.Position) {
	if p.Final = multicast.Timestamp(r.Uint64()); p.Final != 0 {
		p.ID = multicast.MessageID{Sender: multicast.ProcessID(r.Uint32()), Seq: r.Uint64()}
	}
	return p
}
