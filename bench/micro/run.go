package micro

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/bench/virtual"
)

// Report is the result of a run. All times are virtual.
type Report struct {
	Regions []string `json:"regions"`
	Seed    uint64   `json:"seed"`
	Prices  Prices   `json:"prices_ns"`
	// Baseline has each operation in the baseline deployment, local and global; Mixes has creations.
	Baseline []Point `json:"baseline"`
	Mixes    []Point `json:"mixes"`
	Scale    []Scale `json:"scale"`
	Shards   []Shard `json:"shards"`
	// Measured and Modelled are the costs of processes and of this model.
	Measured []Cost `json:"measured_costs"`
	Modelled []Cost `json:"modelled_costs"`
	// Processes are points of Scale on processes.
	Processes []Real `json:"processes"`
}

// Scale is a local operation in a number of regions.
type Scale struct {
	Point
	// Ratio is the throughput of a region, on average, as a part of that of a region alone.
	Ratio float64 `json:"ratio"`
}

// Shard is creations in directories of their own in one region with several partitions.
type Shard struct {
	Partitions int     `json:"partitions"`
	Eight      float64 `json:"eight_clients_per_second"`
	Most       float64 `json:"most_per_second"` // of any number of clients
	Busy       float64 `json:"busy"`            // of the busiest server, at Most
	Ratio      float64 `json:"ratio"`           // of Most, to the first row
}

// Run makes all measurements. When ctx ends it returns the results so far, with the error.
func Run(ctx context.Context, c Config) (*Report, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	r := &Report{Seed: c.Seed, Prices: c.Prices}
	for _, region := range c.Regions {
		r.Regions = append(r.Regions, string(region))
	}
	if err := c.costs(ctx, r); err != nil {
		return r, err
	}
	for _, operation := range operations() {
		for _, part := range []float64{0, 1} {
			p, err := c.measure(ctx, load{operation: operation, regions: c.Regions[:baseline], global: part}, c.Clients)
			if err != nil {
				return r, err
			}
			r.Baseline = append(r.Baseline, p)
		}
	}
	for _, part := range c.Mixes {
		p, err := c.highest(ctx, &load{operation: Create, regions: c.Regions[:baseline], global: part}, c.Clients)
		if err != nil {
			return r, err
		}
		r.Mixes = append(r.Mixes, p)
	}
	if len(c.Mixes) > 0 {
		r.Mixes = slices.Concat([]Point{r.Find(Create, 0)}, r.Mixes, []Point{r.Find(Create, 1)})
	}
	for _, operation := range operations() {
		if err := c.scale(ctx, r, operation); err != nil {
			return r, err
		}
	}
	return r, c.shards(ctx, r)
}

// shards measures creations by eight clients, and by as many as are needed, in a region with several
// partitions.
func (c *Config) shards(ctx context.Context, r *Report) error {
	for _, n := range c.Shards {
		l := load{operation: Create, regions: c.Regions[:1], shards: n}
		c.Progress.Say(fmt.Sprintf("%v, 8 clients", &l))
		eight, err := c.some(&l, 8)
		if err = virtual.OrEnded(ctx, err); err != nil {
			return fmt.Errorf("%v: %w", &l, err)
		}
		most, err := c.highest(ctx, &l, c.Clients)
		if err != nil {
			return err
		}
		row := Shard{Partitions: n, Eight: eight.PerSecond, Most: most.PerSecond, Busy: most.Busy, Ratio: 1}
		if len(r.Shards) > 0 {
			row.Ratio = row.Most / r.Shards[0].Most
		}
		r.Shards = append(r.Shards, row)
	}
	return nil
}

// costs compares the costs of the model with those of processes.
func (c *Config) costs(ctx context.Context, r *Report) error {
	r.Measured, r.Processes = Measured(), Processes()
	for _, m := range r.Measured {
		c.Progress.Say(fmt.Sprintf("cost of %s, %d clients", m.Operation, m.Clients))
		p, err := c.some(&load{operation: m.Operation, regions: c.Regions[:1]}, m.Clients)
		if err = virtual.OrEnded(ctx, err); err != nil {
			return err
		}
		r.Modelled = append(r.Modelled, Cost{m.Operation, m.Clients, p.Servers, p.Mounts})
	}
	return nil
}

// scale measures a local operation in each number of regions, with the same number of clients at each mount.
func (c *Config) scale(ctx context.Context, r *Report, operation string) error {
	var alone Point
	for i, n := range c.Sizes {
		p, err := c.measure(ctx, load{operation: operation, regions: c.Regions[:n]}, c.Clients[:1])
		if err != nil {
			return err
		}
		if i == 0 {
			alone = p
		}
		r.Scale = append(r.Scale, Scale{Point: p, Ratio: p.PerSecond / float64(n) / (alone.PerSecond / float64(alone.Regions))})
	}
	return nil
}

// Find returns the point of an operation in the baseline deployment, local (0) or global (1).
func (r *Report) Find(operation string, part float64) (found Point) {
	for _, p := range r.Baseline {
		if p.Operation == operation && p.Global == part {
			found = p
		}
	}
	return found
}

// String describes the prices.
func (p *Prices) String() string {
	us := func(d time.Duration) string { return fmt.Sprintf("%.0f", microseconds(d)) }
	return fmt.Sprintf("a step after sleep %s, a frame at each end %s, a request %s, a delivery %s, a block stored %s and sent %s; at the mount an operation %s and a call %s",
		us(p.Wake), us(p.Frame), us(p.Request), us(p.Apply), us(p.Put), us(p.Get), us(p.Operation), us(p.Call))
}
