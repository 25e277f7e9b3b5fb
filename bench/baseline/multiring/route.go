package multiring

import (
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// route is a set of destination groups, resolved once for all messages that go there.
type route struct {
	encoded     []byte
	dest        []multicast.GroupID
	coordinator *peer // of the ring that orders what goes there
	rank        uint8 // of that ring
	own         bool  // the own group is among them
}

// maxRoutes bounds how many routes are kept. The possible ones are more than
// there are messages, those in use are few.
const maxRoutes = 1 << 12

// router finds routes by their encoding: the group ids as varints.
type router struct {
	coordinators map[multicast.GroupID]*peer
	global       *peer
	own          multicast.GroupID
	known        map[string]*route
	scratch      []byte
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
	found := &route{encoded: append([]byte(nil), encoded...), coordinator: x.global, rank: globalRank}
	r := varint.NewReader(encoded)
	for r.Len() > 0 {
		id := multicast.GroupID(r.Uint16())
		n := len(found.dest)
		if r.Err() != nil || x.coordinators[id] == nil || n > 0 && found.dest[n-1] >= id {
			return nil
		}
		found.own = found.own || id == x.own
		found.dest = append(found.dest, id)
	}
	switch len(found.dest) {
	case 0:
		return nil
	case 1:
		found.coordinator, found.rank = x.coordinators[found.dest[0]], groupRank
	}
	return found
}
