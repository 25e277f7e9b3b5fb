package carrier

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/globalfs/globalfs/bench/figures"
	"github.com/globalfs/globalfs/bench/results"
	"github.com/globalfs/globalfs/bench/virtual"
	"github.com/globalfs/globalfs/internal/topology"
)

// WriteJSON writes the report for programs.
func (r *Report) WriteJSON(w io.Writer) error { return results.WriteJSON(w, r) }

// table writes a title, a header and rows.
type table struct {
	title  string
	header string
	rows   int
	row    func(i int) []any
}

// WriteTable writes the report for people.
func (r *Report) WriteTable(out io.Writer) error {
	fmt.Fprintf(out, "Regions %s, virtual time, seed %d. A link has the delay of its regions, and %v within a region, up to %.0f%% more.\n",
		strings.Join(r.Setup.Regions, ", "), r.Setup.Seed, virtual.InsideDelay, 100*virtual.Jitter)
	for _, t := range []table{r.latencyTable(), r.contentionTable(), r.heldTable(), r.callersTable(), r.localTable(), r.classTable(), r.costTable(), r.shardTable()} {
		if t.rows == 0 {
			continue
		}
		fmt.Fprintf(out, "\n%s\n\n", t.title)
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(w, strings.ReplaceAll(t.header, "|", "\t")+"\t")
		for i := range t.rows {
			for _, cell := range t.row(i) {
				if f, ok := cell.(float64); ok {
					fmt.Fprintf(w, "%.2f\t", f)
				} else {
					fmt.Fprintf(w, "%v\t", cell)
				}
			}
			fmt.Fprintln(w)
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}

func (r *Report) latencyTable() table {
	return table{
		fmt.Sprintf("Latency of one command without load, %d each; RTT: round trips of the slowest link that it needs", r.Setup.Samples),
		"carrier|operation|parties, the first is asked|client|slowest RTT ms|p50 ms|p99 ms|p50 RTT|p99 RTT", len(r.Latency),
		func(i int) []any {
			l := &r.Latency[i]
			return []any{l.Carrier, l.Operation, list(l.Parties), l.Client, l.Slowest, l.P50, l.P99, l.Trips50, l.Trips99}
		},
	}
}

func (r *Report) contentionTable() table {
	return table{
		fmt.Sprintf("Contention: clients in %s link the same files, %.0f s", strings.Join(r.Setup.Regions[:2], " and "), r.Setup.Duration),
		"carrier|files|clients|commands/s|p50 ms|p99 ms|attempts a command|failed", len(r.Contention),
		func(i int) []any {
			c := &r.Contention[i]
			return []any{c.Carrier, c.Objects, c.Clients, c.Rate, c.P50, c.P99, c.Attempts, c.Failed}
		},
	}
}

func (r *Report) heldTable() table {
	return table{
		fmt.Sprintf("Cut of %s for %.0f s with %d commands under way from each side: files in %s that a local update waits for",
			r.Setup.Regions[2], r.Setup.Cut, r.Setup.InFlight, r.Setup.Regions[0]),
		"carrier|coordinator|commands|files held|p50 s|longest s|until the end of the cut", len(r.Held),
		func(i int) []any {
			h := &r.Held[i]
			return []any{h.Carrier, h.Coordinator, h.Commands, h.Held, h.P50, h.Longest, h.ToTheEnd}
		},
	}
}

func (r *Report) callersTable() table {
	return table{
		fmt.Sprintf("What the callers of these commands got, with a patience of %.0f s", r.Setup.Patience),
		"carrier|client|commands|done|ETIMEDOUT|other errors|no answer|longest s", len(r.Callers),
		func(i int) []any {
			c := &r.Callers[i]
			return []any{c.Carrier, c.Client, c.Commands, c.Done, c.TimedOut, c.Refused, c.Unknown, c.Longest}
		},
	}
}

func (r *Report) localTable() table {
	return table{
		fmt.Sprintf("Local operations during the cut; delayed: more than %v times the median before", delayedBeyond),
		"carrier|region|operations|p50 ms before|delayed|worst ratio", len(r.Local),
		func(i int) []any {
			l := &r.Local[i]
			return []any{l.Carrier, l.Region, l.Operations, l.P50, l.Delayed, l.Worst}
		},
	}
}

func (r *Report) classTable() table {
	return table{
		"Commands of each class, one at a time; stood: the longest time without a commit since the cut began",
		"carrier|parties|severed|p50 ms before|commits during the cut|stood s", len(r.Classes),
		func(i int) []any {
			c := &r.Classes[i]
			return []any{c.Carrier, list(c.Parties), c.Severed, c.P50, c.Commands, c.Stood}
		},
	}
}

func (r *Report) costTable() table {
	return table{
		"Cost of one command without load, beyond what an idle cluster sends",
		"carrier|operation|parties|messages between|entries in own orders|relays|decisions|forgets|frames|bytes|wide frames|wide bytes",
		len(r.Costs),
		func(i int) []any {
			c := &r.Costs[i]
			return []any{
				c.Carrier, c.Operation, list(c.Parties), c.Messages, c.Entries, c.Relays, c.Decisions, c.Forgets, c.Frames, int(c.Bytes), c.Wide,
				int(c.WideBytes),
			}
		},
	}
}

func (r *Report) shardTable() table {
	return table{
		fmt.Sprintf("Two partitions of %s: one client, and many", r.Setup.Regions[0]),
		"medium|operation|by|p50 us|p99 us|CPU us|frames|operations|reads of a replica|many: commands/s|p50 us|CPU us", len(r.Shards),
		func(i int) []any {
			s := &r.Shards[i]
			return []any{
				s.Medium, s.Operation, s.Way, int(s.P50), int(s.P99), int(s.CPU), s.Frames, s.Ops, s.Reads, int(s.Rate), int(s.LoadedP50), int(s.LoadedCPU),
			}
		},
	}
}

// list joins regions.
func list(regions []topology.Region) string {
	var all []string
	for _, r := range regions {
		all = append(all, string(r))
	}
	return strings.Join(all, "+")
}

// WriteFiles writes cross.txt, cross.json, and cross-cut.svg with the effect of the cut on commands of other
// parties into a directory, which it makes.
func (r *Report) WriteFiles(dir string) error {
	files := results.Both("cross", r)
	if f := r.figure(); len(f.Curves) > 0 {
		files["cross-cut.svg"] = f.WriteSVG
	}
	return results.WriteFiles(dir, files)
}

// figure shows the commits of the classes that the cut does not separate, summed up for each carrier.
func (r *Report) figure() *figures.Figure {
	f := &figures.Figure{
		Title: fmt.Sprintf("Commands whose parties the cut does not separate (cut from %.0f s to %.0f s)",
			beforeCut.Seconds(), beforeCut.Seconds()+r.Setup.Cut),
		X: figures.Axis{Label: "time (s)"}, Y: figures.Axis{Label: "commits in a second"},
	}
	for style, carrier := range virtual.Carriers() {
		var sum []float64
		for _, c := range r.Classes {
			if c.Carrier != carrier.Name || c.Severed {
				continue
			}
			if sum == nil {
				sum = make([]float64, len(c.Rates))
			}
			for i, rate := range c.Rates {
				sum[i] += rate
			}
		}
		curve := figures.Curve{Name: carrier.Title, Style: style}
		for i, rate := range sum {
			curve.Points = append(curve.Points, figures.Point{X: float64(i) + 0.5, Y: rate})
		}
		if len(sum) > 0 {
			f.Curves = append(f.Curves, curve)
		}
	}
	return f
}
