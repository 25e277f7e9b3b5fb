package whitebox

import (
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// route is a set of destination groups, resolved once for all messages that go there.
type route struct {
	encoded []byte
	dest    []multicast.GroupID
	groups  []*group
	own     int // the index of the own group, or -1
}

// index is the place of g among the groups of r, or -1.
func (r *route) index(g *group) int {
	for i, other := range r.groups {
		if other == g {
			return i
		}
	}
	return -1
}

// maxRoutes bounds how many routes are kept. The possible ones are more than
// there are messages, those in use are few.
const maxRoutes = 1 << 12

// router finds routes by their encoding: the group ids as varints.
type router struct {
	groups  map[multicast.GroupID]*group
	own     *group
	known   map[string]*route
	scratch []byte
}

// to gives the route to dest, nil if there is none.
func (x *router) to(dest []multicast.GroupID) *route {
	x.scratch = x.scratch[:0]
	for _, g := range dest {
		x.scratch = varint.AppendUint(x.scratch, g)
	}
	return x.find(x.scratch)
}

// find gives the route that is encoded, nil if its groups are not known, sorted and unique.
func (x *router) find(encoded []byte) *route {
	if r := x.known[string(encoded)]; r != nil {
		return r
	}
	found := x.resolve(encoded)
	if found != nil {
		if len(x.known) >= maxRoutes {
			clear(x.known)
		}
		x.known[string(encoded)] = found
	}
	return found
}

func (x *router) resolve(encoded []byte) *route {
	found := &route{encoded: append([]byte(nil), encoded...), own: -1}
	r := varint.NewReader(encoded)
	for r.Len() > 0 {
		id := multicast.GroupID(r.Uint16())
		g, n := x.groups[id], len(found.dest)
		if r.Err() != nil || g == nil || n > 0 && found.dest[n-1] >= id {
			return nil
		}
		if g == x.own {
			found.own = n
		}
		found.dest, found.groups = append(found.dest, id), append(found.groups, g)
	}
	if len(found.dest) == 0 {
		return nil
	}
	return found
}
