package micro

import (
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/bench/virtual"
	"github.com/globalfs/globalfs/internal/topology"
)

// Config of a run.
type Config struct {
	Regions  []topology.Region // the first three are the baseline deployment
	Sizes    []int             // numbers of regions for Figure 3.6; the first one is the reference
	Clients  []int             // of each mount in a closed loop, ascending
	Shards   []int             // numbers of partitions of a region; the first one is the reference
	Mixes    []float64         // parts of global creations, beside none and all
	Window   time.Duration     // of a measurement of local operations
	Far      time.Duration     // of a measurement with global operations
	Seed     uint64
	Prices   Prices
	Progress virtual.Progress
}

// baseline is the number of regions of Figures 3.4 and 3.5.
const baseline = 3

// Default measures all points of the thesis.
func Default() Config {
	return Config{
		Regions: []topology.Region{
			"us-west-2", "us-east-1", "eu-west-1", "us-west-1", "eu-central-1", "ap-northeast-1", "ap-southeast-1", "ap-southeast-2", "sa-east-1",
		},
		Sizes: []int{1, 2, 3, 6, 9}, Clients: []int{32, 256}, Shards: []int{1, 2, 4}, Mixes: []float64{0.1, 0.5},
		Window: 150 * time.Millisecond, Far: 600 * time.Millisecond, Seed: 1, Prices: DefaultPrices(),
	}
}

// Quick reduces a configuration to a run of seconds.
func (c *Config) Quick() {
	c.Sizes, c.Clients, c.Shards, c.Mixes = []int{1, 3}, []int{32}, []int{1, 4}, nil
	c.Window, c.Far = 20*time.Millisecond, 400*time.Millisecond
}

// Validate names the wrong field and the remedy.
func (c *Config) Validate() error {
	if len(c.Regions) < baseline {
		return fmt.Errorf("regions %v: give %d or more", c.Regions, baseline)
	}
	for _, n := range c.Sizes {
		if n < 1 || n > len(c.Regions) {
			return fmt.Errorf("%d regions: give 1 to %d", n, len(c.Regions))
		}
	}
	if len(c.Sizes) == 0 || len(c.Clients) == 0 || !slices.IsSorted(c.Clients) || c.Clients[0] < 1 {
		return fmt.Errorf("%v clients in %v regions: give numbers above 0, of clients in ascending order", c.Clients, c.Sizes)
	}
	for _, n := range c.Shards {
		if n < 1 || n > 16 {
			return fmt.Errorf("%d shards: give 1 to 16", n)
		}
	}
	for _, part := range c.Mixes {
		if part < 0 || part > 1 {
			return fmt.Errorf("%v of the operations are global: give 0 to 1", part)
		}
	}
	if c.Window <= 0 || c.Far <= 0 {
		return fmt.Errorf("windows of %v and %v: give positive durations", c.Window, c.Far)
	}
	return nil
}
