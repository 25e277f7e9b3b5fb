package transport

import (
	"cmp"
	"slices"

	"github.com/globalfs/globalfs/internal/identity"
)

// The kinds of connections of the framed protocol.
const (
	FabricTCP = "tcp"
	FabricShm = "shm" // shared memory of this host
)

// Connections describes the connections that one peer has opened with the framed protocol, and its sockets.
type Connections struct {
	Peer   identity.Identity // zero: it has no certificate
	Fabric string
	Count  int
}

// Connections lists the connections of all peers, in order.
func (s *Server) Connections() []Connections {
	type key struct{ peer, fabric string }
	all := map[key]*Connections{}
	count := func(of *peerInfo, shared bool) {
		one := Connections{Fabric: FabricTCP}
		if shared {
			one.Fabric = FabricShm
		}
		if of != nil {
			one.Peer = of.identity
		}
		k := key{one.Peer.String(), one.Fabric}
		if all[k] == nil {
			all[k] = &one
		}
		all[k].Count++
	}
	s.framed.mu.Lock()
	for c := range s.framed.sessions {
		count(c.info, c.shared)
	}
	for c := range s.framed.sockets {
		count(c.info, true)
	}
	s.framed.mu.Unlock()
	list := make([]Connections, 0, len(all))
	for _, c := range all {
		list = append(list, *c)
	}
	slices.SortFunc(list, func(a, b Connections) int {
		return cmp.Or(cmp.Compare(a.Peer.String(), b.Peer.String()), cmp.Compare(a.Fabric, b.Fabric))
	})
	return list
}
