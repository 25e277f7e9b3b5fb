package ordering

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// TestRingGoesThroughRegions, one after the other, and group after group if each has its own or all share
// one.
func TestRingGoesThroughRegions(t *testing.T) {
	groups, places := deployment(groupCount, members)
	for _, scenario := range Scenarios() {
		s := setting{self: 1, groups: groups, places: places, scenario: &scenario}
		ring := s.ring()
		require.Len(t, ring, len(places))
		for i, p := range ring {
			want := multicast.ProcessID(i + 1)
			if scenario.Name == "colocated" {
				want = multicast.ProcessID(i%groupCount*members + i/groupCount + 1)
			}
			require.Equal(t, want, p, "%s: place %d", scenario.Name, i)
		}
	}
}

// TestColocatedLeaders: FastCast is as fast as PrimCast at all replicas under little load (T 4.5.4), and
// Multi-Ring Paxos crosses each region only a few times.
func TestColocatedLeaders(t *testing.T) {
	c := Default()
	var err error
	c.Scenarios, err = ScenariosNamed([]string{"colocated"})
	require.NoError(t, err)
	c.Protocols, err = Named([]string{"primcast", "fastcast", "multiring"})
	require.NoError(t, err)
	c.Destinations, c.Outstanding, c.Cost = []int{2}, []int{1}, Cost{}
	r, err := Run(context.Background(), c)
	require.NoError(t, err)
	primCast, fastCast, multiRing := r.Points[0], r.Points[1], r.Points[2]
	require.InEpsilon(t, primCast.Median, fastCast.Median, 0.05)
	require.InEpsilon(t, primCast.P95, fastCast.P95, 0.05)
	require.Less(t, multiRing.Median, 300.0)
}
