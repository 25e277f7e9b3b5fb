package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/globalfs/globalfs/internal/client"
	"github.com/globalfs/globalfs/internal/topology"
)

// World is a running cluster with a client in each of its regions.
type World struct {
	Regions []topology.Region // the client in the first one measures
	Clients map[topology.Region]*client.Client
	Cut     func(regions ...topology.Region) error // cuts regions off; without regions it heals the network
}

// RegionsConfig configures Regions.
type RegionsConfig struct {
	Duration time.Duration // of each operation over the network between regions
	Slice    time.Duration // of each operation inside a region; of a local one in each condition and cycle
	Cycles   int           // over all conditions
	Progress func(string)  // called with the name of each measurement
}

// Conditions of the measurements of local operations.
const (
	undisturbed   = "alone"
	besideRenames = "beside renames"
	besideCut     = "another region cut"
	again         = "alone again" // the control: differences of its ratios from 1 are noise of the machine
)

// RegionsRow is the result of one client for one operation in a cluster of a number of regions.
type RegionsRow struct {
	Regions   int             `json:"regions"`
	Client    topology.Region `json:"client"` // region of the client
	Condition string          `json:"condition"`
	Measurement
	// Ratio50 and Ratio95, in other conditions than alone, are the ratios to the same operation alone:
	// medians over the cycles.
	Ratio50 float64 `json:"p50_ratio,omitempty"`
	Ratio95 float64 `json:"p95_ratio,omitempty"`
}

// Regions measures one cluster. First it measures local operations in the first region: alone, beside renames
// between two regions, and while another region is cut off. Then it measures global operations and operations
// of two partitions, from the first region and from the region farthest from it.
func Regions(ctx context.Context, cfg RegionsConfig, w *World) ([]RegionsRow, error) {
	posts := map[topology.Region]*post{}
	for _, r := range w.Regions {
		p, err := w.post(ctx, r)
		if err != nil {
			return nil, fmt.Errorf("client in %s: %w", r, err)
		}
		posts[r] = p
	}
	near, far := posts[w.Regions[0]], posts[w.farthest()]
	quiet := func(context.Context) (func() error, error) { return nothing, nil }
	conditions := []condition{{undisturbed, quiet}}
	if len(w.Regions) > 1 {
		renames, err := renames(ctx, posts[w.Regions[1]])
		if err != nil {
			return nil, err
		}
		conditions = append(conditions, condition{besideRenames, renames}, condition{besideCut, w.cut(far)}, condition{again, quiet})
	}
	rows, err := w.local(ctx, &cfg, near, conditions)
	if err != nil {
		return rows, err
	}
	for _, p := range slices.Compact([]*post{near, far}) {
		wide, err := w.wide(ctx, &cfg, p)
		rows = append(rows, wide...)
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// farthest returns the region with the longest delay from the first one.
func (w *World) farthest() topology.Region {
	return slices.MaxFunc(w.Regions, func(a, b topology.Region) int {
		return int(topology.Delay(w.Regions[0], a) - topology.Delay(w.Regions[0], b))
	})
}

// condition is an activity beside a measurement: begin starts it, and end ends it.
type condition struct {
	name  string
	begin func(ctx context.Context) (end func() error, err error)
}

// local measures operations inside the region of p. Conditions take turns in short slices, so that other load
// of the machine affects all of them equally.
func (w *World) local(ctx context.Context, cfg *RegionsConfig, p *post, conditions []condition) ([]RegionsRow, error) {
	acts, err := p.localActs(ctx)
	if err != nil {
		return nil, err
	}
	measured := make([][][][]time.Duration, len(conditions)) // by condition, act and cycle
	for i := range measured {
		measured[i] = make([][][]time.Duration, len(acts))
	}
	for cycle := range cfg.Cycles {
		for i, c := range conditions {
			cfg.Progress(fmt.Sprintf("%d regions: local operations, %s (%d of %d)", len(w.Regions), c.name, cycle+1, cfg.Cycles))
			if err := w.slice(ctx, cfg, &c, acts, measured[i]); err != nil {
				return nil, fmt.Errorf("local operations, %s: %w", c.name, err)
			}
		}
	}
	var rows []RegionsRow
	for a := range acts {
		for i, c := range conditions {
			row := w.row(p, c.name, acts[a].name, "local", slices.Concat(measured[i][a]...))
			if i > 0 {
				row.Ratio50 = ratio(measured[i][a], measured[0][a], 0.5)
				row.Ratio95 = ratio(measured[i][a], measured[0][a], 0.95)
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// ratio returns the median over the cycles of the ratio of a percentile to the same percentile alone. Other
// load of the machine changes between cycles, and less within one.
func ratio(cycles, alone [][]time.Duration, q float64) float64 {
	var ratios []float64
	for i := range cycles {
		ratios = append(ratios, float64(percentile(cycles[i], q))/float64(percentile(alone[i], q)))
	}
	slices.Sort(ratios)
	return (ratios[(len(ratios)-1)/2] + ratios[len(ratios)/2]) / 2
}

// percentile returns a percentile, and sorts latencies. A slice has at least one latency, even of an
// operation longer than the slice.
func percentile(latencies []time.Duration, q float64) time.Duration {
	slices.Sort(latencies)
	return latencies[int(q*float64(len(latencies)-1))]
}

// slice measures each act for a while in one condition.
func (w *World) slice(ctx context.Context, cfg *RegionsConfig, c *condition, acts []act, into [][][]time.Duration) (err error) {
	end, err := c.begin(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	for i, a := range acts {
		more, err := repeat(ctx, func(int) error { return a.step(ctx) }, cfg.Slice)
		if err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		into[i] = append(into[i], more)
	}
	return nil
}

// wide measures operations of the global partition, and of two partitions.
func (w *World) wide(ctx context.Context, cfg *RegionsConfig, p *post) (rows []RegionsRow, err error) {
	for _, place := range []struct {
		name string
		acts func(context.Context) ([]act, error)
	}{{"global", p.globalActs}, {"two partitions", p.betweenActs}} {
		acts, err := place.acts(ctx)
		if err != nil {
			return rows, err
		}
		for _, a := range acts {
			cfg.Progress(fmt.Sprintf("%d regions: %s, %s, from %s", len(w.Regions), a.name, place.name, p.region))
			duration := cfg.Duration
			if a.reads {
				duration = cfg.Slice
			}
			latencies, err := repeat(ctx, func(int) error { return a.step(ctx) }, duration)
			if err != nil {
				return rows, fmt.Errorf("%s, %s, from %s: %w", a.name, place.name, p.region, err)
			}
			rows = append(rows, w.row(p, undisturbed, a.name, place.name, latencies))
		}
	}
	return rows, ctx.Err()
}

func (w *World) row(p *post, condition, op, place string, latencies []time.Duration) RegionsRow {
	var total time.Duration
	for _, l := range latencies {
		total += l
	}
	return RegionsRow{
		Regions: len(w.Regions), Client: p.region, Condition: condition,
		Measurement: Summarize(op, place, 1, Sample{latencies, total}),
	}
}
