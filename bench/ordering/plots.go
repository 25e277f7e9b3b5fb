package ordering

import (
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/bench/figures"
	"github.com/globalfs/globalfs/bench/results"
)

// The loads with their distributions in T Figure 4.5.
const (
	cdfScenario     = "distributed"
	cdfDestinations = 2
)

var cdfLoads = []struct {
	outstanding int
	figure      string
}{{2, "4.5a"}, {128, "4.5b"}}

// plot is a figure with the name of its file.
type plot struct {
	name string
	figures.Figure
}

// plots gives the figures of the thesis for which there are points.
func (r *Report) plots() (all []plot) {
	for _, s := range Scenarios() {
		for d := 1; d <= groupCount; d++ {
			all = append(all, r.loadPlot(&s, d))
		}
	}
	for _, l := range cdfLoads {
		all = append(all, r.cdfPlot(l.outstanding, l.figure))
	}
	return slices.DeleteFunc(all, func(p plot) bool { return len(p.Curves) == 0 })
}

// loadPlot shows throughput and latency under growing load.
func (r *Report) loadPlot(s *Scenario, destinations int) plot {
	return plot{
		name: fmt.Sprintf("figure-%s-%s-%d.svg", s.Figure, s.Name, destinations),
		Figure: figures.Figure{
			Title: fmt.Sprintf("%s, destination groups: %d (T Figure %s)", s.Title, destinations, s.Figure),
			X:     figures.Axis{Label: "throughput (1000 messages/s)"},
			Y:     figures.Axis{Label: "latency, 95th percentile (ms)", Log: true},
			Curves: r.curves(func(p *Point) []figures.Point {
				if p.Scenario != s.Name || p.Destinations != destinations {
					return nil
				}
				return []figures.Point{{X: p.Throughput / 1000, Y: onLog(p.P95)}}
			}, true),
		},
	}
}

// cdfPlot has the distribution of latencies at one load.
func (r *Report) cdfPlot(outstanding int, figure string) plot {
	return plot{
		name: fmt.Sprintf("figure-%s-cdf-%d.svg", figure, outstanding),
		Figure: figures.Figure{
			Title: fmt.Sprintf("Distributed leaders, %d destinations, %d outstanding (T Figure %s)", cdfDestinations, outstanding, figure),
			X:     figures.Axis{Label: "latency (ms)", Log: true},
			Y:     figures.Axis{Label: "part of the messages"},
			Curves: r.curves(func(p *Point) (cdf []figures.Point) {
				if p.Scenario != cdfScenario || p.Destinations != cdfDestinations || p.Outstanding != outstanding {
					return nil
				}
				for percent, latency := range p.Latencies {
					cdf = append(cdf, figures.Point{X: onLog(latency), Y: float64(percent) / 100})
				}
				return cdf
			}, false),
		},
	}
}

// onLog keeps a latency on a logarithmic axis, which has no 0.
func onLog(milliseconds float64) float64 { return max(milliseconds, 0.001) }

// curves gives a curve for each protocol with points to show.
func (r *Report) curves(show func(*Point) []figures.Point, marks bool) (all []figures.Curve) {
	for style, protocol := range Protocols() {
		c := figures.Curve{Name: protocol.Title, Style: style, Marks: marks}
		for i := range r.Points {
			if r.Points[i].Protocol == protocol.Name {
				c.Points = append(c.Points, show(&r.Points[i])...)
			}
		}
		if len(c.Points) > 0 {
			all = append(all, c)
		}
	}
	return all
}

// WriteFiles writes results.json, results.txt (the tables) and the figures into a directory, which it makes.
func (r *Report) WriteFiles(dir string) error {
	files := results.Both("results", r)
	for _, p := range r.plots() {
		files[p.name] = p.WriteSVG
	}
	return results.WriteFiles(dir, files)
}
