package client_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/client/clienttest"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/topology"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/test/bubble"
)

// three is a region of three servers, each with a replica of both partitions.
var three = topology.Spec{Regions: []topology.Region{west}, Datacenters: 3, Replicas: 3, Copies: 1}

// onServer returns the replicas on the first server, which lead.
func onServer(n *clienttest.Network) (first []multicast.ProcessID) {
	for _, p := range n.Plan.Partitions {
		first = append(first, p.Replicas[0].Process)
	}
	return first
}

// A client waits 0.45 s for a server that answers nothing, and not for each partition or kind of request.
func TestHangingServer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := clienttest.New(t, three, lease)
		c := n.Client(t, west)
		n.Fail(clienttest.Silent, onServer(n)...)
		start := time.Now()
		create(t, c, local(n, 1), "f")
		create(t, c, posix.Root, "f")
		require.Equal(t, 450*time.Millisecond, time.Since(start))
	})
}

// It waits longer for a server that answers a query of its status: the server is only slow.
func TestSlowServer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := clienttest.New(t, three, lease)
		c := n.Client(t, west)
		n.Fail(clienttest.Lagging, onServer(n)...)
		start := time.Now()
		create(t, c, local(n, 1), "f")
		require.GreaterOrEqual(t, time.Since(start), 2*time.Second)
	})
}
