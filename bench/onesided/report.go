package onesided

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/globalfs/globalfs/bench/ordering"
	"github.com/globalfs/globalfs/bench/results"
)

// Point is one measurement.
type Point struct {
	Protocol     string  `json:"protocol"`
	Destinations int     `json:"destinations"`
	Outstanding  int     `json:"outstanding"` // of each client
	Messages     int     `json:"messages"`
	Throughput   float64 `json:"throughput_per_s"` // of all clients
	Median       float64 `json:"median_us"`
	P95          float64 `json:"p95_us"`
	Sent         float64 `json:"sent_per_message"` // one-sided writes, or frames
}

// Report has the measurements of a run, and its configuration.
type Report struct {
	Seed    uint64  `json:"seed"`
	Payload int     `json:"payload_bytes"`
	Cost    Cost    `json:"cost"`
	Points  []Point `json:"points"`
}

// Run measures all points. The points until an error are in the report.
func Run(ctx context.Context, c Config) (*Report, error) {
	r := &Report{Seed: c.Seed, Payload: c.Payload, Cost: c.Cost}
	if err := c.Validate(); err != nil {
		return r, err
	}
	for _, d := range c.Destinations {
		for _, shape := range c.Shapes {
			for _, o := range c.Outstanding {
				if c.Progress != nil {
					c.Progress(fmt.Sprintf("tram-%s, %d destinations, %d outstanding", shape, d, o))
				}
				p, err := c.measure(ctx, shape, d, o)
				if err != nil {
					return r, err
				}
				r.Points = append(r.Points, p)
			}
		}
	}
	return r, c.beside(ctx, r)
}

// beside measures the message-passing protocols with the same loads.
func (c *Config) beside(ctx context.Context, r *Report) error {
	if len(c.Beside) == 0 {
		return nil
	}
	o := ordering.Default()
	var err error
	if o.Protocols, err = ordering.Named(c.Beside); err != nil {
		return err
	}
	if o.Scenarios, err = ordering.ScenariosNamed([]string{"lan"}); err != nil {
		return err
	}
	o.Destinations, o.Outstanding, o.Seed, o.Payload, o.Progress = c.Destinations, c.Outstanding, c.Seed, c.Payload, c.Progress
	o.Cost.Measured = false
	result, err := ordering.Run(ctx, o)
	if err != nil {
		return err
	}
	for _, p := range result.Points {
		r.Points = append(r.Points, Point{
			Protocol: p.Protocol, Destinations: p.Destinations, Outstanding: p.Outstanding, Messages: p.Messages,
			Throughput: p.Throughput, Median: 1000 * p.Median, P95: 1000 * p.P95, Sent: p.Frames,
		})
	}
	return nil
}

// WriteJSON writes one JSON object.
func (r *Report) WriteJSON(w io.Writer) error { return results.WriteJSON(w, r) }

// WriteTable writes the tables for people.
func (r *Report) WriteTable(out io.Writer) error {
	fmt.Fprintf(out, "%d groups of %d, a client beside each replica, payload %d bytes, seed %d, in memory.\n", groupCount, members, r.Payload, r.Seed)
	fmt.Fprintf(out, "tram-*: virtual time; a step costs %v, %v more for each operation; a direction takes %v to %v.\n",
		r.Cost.Step, r.Cost.Op, r.Cost.LatencyMin, r.Cost.LatencyMax)
	fmt.Fprint(out, "The others pass messages over TCP in the LAN of `globalfs-lab multicast`, with its fixed prices.\n\n")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "destinations\tprotocol\toutstanding\tmessages/s\tp50 us\tp95 us\twrites or frames/message\t")
	for i := range r.Points {
		p := &r.Points[i]
		fmt.Fprintf(w, "%d\t%s\t%d\t%.0f\t%.1f\t%.1f\t%.1f\t\n", p.Destinations, p.Protocol, p.Outstanding, p.Throughput, p.Median, p.P95, p.Sent)
	}
	return w.Flush()
}

// WriteFiles writes tram.json and tram.txt.
func (r *Report) WriteFiles(dir string) error {
	return results.WriteFiles(dir, results.Both("tram", r))
}
