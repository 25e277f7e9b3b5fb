package whitebox

import (
	"slices"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// route is a set of destination groups.
type route struct {
	encoded []byte
	dest    []multicast.GroupID
	groups  []*group
	own     int // the index of the own group, or -1
}

// index returns the place of g among the groups of r, or -1.
func (r *route) index(g *group) int { return slices.Index(r.groups, g) }

// resolve makes a route, nil if a group is not known.
func (c *Core) resolve(encoded []byte, dest []multicast.GroupID) *route {
	r := &route{encoded: encoded, dest: dest}
	for _, id := range dest {
		g := c.groups[id]
		if g == nil {
			return nil
		}
		r.groups = append(r.groups, g)
	}
	r.own = r.index(c.own)
	return r
}
