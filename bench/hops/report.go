package hops

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/globalfs/globalfs/bench/results"
)

// Latency has times in microseconds.
type Latency struct {
	Min    float64 `json:"min_us"`
	Median float64 `json:"median_us"`
	P99    float64 `json:"p99_us"`
}

func latencyOf(all []time.Duration) Latency {
	slices.Sort(all)
	us := func(i int) float64 { return float64(all[i].Nanoseconds()) / 1000 }
	return Latency{Min: us(0), Median: us(len(all) / 2), P99: us(len(all) * 99 / 100)}
}

// Point has the figures of a provider.
type Point struct {
	Provider        string  `json:"provider"`
	Hop             Latency `json:"hop"`
	Completion      Latency `json:"completion"`
	WritesPerSecond float64 `json:"writes_per_s"`
	Echo            Latency `json:"echo"` // over package rdmaconn; 0 where the provider carries no connections
}

// Report has the figures of a run.
type Report struct {
	Size        int           `json:"write_bytes"`
	Outstanding int           `json:"outstanding"`
	Spin        time.Duration `json:"spin_ns"`
	Points      []Point       `json:"points"`
}

// WriteJSON writes one JSON object.
func (r *Report) WriteJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// WriteTable writes the table for people.
func (r *Report) WriteTable(out io.Writer) error {
	fmt.Fprintf(out, "Two processes. Latencies with 8 bytes, writes/s with %d bytes and %d outstanding. Readers of shm spin for %v.\n\n", r.Size, r.Outstanding, r.Spin)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "provider\thop min us\tp50\tp99\tcompletion min us\tp50\tp99\twrites/s\techo min us\tp50\t")
	for _, p := range r.Points {
		fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.0f\t%.1f\t%.1f\t\n", p.Provider,
			p.Hop.Min, p.Hop.Median, p.Hop.P99, p.Completion.Min, p.Completion.Median, p.Completion.P99, p.WritesPerSecond, p.Echo.Min, p.Echo.Median)
	}
	return w.Flush()
}

// WriteFiles writes fabric.json and fabric.txt.
func (r *Report) WriteFiles(dir string) error {
	return results.WriteFiles(dir, results.Both("fabric", r))
}
