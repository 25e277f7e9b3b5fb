// Package routes resolves sets of destination groups once for all messages that go there, for the baseline
// protocols.
package routes

import (
	"slices"

	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Most bounds how many routes a Table keeps. The possible ones are more than
// there are messages, those in use are few.
const Most = 1 << 12

// Table finds routes by their encoding: the group ids as varints. The zero Table needs Resolve.
type Table[R any] struct {
	// Resolve makes the route to groups that are sorted and unique; nil if one of them is unknown. The
	// caller keeps both slices.
	Resolve func(encoded []byte, dest []multicast.GroupID) *R

	known   map[string]*R
	scratch []byte
}

// To gives the route to dest, nil if there is none.
func (t *Table[R]) To(dest []multicast.GroupID) *R {
	t.scratch = t.scratch[:0]
	for _, g := range dest {
		t.scratch = varint.AppendUint(t.scratch, g)
	}
	return t.Find(t.scratch)
}

// Find gives the route that is encoded, nil if its groups are not known, sorted and unique.
func (t *Table[R]) Find(encoded []byte) *R {
	if r := t.known[string(encoded)]; r != nil {
		return r
	}
	dest := decode(encoded)
	if len(dest) == 0 {
		return nil
	}
	found := t.Resolve(slices.Clone(encoded), dest)
	if found == nil {
		return nil
	}
	if t.known == nil || len(t.known) >= Most {
		t.known = map[string]*R{}
	}
	t.known[string(encoded)] = found
	return found
}

// Len is how many routes are kept.
func (t *Table[R]) Len() int { return len(t.known) }

func decode(encoded []byte) (dest []multicast.GroupID) {
	r := varint.NewReader(encoded)
	for r.Len() > 0 {
		id := multicast.GroupID(r.Uint16())
		if n := len(dest); r.Err() != nil || n > 0 && dest[n-1] >= id {
			return nil
		}
		dest = append(dest, id)
	}
	return dest
}
