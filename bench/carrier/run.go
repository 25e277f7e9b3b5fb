package carrier

import (
	"context"
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/bench/virtual"
)

// Report is the result of a comparison. All times are virtual.
type Report struct {
	Setup      Setup        `json:"setup"`
	Latency    []Latency    `json:"latency,omitempty"`
	Costs      []Cost       `json:"costs,omitempty"`
	Contention []Contention `json:"contention,omitempty"`
	Held       []Held       `json:"held,omitempty"`
	Callers    []Callers    `json:"callers,omitempty"`
	Local      []Local      `json:"local,omitempty"`
	Classes    []Class      `json:"classes,omitempty"`
	Shards     []Shard      `json:"shards,omitempty"`
}

// Setup has the parameters of the figures.
type Setup struct {
	Regions  []string `json:"regions"`
	Seed     uint64   `json:"seed"`
	Samples  int      `json:"samples"`
	Duration float64  `json:"duration_s"`
	InFlight int      `json:"in_flight"`
	Cut      float64  `json:"cut_s"`
	Patience float64  `json:"patience_s"`
}

// Run makes all measurements of c. When ctx ends it returns the results so far, with the error.
func Run(ctx context.Context, c Config) (*Report, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	r := &Report{Setup: Setup{
		Seed: c.Seed, Samples: c.Samples, Duration: c.Duration.Seconds(), InFlight: c.InFlight, Cut: c.Cut.Seconds(),
		Patience: c.Patience.Seconds(),
	}}
	for _, region := range c.Regions {
		r.Setup.Regions = append(r.Setup.Regions, string(region))
	}
	for _, e := range []struct {
		name    string
		measure func(context.Context, *Report) error
	}{{"latency", c.latencies}, {"contention", c.contention}, {"cut", c.cuts}, {"shards", c.shards}} {
		if slices.Contains(c.Experiments, e.name) || e.name == "latency" && slices.Contains(c.Experiments, "cost") {
			if err := e.measure(ctx, r); err != nil {
				return r, fmt.Errorf("%s: %w", e.name, err)
			}
		}
	}
	return r, nil
}

// latencies measures latency and cost in the same runs.
func (c *Config) latencies(ctx context.Context, r *Report) error {
	for _, a := range acts() {
		for i := range c.Carriers {
			carrier := &c.Carriers[i]
			c.Progress.Say(fmt.Sprintf("latency, cost: %s over %v from %s, %s", a.operation, a.names(c.Regions), c.Regions[a.client], carrier.Name))
			l, cost, err := c.latency(carrier, &a)
			if err = virtual.OrEnded(ctx, err); err != nil {
				return fmt.Errorf("%s: %w", carrier.Name, err)
			}
			if slices.Contains(c.Experiments, "latency") {
				r.Latency = append(r.Latency, l)
			}
			if slices.Contains(c.Experiments, "cost") && a.client == a.parties[0] {
				r.Costs = append(r.Costs, cost)
			}
		}
	}
	return nil
}

func (c *Config) contention(ctx context.Context, r *Report) error {
	for _, objects := range c.Objects {
		for _, clients := range c.Clients {
			for i := range c.Carriers {
				carrier := &c.Carriers[i]
				c.Progress.Say(fmt.Sprintf("contention: %d clients, %d files, %s", clients, objects, carrier.Name))
				row, err := c.contend(carrier, clients, objects)
				if err = virtual.OrEnded(ctx, err); err != nil {
					return fmt.Errorf("%s: %w", carrier.Name, err)
				}
				r.Contention = append(r.Contention, row)
			}
		}
	}
	return nil
}

func (c *Config) cuts(ctx context.Context, r *Report) error {
	for i := range c.Carriers {
		carrier := &c.Carriers[i]
		c.Progress.Say("cut: " + carrier.Name)
		rows, err := c.cut(carrier)
		if err = virtual.OrEnded(ctx, err); err != nil {
			return fmt.Errorf("%s: %w", carrier.Name, err)
		}
		r.Held, r.Callers = append(r.Held, rows.held...), append(r.Callers, rows.callers...)
		r.Local, r.Classes = append(r.Local, rows.local...), append(r.Classes, rows.classes...)
	}
	return nil
}
