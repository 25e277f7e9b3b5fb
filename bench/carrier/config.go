package carrier

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/globalfs/globalfs/bench/virtual"
	"github.com/globalfs/globalfs/internal/topology"
)

// Config of a comparison.
type Config struct {
	Carriers    []virtual.Carrier
	Experiments []string          // of Experiments()
	Regions     []topology.Region // three; the cut separates the last one
	Samples     int               // operations of each kind, for latency and cost
	Clients     []int             // numbers of clients, for contention
	Objects     []int             // numbers of contended files
	Duration    time.Duration     // of each measurement of contention, in virtual time
	InFlight    int               // commands from each side at the time of the cut
	Cut         time.Duration     // length of the cut, in virtual time
	Patience    time.Duration     // of the callers of these commands
	// ShardClients are the clients of two shards under load, for ShardWindow of virtual time.
	ShardClients int
	ShardWindow  time.Duration
	Seed         uint64
	Progress     virtual.Progress
}

// Experiments returns the names of the experiments.
func Experiments() []string { return []string{"latency", "contention", "cut", "cost", "shards"} }

// Default compares all carriers in all experiments.
func Default() Config {
	return Config{
		Carriers: virtual.Carriers(), Experiments: Experiments(), Regions: []topology.Region{"us-west-2", "us-east-1", "eu-west-1"},
		Samples: 100, Clients: []int{1, 8, 32}, Objects: []int{1, 8, 64}, Duration: 20 * time.Second,
		InFlight: 16, Cut: 30 * time.Second, Patience: 10 * time.Second, ShardClients: 32, ShardWindow: 200 * time.Millisecond, Seed: 1,
	}
}

// Quick shortens a configuration until it takes seconds of real time.
func (c *Config) Quick() {
	c.Samples, c.Clients, c.Objects, c.Duration = 10, []int{8}, []int{1, 8}, 5*time.Second
	c.InFlight, c.Cut, c.Patience = 8, 10*time.Second, 5*time.Second
	c.ShardClients, c.ShardWindow = 16, 100*time.Millisecond
}

// Named returns the carriers with the given names; all if there are none.
func Named(names []string) ([]virtual.Carrier, error) {
	all := virtual.Carriers()
	if len(names) == 0 {
		return all, nil
	}
	var known []string
	for i := range all {
		known = append(known, all[i].Name)
	}
	var chosen []virtual.Carrier
	for _, name := range names {
		i := slices.Index(known, name)
		if i < 0 {
			return nil, fmt.Errorf("unknown carrier %q: give some of %s", name, strings.Join(known, ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// Validate returns an error with the wrong field, its value and the remedy.
func (c *Config) Validate() error {
	for _, e := range c.Experiments {
		if !slices.Contains(Experiments(), e) {
			return fmt.Errorf("unknown experiment %q: give some of %s", e, strings.Join(Experiments(), ", "))
		}
	}
	sorted := slices.Sorted(slices.Values(c.Regions))
	if len(sorted) != 3 || len(slices.Compact(sorted)) != 3 {
		return fmt.Errorf("regions %v: give three", c.Regions)
	}
	if c.Samples < 1 || c.InFlight < 1 {
		return fmt.Errorf("%d samples, %d commands in flight: give 1 or more", c.Samples, c.InFlight)
	}
	for _, n := range slices.Concat(c.Clients, c.Objects) {
		if n < 1 || n > 1024 {
			return fmt.Errorf("%d clients or objects: give 1 to 1024", n)
		}
	}
	if c.ShardClients < 1 || c.ShardWindow <= 0 {
		return fmt.Errorf("%d clients of two shards for %v: give 1 or more, and a positive duration", c.ShardClients, c.ShardWindow)
	}
	if c.Duration <= 0 || c.Cut <= 0 || c.Patience < time.Millisecond {
		return fmt.Errorf("duration %v, cut %v, patience %v: give positive durations", c.Duration, c.Cut, c.Patience)
	}
	return nil
}
