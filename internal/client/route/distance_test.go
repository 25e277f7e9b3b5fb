package route

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/topology"
)

// The distance of a partition is that of the nearest majority of its replicas, until a shorter or longer time
// was measured.
func TestNearest(t *testing.T) {
	spec := topology.Spec{Regions: []topology.Region{"us-west-2", "us-east-1", "eu-west-1"}, Datacenters: 1, Replicas: 3, Copies: 1}
	plan, err := spec.Plan()
	require.NoError(t, err)
	nearest := func(from topology.Region, all ...uint16) uint16 {
		r := &Router{}
		require.NoError(t, r.partitions.Grow(len(plan.Partitions), func(i int) (*partition, error) {
			p := &plan.Partitions[i]
			made := &partition{id: p.ID}
			made.replicas.Store(newReplicas(from, p.Replicas))
			return made, nil
		}))
		return r.nearest(all[0], all)
	}
	require.EqualValues(t, 1, nearest("us-west-2", 2, 1), "the own region")
	require.EqualValues(t, 1, nearest("us-west-2", 0, 1), "a majority of the global partition is farther")
	require.EqualValues(t, 0, nearest("us-west-2", 0, 2), "it is as near as the east: the first named")
	require.EqualValues(t, 2, nearest("us-west-2", 2, 0))
	require.EqualValues(t, 2, nearest("eu-west-1", 1, 2))
	require.EqualValues(t, 2, nearest("eu-west-1", 2, 99), "no such partition")
}

// Spikes do not change the distance much.
func TestDistance(t *testing.T) {
	var d distance
	d.add(0)
	require.EqualValues(t, 1, d.Load(), "measured")
	d = distance{}
	d.add(80 * time.Millisecond)
	d.add(70 * time.Millisecond)
	require.EqualValues(t, 70*time.Millisecond, d.Load())
	for range 3 {
		d.add(10 * time.Second)
	}
	require.Less(t, d.Load(), int64(100*time.Millisecond))
	for range 10 {
		d.add(140 * time.Millisecond)
	}
	require.EqualValues(t, 140*time.Millisecond, d.Load(), "the network has changed")
}
