package geo

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/globalfs/globalfs/bench/figures"
	"github.com/globalfs/globalfs/bench/results"
	"github.com/globalfs/globalfs/internal/bench"
)

// WriteJSON writes the report for programs.
func (r *Report) WriteJSON(w io.Writer) error { return results.WriteJSON(w, r) }

// WriteTable writes the report for people.
func (r *Report) WriteTable(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "operation\tplace\tclients\tsetting\tregion\tops/s\tp50 us\tp95 us\tp99 us\tmax us\tlatency is\trate is\tCPU us\tmount\tnear\tfar\t")
	for _, row := range r.Rows {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%s\t%s\t%.0f\t", row.Operation, row.Place, row.Clients, row.Setting, row.Region,
			row.PerSecond, row.P50, row.P95, row.P99, row.Max, ratio(row.Latency), ratio(row.Rate), row.total())
		for _, part := range []string{partMount, partNear, partFar} {
			if us, ok := row.CPU[part]; ok {
				fmt.Fprintf(w, "%.0f", us)
			}
			fmt.Fprint(w, "\t")
		}
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if r.Late > 0 {
		fmt.Fprintf(out, "\nthe laboratory delivered 99 of 100 packets at most %.0f us late\n", r.Late)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Skipped)) {
		fmt.Fprintf(out, "\nnot measured: %s: %s\n", name, r.Skipped[name])
	}
	return r.writeCosts(out)
}

// writeCosts writes the cost of a create for each process.
func (r *Report) writeCosts(out io.Writer) error {
	if len(r.Costs) == 0 {
		return nil
	}
	fmt.Fprintln(out, "\nCPU us of one create, by what the profiles say")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "setting\tplace\tclients\tprocess\tCPU us\t")
	for _, a := range Areas() {
		fmt.Fprintf(w, "%s\t", a)
	}
	fmt.Fprintln(w)
	for _, g := range groups(r.Costs) {
		if len(g) > 1 {
			g = append(slices.Clone(g), sum(g))
		}
		for _, c := range g {
			fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%.0f\t", c.Setting, c.Place, c.Clients, c.Process, c.CPU)
			for _, a := range Areas() {
				fmt.Fprintf(w, "%.0f\t", c.Areas[a])
			}
			fmt.Fprintln(w)
		}
	}
	return w.Flush()
}

// total returns the CPU time over all parts.
func (r *Row) total() (us float64) {
	for _, part := range r.CPU {
		us += part
	}
	return us
}

// ratio is empty without a value to compare with.
func ratio(r float64) string {
	if r == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", r)
}

// WriteFiles writes geo.txt, geo.json, and the distributions of the latency of a create as figures, into a
// directory.
func (r *Report) WriteFiles(dir string) error {
	files := results.Both("geo", r)
	for _, place := range []string{local, global} {
		files[fmt.Sprintf("geo-create-%s.svg", place)] = r.figure(place).WriteSVG
	}
	return results.WriteFiles(dir, files)
}

// figure shows the distribution of the latency of creates, with the smallest measured number of clients.
func (r *Report) figure(place string) *figures.Figure {
	f := &figures.Figure{
		Title: "create, " + place, X: figures.Axis{Label: "latency (us)", Log: true}, Y: figures.Axis{Label: "share of creates (%)"},
	}
	fewest := 0
	for _, row := range r.Rows {
		if row.Operation != created || row.Place != place || fewest != 0 && row.Clients != fewest {
			continue
		}
		fewest = row.Clients
		f.Curves = append(f.Curves, figures.Curve{
			Name: fmt.Sprintf("%s, %s", row.Setting, row.Region), Style: len(f.Curves), Points: distribution(row.samples),
		})
	}
	return f
}

// distribution returns the percentiles.
func distribution(samples []bench.Sample) (points []figures.Point) {
	latencies := bench.Latencies(samples...)
	for percent := range 101 {
		at := latencies[percent*(len(latencies)-1)/100]
		points = append(points, figures.Point{X: microseconds(at), Y: float64(percent)})
	}
	return points
}
