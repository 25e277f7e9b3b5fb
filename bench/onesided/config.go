package onesided

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
)

const (
	groupCount = 8
	members    = 3
	maxGroups  = 16 // of a message
)

// Cost has the costs of operations in virtual time.
type Cost struct {
	Step       time.Duration `json:"step_ns"`
	Op         time.Duration `json:"op_ns"`
	LatencyMin time.Duration `json:"latency_min_ns"` // of one direction
	LatencyMax time.Duration `json:"latency_max_ns"`
	Bandwidth  int           `json:"bandwidth_bytes_per_s"` // of each queue
}

// Config of a run.
type Config struct {
	Shapes       []string
	Beside       []string // protocols of package ordering
	Destinations []int
	Outstanding  []int // messages that each client has outstanding
	Warmup       time.Duration
	Window       time.Duration
	Seed         uint64
	Payload      int
	Cost         Cost
	Progress     func(what string) // nil: nobody is told
}

// Default has the prices of an RDMA network of 56 Gbit/s.
func Default() Config {
	return Config{
		Shapes: shapeNames(), Beside: []string{"primcast", "fastcast", "byzcast"}, Destinations: []int{1, 2, 4, 8}, Outstanding: []int{1, 16},
		Warmup: 500 * time.Microsecond, Window: 2 * time.Millisecond, Seed: 1, Payload: 64,
		Cost: Cost{
			Step: 300 * time.Nanosecond, Op: 100 * time.Nanosecond,
			LatencyMin: 700 * time.Nanosecond, LatencyMax: 900 * time.Nanosecond, Bandwidth: 6_000_000_000,
		},
	}
}

// Quick thins a configuration out until it takes seconds.
func (c *Config) Quick() {
	c.Destinations, c.Outstanding, c.Window = []int{1, 4}, []int{1}, 500*time.Microsecond
}

// parents give the trees: the parent of group i+1 is group shape[i].
var shapes = map[string][]multicast.GroupID{
	"base":    {0, 0, 1, 1, 2, 2, 3},
	"breadth": {0, 0, 0, 0, 0, 0, 0},
	"depth":   {0, 1, 2, 3, 4, 5, 6},
}

func shapeNames() []string { return []string{"base", "breadth", "depth"} }

// Validate returns an error that names the wrong field and the remedy.
func (c *Config) Validate() error {
	for _, s := range c.Shapes {
		if shapes[s] == nil {
			return fmt.Errorf("there is no tree %q: give some of %s", s, strings.Join(shapeNames(), ", "))
		}
	}
	for _, d := range c.Destinations {
		if d < 1 || d > groupCount {
			return fmt.Errorf("%d destinations: there are %d groups, give 1 to %d", d, groupCount, groupCount)
		}
	}
	switch {
	case len(c.Outstanding) == 0 || !slices.IsSorted(c.Outstanding) || c.Outstanding[0] < 1:
		return fmt.Errorf("%v outstanding messages: give numbers above 0 in ascending order", c.Outstanding)
	case c.Window <= 0 || c.Warmup < 0:
		return fmt.Errorf("a window of %v after %v: give positive durations", c.Window, c.Warmup)
	case c.Payload < 0 || c.Payload > 1<<16:
		return fmt.Errorf("a payload of %d bytes: give 0 to %d", c.Payload, 1<<16)
	case c.Cost.Step <= 0 || c.Cost.Op < 0 || c.Cost.LatencyMin < 0 || c.Cost.LatencyMax < c.Cost.LatencyMin || c.Cost.Bandwidth < 0:
		return fmt.Errorf("prices %+v: give positive ones, and the lower latency first", c.Cost)
	}
	return nil
}
