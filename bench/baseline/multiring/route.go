package multiring

import (
	"slices"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// route is a set of destination groups.
type route struct {
	encoded     []byte
	dest        []multicast.GroupID
	coordinator *peer // of the ring that orders messages to these groups
	rank        uint8 // of that ring
	own         bool  // the own group is among them
}

// resolve makes a route, nil if a group is not known.
func (c *Core) resolve(encoded []byte, dest []multicast.GroupID) *route {
	if slices.ContainsFunc(dest, func(g multicast.GroupID) bool { return c.coordinators[g] == nil }) {
		return nil
	}
	r := &route{encoded: encoded, dest: dest, coordinator: c.globalCoordinator, rank: globalRank, own: slices.Contains(dest, c.ownGroup)}
	if len(dest) == 1 {
		r.coordinator, r.rank = c.coordinators[dest[0]], groupRank
	}
	return r
}
