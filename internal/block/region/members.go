package region

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/ring"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Members are the storage servers of a region at a version. To change them, make the complete list of the
// next version and give it to one server: the others learn it from each other.
type Members struct {
	Version uint64   `json:"version"` // from 1
	Servers []Server `json:"servers"`
}

// Server is one storage server of a region.
type Server struct {
	ID         multicast.ProcessID `json:"id"`
	Datacenter string              `json:"datacenter"`
	// Leaving is set if the server owns no block any more. The server still answers requests, and hands back
	// all its blocks. It may be removed when its Status reports that it is drained, and all servers know that
	// it leaves.
	Leaving bool `json:"leaving,omitempty"`
}

// Limits of members, for Validate.
const (
	maxServers    = 4096
	maxDatacenter = 255 // bytes of its name
)

// Validate returns an error with the wrong value.
func (m *Members) Validate() error {
	if m.Version == 0 || len(m.Servers) > maxServers {
		return fmt.Errorf("members of version %d with %d servers: give a version from 1 and at most %d servers", m.Version, len(m.Servers), maxServers)
	}
	seen, staying := make(map[multicast.ProcessID]bool), 0
	for _, s := range m.Servers {
		switch {
		case s.ID == 0 || seen[s.ID]:
			return fmt.Errorf("members: server %d is listed twice, or has no id", s.ID)
		case len(s.Datacenter) > maxDatacenter:
			return fmt.Errorf("members: the datacenter of server %d has a name of %d bytes: use at most %d", s.ID, len(s.Datacenter), maxDatacenter)
		}
		seen[s.ID] = true
		if !s.Leaving {
			staying++
		}
	}
	if staying == 0 {
		return fmt.Errorf("members of version %d: all servers are leaving: at least one must stay to keep the blocks", m.Version)
	}
	return nil
}

// Newer reports whether m comes after other. Two operators may make different members of one version: these
// are ordered, too, by their content, and equally on all servers.
func (m *Members) Newer(other *Members) bool { return other.stamp().before(m.stamp()) }

// stamp identifies members: different members have different stamps.
type stamp struct{ version, content uint64 }

func (s stamp) before(other stamp) bool {
	return cmp.Or(cmp.Compare(s.version, other.version), cmp.Compare(s.content, other.content)) < 0
}

func (m *Members) stamp() stamp {
	sorted := Members{Version: m.Version, Servers: slices.Clone(m.Servers)}
	slices.SortFunc(sorted.Servers, func(a, b Server) int { return cmp.Compare(a.ID, b.ID) })
	h := fnv.New64a()
	_, _ = h.Write(appendMembers(nil, &sorted))
	return stamp{version: m.Version, content: h.Sum64()}
}

func appendStamp(b []byte, s stamp) []byte {
	return varint.AppendUint(varint.AppendUint(b, s.version), s.content)
}

func readStamp(r *varint.Reader) stamp { return stamp{version: r.Uint64(), content: r.Uint64()} }

func appendMembers(b []byte, m *Members) []byte {
	b = varint.AppendUint(b, m.Version)
	b = varint.AppendUint(b, uint64(len(m.Servers)))
	for _, s := range m.Servers {
		b = varint.AppendUint(b, uint32(s.ID))
		b = varint.AppendBytes(b, s.Datacenter)
		leaving := uint8(0)
		if s.Leaving {
			leaving = 1
		}
		b = append(b, leaving)
	}
	return b
}

func readMembers(r *varint.Reader) (m Members) {
	m.Version = r.Uint64()
	n := r.Count()
	if n > maxServers {
		r.Fail()
		return Members{}
	}
	for range n {
		m.Servers = append(m.Servers, Server{
			ID: multicast.ProcessID(r.Uint32()), Datacenter: r.String(), Leaving: r.Uint(1) == 1,
		})
	}
	if r.Err() == nil && m.Validate() != nil {
		r.Fail()
	}
	return m
}

// view has the members and what follows from them. It is immutable.
type view struct {
	members Members
	stamp   stamp
	ring    *ring.Ring            // of those that stay
	servers []multicast.ProcessID // all
	copies  int                   // of each block: as configured, or the number of servers if that is smaller
}

func newView(m Members, copies int) (*view, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	m.Servers = slices.Clone(m.Servers)
	v := &view{members: m, stamp: m.stamp()}
	var staying []ring.Member
	for _, s := range m.Servers {
		v.servers = append(v.servers, s.ID)
		if !s.Leaving {
			staying = append(staying, ring.Member{ID: s.ID, Datacenter: s.Datacenter})
		}
	}
	slices.Sort(v.servers)
	var err error
	if v.ring, err = ring.New(staying); err != nil {
		return nil, err
	}
	v.copies = min(copies, v.ring.Len())
	return v, nil
}

// isLeaving reports whether a server is a member that owns nothing any more.
func (v *view) isLeaving(server multicast.ProcessID) bool {
	return slices.Contains(v.servers, server) && !v.ring.Has(server)
}

// owners returns the servers that keep a block by the ring. The slice is shared.
func (v *view) owners(id block.ID) []multicast.ProcessID { return v.ring.Owners(id, v.copies) }

// keepers returns the servers that keep a block as long as the servers in down are down. The slice is shared.
func (v *view) keepers(id block.ID, down []multicast.ProcessID) []multicast.ProcessID {
	return v.ring.OwnersAmong(id, v.copies, down)
}

// order returns all servers in the order in which they may have a block.
func (v *view) order(id block.ID) []multicast.ProcessID {
	order := v.ring.Walk(id)
	for _, s := range v.members.Servers {
		if s.Leaving {
			order = append(order, s.ID)
		}
	}
	return order
}
