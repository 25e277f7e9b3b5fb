package onesided

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/globalfs/globalfs/bench/results"
	"github.com/globalfs/globalfs/pkg/heron"
)

// HeronConfig configures the experiments of the Heron paper, section V, in virtual time.
type HeronConfig struct {
	Warehouses     []int
	Warmup, Window time.Duration
	Seed           uint64
	Cost           Cost
	Access         time.Duration // CPU time to read or to write an object
	Patience       time.Duration // in phase 4 for the members that are not in the quorum
	Clients        int           // of each replica, for throughput
	Progress       func(what string)
}

// DefaultHeron has the prices of package onesided. An access costs the time per row of the new order
// transaction in BenchmarkNewOrder.
func DefaultHeron() HeronConfig {
	return HeronConfig{
		Warehouses: []int{1, 2, 4, 8, 16}, Warmup: 300 * time.Microsecond, Window: 2 * time.Millisecond, Seed: 1,
		Cost: Default().Cost, Access: 500 * time.Nanosecond, Patience: 5 * time.Microsecond, Clients: 4,
	}
}

// Quick thins a configuration out until it takes seconds.
func (c *HeronConfig) Quick() { c.Warehouses, c.Window = []int{1, 2, 4}, 600*time.Microsecond }

// Validate returns an error that names the wrong field and the remedy.
func (c *HeronConfig) Validate() error {
	for _, w := range c.Warehouses {
		if w < 1 || w > maxGroups {
			return fmt.Errorf("%d warehouses: give 1 to %d", w, maxGroups)
		}
	}
	switch {
	case len(c.Warehouses) == 0:
		return fmt.Errorf("no numbers of warehouses: give some of 1 to %d", maxGroups)
	case c.Window <= 0 || c.Warmup < 0:
		return fmt.Errorf("a window of %v after %v: give positive durations", c.Window, c.Warmup)
	case c.Access < 0 || c.Patience < 0 || c.Clients < 1:
		return fmt.Errorf("access cost %v, patience %v, %d clients: give durations of 0 or more, and at least one client", c.Access, c.Patience, c.Clients)
	}
	return nil
}

// HeronThroughput is a bar of Figure 4.
type HeronThroughput struct {
	Workload   string  `json:"workload"`
	Warehouses int     `json:"warehouses"`
	PerSecond  float64 `json:"transactions_per_s"`
	Median     float64 `json:"median_us"`
}

// HeronLatency is a bar of Figure 6 or 7: one client.
type HeronLatency struct {
	Transaction  string  `json:"transaction"`
	Warehouses   int     `json:"warehouses"` // of each transaction
	Median       float64 `json:"median_us"`
	P90          float64 `json:"p90_us"`
	P99          float64 `json:"p99_us"`
	Ordering     float64 `json:"ordering_us"`
	Coordination float64 `json:"coordination_us"`
	Execution    float64 `json:"execution_us"`
}

// HeronDelay is a row of Table I.
type HeronDelay struct {
	Warehouses int     `json:"warehouses"`
	Replicas   int     `json:"replicas"`
	Delayed    float64 `json:"delayed_percent"`
	Delay      float64 `json:"delay_us"` // of those that were delayed
	PerSecond  float64 `json:"transactions_per_s"`
	Median     float64 `json:"median_us"`
}

// HeronTransfer is a bar of Figure 8.
type HeronTransfer struct {
	Bytes int     `json:"bytes"`
	Took  float64 `json:"took_us"`
}

// HeronReport has the figures of the paper.
type HeronReport struct {
	Seed       uint64            `json:"seed"`
	Cost       Cost              `json:"cost"`
	Access     time.Duration     `json:"access_ns"`
	Throughput []HeronThroughput `json:"throughput"`
	Latency    []HeronLatency    `json:"latency"`
	Delays     []HeronDelay      `json:"delays"`
	Transfers  []HeronTransfer   `json:"transfers"`
}

// RunHeron measures all figures. Those until an error are in the report.
func RunHeron(ctx context.Context, c HeronConfig) (*HeronReport, error) {
	r := &HeronReport{Seed: c.Seed, Cost: c.Cost, Access: c.Access}
	if err := c.Validate(); err != nil {
		return r, err
	}
	for _, part := range []func(context.Context, *HeronReport) error{c.throughput, c.latency, c.delays, c.transfers} {
		if err := part(ctx, r); err != nil {
			return r, err
		}
	}
	return r, nil
}

func (c *HeronConfig) progress(format string, args ...any) {
	if c.Progress != nil {
		c.Progress(fmt.Sprintf(format, args...))
	}
}

// workloads of Figure 4.
var workloads = []struct {
	name string
	load load
}{
	{"tram", load{order: true, kind: -1}}, {"null", load{null: true, kind: -1}}, {"tpcc", load{kind: -1}}, {"local", load{kind: -1, span: 1}},
}

// throughput measures Figure 4, and the curves of Heron in Figure 5.
func (c *HeronConfig) throughput(ctx context.Context, r *HeronReport) error {
	for _, w := range workloads {
		for _, n := range c.Warehouses {
			c.progress("throughput: %s, %d warehouses", w.name, n)
			l := w.load
			l.warehouses, l.members, l.clients = n, members, c.Clients
			_, t, err := c.measure(ctx, l)
			if err != nil {
				return err
			}
			r.Throughput = append(r.Throughput, HeronThroughput{
				Workload: w.name, Warehouses: n, PerSecond: float64(len(t.samples)) / c.Window.Seconds(), Median: median(t.samples, latencyOf),
			})
		}
	}
	return nil
}

func latencyOf(s sample) time.Duration { return s.latency }

func (c *HeronConfig) measure(ctx context.Context, l load) (heron.Stats, *trial, error) {
	t, err := c.newTrial(l)
	if err != nil {
		return heron.Stats{}, nil, err
	}
	stats, err := t.run(ctx)
	return stats, t, err
}

// latency measures Figures 6 and 7 with one client.
func (c *HeronConfig) latency(ctx context.Context, r *HeronReport) error {
	for span := 1; span <= 4; span++ {
		if err := c.oneClient(ctx, r, newOrder, span); err != nil {
			return err
		}
	}
	for k := payment; k <= stockLevel; k++ {
		for span := 1; span <= 2 && (k == payment || span == 1); span++ {
			if err := c.oneClient(ctx, r, k, span); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *HeronConfig) oneClient(ctx context.Context, r *HeronReport, k kind, span int) error {
	c.progress("latency: %s, %d warehouses", kindNames[k], span)
	long := *c
	long.Window *= 4
	t, err := long.newTrial(load{warehouses: 4, members: members, one: true, kind: int(k), span: span})
	if err != nil {
		return err
	}
	if _, err := t.run(ctx); err != nil {
		return err
	}
	all := make([]time.Duration, 0, len(t.samples))
	for _, s := range t.samples {
		all = append(all, s.latency)
	}
	slices.Sort(all)
	n := len(all)
	x := HeronLatency{
		Transaction: kindNames[k], Warehouses: span, Median: microseconds(all[(n-1)/2]), P90: microseconds(all[(n-1)*90/100]),
		P99: microseconds(all[(n-1)*99/100]), Ordering: median(t.samples, func(s sample) time.Duration { return s.ordered }),
	}
	own := t.model.processes[0].executor // of the client's replica
	stats := own.core.Stats()
	execution := time.Duration(own.accesses) * c.Access / time.Duration(max(1, stats.Executed))
	if stats.Shared > 0 {
		x.Coordination = max(0, microseconds((stats.Gathering+stats.Leaving)/time.Duration(stats.Shared)-execution))
		execution += stats.Fetching / time.Duration(stats.Shared)
	}
	x.Execution = microseconds(execution)
	r.Latency = append(r.Latency, x)
	return nil
}

// delays measures Table I.
func (c *HeronConfig) delays(ctx context.Context, r *HeronReport) error {
	for _, n := range []int{2, 4} {
		for _, replicas := range []int{3, 5} {
			c.progress("delays: %d warehouses, %d replicas", n, replicas)
			stats, t, err := c.measure(ctx, load{warehouses: n, members: replicas, clients: c.Clients, kind: -1})
			if err != nil {
				return err
			}
			d := HeronDelay{
				Warehouses: n, Replicas: replicas, PerSecond: float64(len(t.samples)) / c.Window.Seconds(), Median: median(t.samples, latencyOf),
			}
			if stats.Shared > 0 && stats.Delayed > 0 {
				d.Delayed = 100 * float64(stats.Delayed) / float64(stats.Shared)
				d.Delay = microseconds(stats.DelayedBy / time.Duration(stats.Delayed))
			}
			r.Delays = append(r.Delays, d)
		}
	}
	return nil
}

// WriteJSON writes one JSON object.
func (r *HeronReport) WriteJSON(w io.Writer) error { return results.WriteJSON(w, r) }

// WriteTable writes the tables for people.
func (r *HeronReport) WriteTable(out io.Writer) error {
	fmt.Fprintf(out, "Heron over TRAM, TPC-C, virtual time, in memory, seed %d. A step costs %v, %v more for each operation, %v for each access to a row;\n",
		r.Seed, r.Cost.Step, r.Cost.Op, r.Access)
	fmt.Fprintf(out, "a direction takes %v to %v. A warehouse has %d districts, %d customers, %d items.\n\n", r.Cost.LatencyMin, r.Cost.LatencyMax, districts, districts*customers, items)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "Figures 4 and 5: workload\twarehouses\ttransactions/s\tp50 us\t")
	for _, x := range r.Throughput {
		fmt.Fprintf(w, "%s\t%d\t%.0f\t%.1f\t\n", x.Workload, x.Warehouses, x.PerSecond, x.Median)
	}
	fmt.Fprintln(w, "\nFigures 6 and 7: one client\twarehouses\tp50 us\tp90 us\tp99 us\tordering\tcoordination\texecution\t")
	for _, x := range r.Latency {
		fmt.Fprintf(w, "%s\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t\n", x.Transaction, x.Warehouses, x.Median, x.P90, x.P99, x.Ordering, x.Coordination, x.Execution)
	}
	fmt.Fprintln(w, "\nTable I: warehouses\treplicas\tdelayed %\tdelay us\ttransactions/s\tp50 us\t")
	for _, x := range r.Delays {
		fmt.Fprintf(w, "%d\t%d\t%.1f\t%.2f\t%.0f\t%.1f\t\n", x.Warehouses, x.Replicas, x.Delayed, x.Delay, x.PerSecond, x.Median)
	}
	fmt.Fprintln(w, "\nFigure 8: state transfer, bytes\tus\t")
	for _, x := range r.Transfers {
		fmt.Fprintf(w, "%d\t%.1f\t\n", x.Bytes, x.Took)
	}
	return w.Flush()
}

// WriteFiles writes heron.json and heron.txt.
func (r *HeronReport) WriteFiles(dir string) error {
	return results.WriteFiles(dir, results.Both("heron", r))
}
