package micro

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/driver"
)

// short has windows that tests can afford.
func short() Config {
	c := Default()
	c.Quick()
	return c
}

// Equal seeds give equal figures.
func TestSeed(t *testing.T) {
	run := func(seed uint64) Point {
		c := short()
		c.Seed = seed
		p, err := c.measure(t.Context(), load{operation: Write, regions: c.Regions[:2], global: 0.1}, []int{4})
		require.NoError(t, err)
		return p
	}
	first := run(1)
	require.Equal(t, first, run(1))
	require.NotEqual(t, first, run(2))
}

// The prices fit the measured costs, but for a third.
func TestCosts(t *testing.T) {
	c, r := short(), &Report{}
	c.Window = 40 * time.Millisecond
	require.NoError(t, c.costs(t.Context(), r))
	require.Len(t, r.Modelled, len(Measured()))
	for i, m := range Measured() {
		require.InEpsilon(t, m.Servers, r.Modelled[i].Servers, 0.33, m)
		require.InEpsilon(t, m.Mounts, r.Modelled[i].Mounts, 0.8, m)
	}
}

// Reads, local changes and global changes are three groups of latencies; a global change takes at least the
// round trip to the nearest other region.
func TestHalfLoad(t *testing.T) {
	c := short()
	of := func(operation string, part float64) Point {
		p, err := c.measure(t.Context(), load{operation: operation, regions: c.Regions[:baseline], global: part}, []int{4})
		require.NoError(t, err)
		require.Len(t, p.Latencies, 101)
		require.True(t, slices.IsSorted(p.Latencies))
		return p
	}
	read, near, far := of(Read, 1), of(Write, 0), of(Write, 1)
	require.Less(t, read.P50, near.P50)
	require.Less(t, 5*near.P50, far.P50)
	require.Greater(t, far.P50, 70.0)
}

// Local work of a region is not slower because of other regions, and all replicas are equal at the end.
func TestRegions(t *testing.T) {
	c := short()
	c.Window = 60 * time.Millisecond
	throughput := map[int]float64{}
	for _, n := range []int{1, 3} {
		r, err := c.prepare(&load{operation: Create, regions: c.Regions[:n]}, 8, 0)
		require.NoError(t, err)
		r.startLoops()
		r.Pass(r.end - r.Now)
		throughput[n] = float64(len(r.took)) / float64(n)
		r.Pass(20 * time.Second)
		require.NoError(t, r.Verify())
	}
	require.Greater(t, throughput[1], 300.0)
	require.InEpsilon(t, throughput[1], throughput[3], 0.03)
}

// Several partitions use the servers of a region better than one.
func TestShards(t *testing.T) {
	c, r := short(), &Report{}
	require.NoError(t, c.shards(t.Context(), r))
	require.Len(t, r.Shards, 2)
	require.Greater(t, r.Shards[1].Ratio, 1.2)
}

// A step that takes one request wastes the work that requests share; the bound of the driver costs nothing.
func TestSteps(t *testing.T) {
	c := short()
	c.Window, c.Far = 100*time.Millisecond, 400*time.Millisecond
	all, err := c.Steps(t.Context(), []int{64}, 1)
	require.NoError(t, err)
	require.Len(t, all, 2*len(batches))
	require.Less(t, Least(all, 1), 0.95)
	require.Greater(t, Least(all, driver.MostRequests), 0.9)
}

// An error names the value and the remedy.
func TestValidate(t *testing.T) {
	c := Default()
	require.NoError(t, c.Validate())
	for remedy, change := range map[string]func(*Config){
		"give 3 or more":          func(c *Config) { c.Regions = c.Regions[:2] },
		"10 regions: give 1 to 9": func(c *Config) { c.Sizes = []int{10} },
		"ascending order":         func(c *Config) { c.Clients = []int{8, 2} },
		"17 shards: give 1 to 16": func(c *Config) { c.Shards = []int{17} },
		"1.5 of the operations":   func(c *Config) { c.Mixes = []float64{1.5} },
		"give positive durations": func(c *Config) { c.Window = 0 },
	} {
		c := Default()
		change(&c)
		require.ErrorContains(t, c.Validate(), remedy)
	}
}
