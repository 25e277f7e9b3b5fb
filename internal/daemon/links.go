package daemon

import (
	"github.com/globalfs/globalfs/internal/identity"
	"github.com/globalfs/globalfs/internal/metrics"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/internal/transport"
)

// LinkStatus is the kind of the connections that another server has to this one.
type LinkStatus struct {
	Peer   string `json:"peer"`
	Fabric string `json:"fabric"` // tcp or shm
}

// links lists the connections of other servers.
func links(of *transport.Server) (all []LinkStatus) {
	for _, c := range of.Connections() {
		if c.Peer.Role == identity.Server {
			all = append(all, LinkStatus{Peer: c.Peer.Name, Fabric: c.Fabric})
		}
	}
	return all
}

// reportConnections is a source of metrics. Peers without certificates count as clients.
func reportConnections(to metrics.Report, of *transport.Server, self *topology.Server) {
	counts := map[[2]string]int{}
	for _, role := range []identity.Role{identity.Server, identity.Client, identity.Admin} {
		for _, fabric := range []string{transport.FabricTCP, transport.FabricShm} {
			counts[[2]string{string(role), fabric}] = 0
		}
	}
	for _, c := range of.Connections() {
		role := c.Peer.Role
		if role == "" {
			role = identity.Client
		}
		counts[[2]string{string(role), c.Fabric}] += c.Count
	}
	for labels, n := range counts {
		to.Value(metrics.ServerConnections, float64(n), string(self.Region), self.Name, labels[0], labels[1])
	}
}
