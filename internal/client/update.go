package client

import (
	"slices"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/topology"
)

// Update tells the client how its cluster is now: replicas may have been replaced by others. What is asked for just now goes
// on; its next round asks the new ones.
func (c *Client) Update(cluster *topology.Cluster) {
	invariant.Check(len(cluster.Partitions) == len(c.partitions), "a cluster of %d partitions now has %d", len(c.partitions), len(cluster.Partitions))
	c.cluster.Store(cluster)
	for i, p := range c.partitions {
		if replicas := cluster.Partitions[i].Replicas; !sameReplicas(p.route.Load().replicas, replicas) {
			p.route.Store(newRoute(c.cfg.Region, replicas))
		}
	}
}

// sameReplicas compares them in any order.
func sameReplicas(a, b []topology.Replica) bool {
	return len(a) == len(b) && !slices.ContainsFunc(b, func(r topology.Replica) bool { return !slices.Contains(a, r) })
}
