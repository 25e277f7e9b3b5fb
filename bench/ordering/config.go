package ordering

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Config of a run.
type Config struct {
	Scenarios []Scenario
	Protocols []Protocol
	// Destinations of a message; none: the destinations of each scenario.
	Destinations []int
	// Outstanding messages of each client, ascending: the points of a curve.
	Outstanding []int
	Window      time.Duration // of virtual time; 0: the window of each scenario
	Think       time.Duration // of a client, on average; 0: the mean of each scenario
	Seed        uint64
	Payload     int // bytes
	Cost        Cost
	Skew        time.Duration // between a wall clock and true time, at most
	// Unpacked: a step takes one frame or one proposal, so that frames hold few messages. This is for the
	// comparison with packing alone.
	Unpacked bool
	// Progress is called with the name of the next measurement; nil: not called.
	Progress func(what string)
}

// Default measures all points of the thesis.
func Default() Config {
	return Config{
		Scenarios: Scenarios(), Protocols: Protocols(),
		Outstanding: []int{1, 2, 4, 8, 16, 32, 128, 512},
		Seed:        1, Payload: 64, Cost: DefaultCost(), Skew: time.Millisecond,
	}
}

// Quick reduces a configuration to a run of seconds.
func (c *Config) Quick() {
	c.Destinations = []int{2}
	c.Outstanding = []int{2, 32}
	for i := range c.Scenarios {
		s := &c.Scenarios[i]
		s.Warmup, s.Window = max(4*s.longest(), 2*time.Millisecond), max(2*s.longest(), 10*time.Millisecond)
	}
}

// Validate names the wrong field and the remedy.
func (c *Config) Validate() error {
	for _, d := range c.Destinations {
		if d < 1 || d > groupCount {
			return fmt.Errorf("%d destinations: there are %d groups, give 1 to %d", d, groupCount, groupCount)
		}
	}
	if len(c.Outstanding) == 0 || !slices.IsSorted(c.Outstanding) || c.Outstanding[0] < 1 {
		return fmt.Errorf("%v outstanding messages: give numbers above 0 in ascending order", c.Outstanding)
	}
	if c.Window < 0 {
		return fmt.Errorf("a window of %v: give a positive duration", c.Window)
	}
	if c.Think < 0 {
		return fmt.Errorf("clients that think for %v: give 0 or more", c.Think)
	}
	if c.Skew < 0 {
		return fmt.Errorf("clocks are off by %v: give 0 or more", c.Skew)
	}
	if c.Payload < 0 || c.Payload > 1<<20 {
		return fmt.Errorf("a payload of %d bytes: give 0 to %d", c.Payload, 1<<20)
	}
	return c.Cost.Validate()
}

// saturated ends a curve: more outstanding messages must raise the throughput by at least this factor.
const saturated = 1.02

// Run measures all points, and the steps. When ctx ends it gives the results so far, with the error.
func Run(ctx context.Context, c Config) (*Report, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	r := &Report{Setup: newSetup(&c)}
	for i := range c.Protocols {
		c.say("communication steps of " + c.Protocols[i].Title)
		steps, err := countSteps(ctx, &c.Protocols[i], c.Seed)
		if err != nil {
			return r, err
		}
		r.Steps = append(r.Steps, steps)
	}
	for _, s := range c.Scenarios {
		if c.Window > 0 {
			s.Window = c.Window
		}
		if c.Think > 0 {
			s.Think = c.Think
		}
		destinations := c.Destinations
		if len(destinations) == 0 {
			destinations = s.Destinations
		}
		for _, d := range destinations {
			for i := range c.Protocols {
				if err := c.curve(ctx, r, &load{scenario: &s, protocol: &c.Protocols[i], destinations: d}); err != nil {
					return r, err
				}
			}
		}
	}
	return r, nil
}

// curve measures growing loads until the protocol is saturated.
func (c *Config) curve(ctx context.Context, r *Report, l *load) error {
	before := 0.0
	for _, l.outstanding = range c.Outstanding {
		c.say(l.String())
		p, err := c.measure(ctx, l)
		if err != nil {
			return err
		}
		r.Points = append(r.Points, p)
		if p.Throughput < before*saturated {
			return nil
		}
		before = p.Throughput
	}
	return nil
}

func (c *Config) say(what string) {
	if c.Progress != nil {
		c.Progress(what)
	}
}
