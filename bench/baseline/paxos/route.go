package paxos

import "github.com/globalfs/globalfs/pkg/multicast"

// route is a set of destination groups.
type route struct {
	encoded []byte
	dest    []multicast.GroupID
	groups  []*Group
	bits    uint64 // of the groups
	own     bool   // the own group is one of them
}

// resolve makes a route, nil if a group is not known.
func (c *Member) resolve(encoded []byte, dest []multicast.GroupID) *route {
	r := &route{encoded: encoded, dest: dest}
	for _, id := range dest {
		g := c.groups[id]
		if g == nil {
			return nil
		}
		r.own = r.own || g == c.own
		r.bits |= g.bit
		r.groups = append(r.groups, g)
	}
	return r
}
