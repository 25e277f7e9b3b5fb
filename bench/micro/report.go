package micro

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/globalfs/globalfs/bench/figures"
	"github.com/globalfs/globalfs/bench/results"
)

// WriteJSON writes one JSON object.
func (r *Report) WriteJSON(w io.Writer) error { return results.WriteJSON(w, r) }

// WriteTable writes the tables for people.
func (r *Report) WriteTable(out io.Writer) error {
	fmt.Fprintf(out, "Whole replicas in virtual time, seed %d; regions %s.\n", r.Seed, strings.Join(r.Regions, ", "))
	fmt.Fprintf(out, "CPU us: %v.\n", &r.Prices)
	fmt.Fprint(out, "Latencies are those at half of the highest throughput.\n")
	fmt.Fprint(out, "\nCPU us of a local operation in one region: processes, and the model\n\n")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "operation\tclients\tservers\tmodel\tmount\tmodel\t")
	for i, m := range r.Measured {
		fmt.Fprintf(w, "%s\t%d\t%.0f\t%.0f\t%.0f\t%.0f\t\n", m.Operation, m.Clients, m.Servers, r.Modelled[i].Servers, m.Mounts, r.Modelled[i].Mounts)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := r.tableOf(out, fmt.Sprintf("Figures 3.4 and 3.5: %d regions", baseline), r.Baseline, nil); err != nil {
		return err
	}
	if err := r.tableOf(out, "Creations, local and global ones together", r.Mixes, nil); err != nil {
		return err
	}
	var points []Point
	var ratios []float64
	for _, s := range r.Scale {
		points, ratios = append(points, s.Point), append(ratios, s.Ratio)
	}
	if err := r.tableOf(out, "Figure 3.6: local operations; the ratio of a region to a region alone", points, ratios); err != nil {
		return err
	}
	fmt.Fprint(out, "\nFigure 3.6 on processes, on a loaded machine: local operations of 24 clients, CPU of mount and own region and of the other region\n\n")
	w = tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "operation\tregions\tops/s\tCPU us\tfar us\t")
	for _, p := range r.Processes {
		fmt.Fprintf(w, "%s\t%d\t%.0f\t%.0f\t%.0f\t\n", p.Operation, p.Regions, p.PerSecond, p.CPU, p.Far)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return r.shards(out)
}

func (r *Report) tableOf(out io.Writer, title string, points []Point, ratios []float64) error {
	if len(points) == 0 {
		return nil
	}
	fmt.Fprintf(out, "\n%s\n\n", title)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "operation\tglobal %\tregions\tclients a mount\tops/s\tbusiest server %\tservers us\tmounts us\tmean ms\tp50 ms\tp95 ms\t")
	if ratios != nil {
		fmt.Fprint(w, "ratio\t")
	}
	fmt.Fprintln(w)
	for i, p := range points {
		fmt.Fprintf(w, "%s\t%.0f\t%d\t%d\t%.0f\t%.0f\t%.0f\t%.0f\t", p.Operation, 100*p.Global, p.Regions, p.Clients, p.PerSecond,
			100*p.Busy, p.Servers, p.Mounts)
		if p.Mean > 0 {
			fmt.Fprintf(w, "%.2f\t%.2f\t%.2f\t", p.Mean, p.P50, p.P95)
		} else {
			fmt.Fprint(w, "\t\t\t")
		}
		if ratios != nil {
			fmt.Fprintf(w, "%.3f\t", ratios[i])
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

func (r *Report) shards(out io.Writer) error {
	if len(r.Shards) == 0 {
		return nil
	}
	fmt.Fprint(out, "\nCreations in one region with several partitions, three servers of two processors\n\n")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "partitions\t8 clients, ops/s\thighest ops/s\tbusiest server %\tratio\t")
	for _, s := range r.Shards {
		fmt.Fprintf(w, "%d\t%.0f\t%.0f\t%.0f\t%.2f\t\n", s.Partitions, s.Eight, s.Most, 100*s.Busy, s.Ratio)
	}
	return w.Flush()
}

// WriteFiles writes micro.json, micro.txt and the figures.
func (r *Report) WriteFiles(dir string) error {
	files := results.Both("micro", r)
	for name, f := range r.figures() {
		if len(f.Curves) > 0 {
			files[name] = f.WriteSVG
		}
	}
	return results.WriteFiles(dir, files)
}

func (r *Report) figures() map[string]*figures.Figure {
	return map[string]*figures.Figure{
		"figure-3.4-mixes.svg": r.mixes(), "figure-3.5-cdf.svg": r.cdf(),
		"figure-3.6-scale.svg": r.scaleFigure("throughput of a region, as a part of that alone", func(s *Scale) float64 { return s.Ratio }),
		"figure-3.6-p95.svg":   r.scaleFigure("latency, 95th percentile (ms)", func(s *Scale) float64 { return s.P95 }),
	}
}

// mixes shows the highest throughput of mixes.
func (r *Report) mixes() *figures.Figure {
	f := &figures.Figure{
		Title: "Creations in 3 regions (T Figure 3.4)", X: figures.Axis{Label: "global ones (%)"}, Y: figures.Axis{Label: "operations/s", Log: true},
	}
	c := figures.Curve{Name: Create, Marks: true}
	for _, p := range r.Mixes {
		c.Points = append(c.Points, figures.Point{X: 100 * p.Global, Y: p.PerSecond})
	}
	if len(c.Points) > 0 {
		f.Curves = append(f.Curves, c)
	}
	return f
}

// cdf shows the latencies of the baseline deployment.
func (r *Report) cdf() *figures.Figure {
	f := &figures.Figure{
		Title: "3 regions, half of the highest throughput (T Figure 3.5)", X: figures.Axis{Label: "latency (ms)", Log: true}, Y: figures.Axis{Label: "part of the operations"},
	}
	for style, p := range r.Baseline {
		c := figures.Curve{Name: fmt.Sprintf("%s, %v", p.Operation, place(p.Global)), Style: style}
		for percent, ms := range p.Latencies {
			c.Points = append(c.Points, figures.Point{X: max(ms, 0.001), Y: float64(percent) / 100})
		}
		f.Curves = append(f.Curves, c)
	}
	return f
}

func (r *Report) scaleFigure(label string, y func(*Scale) float64) *figures.Figure {
	f := &figures.Figure{Title: "Local operations (T Figure 3.6)", X: figures.Axis{Label: "regions"}, Y: figures.Axis{Label: label}}
	for style, operation := range operations() {
		c := figures.Curve{Name: operation, Style: style, Marks: true}
		for i := range r.Scale {
			if s := &r.Scale[i]; s.Operation == operation {
				c.Points = append(c.Points, figures.Point{X: float64(s.Regions), Y: y(s)})
			}
		}
		if len(c.Points) > 0 {
			f.Curves = append(f.Curves, c)
		}
	}
	return f
}
