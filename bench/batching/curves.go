package batching

import (
	"context"
	"fmt"

	"github.com/globalfs/globalfs/bench/figures"
	"github.com/globalfs/globalfs/bench/results"
)

// kilobytes are the batches of Figures 3 and 7.
var kilobytes = []float64{0.125, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256}

// curves simulates Figures 3 and 7 (throughput and batch) and Figure 8 (throughput and window).
func (r *Report) curves(ctx context.Context, o Options) error {
	for _, f := range []struct {
		figure, setting string
		windows         []int
	}{{"3", "cluster", []int{1, 2, 5}}, {"7", "emulab", []int{1, 2, 5, 10, 25, 35}}} {
		for _, request := range requests {
			o.Progress(fmt.Sprintf("Figure %s, requests of %d bytes", f.figure, request))
			for _, window := range f.windows {
				c := Curve{Figure: f.figure, Setting: f.setting, Request: request, Name: fmt.Sprintf("WND %d", window)}
				for _, kb := range kilobytes {
					if k := int(kb * 1024 / float64(request)); k >= 1 {
						c.add(kb, SimulatePaper(setting(f.setting), request, k, window, o.Duration).Throughput)
					}
				}
				r.Curves = append(r.Curves, c)
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
	for _, request := range requests {
		o.Progress(fmt.Sprintf("Figure 8, requests of %d bytes", request))
		for _, k := range []int{1, 4, 16, 64} {
			c := Curve{Figure: "8", Setting: "emulab", Request: request, Name: fmt.Sprintf("K %d", k)}
			for _, window := range []int{1, 2, 5, 10, 15, 20, 25, 30, 35, 40} {
				c.add(float64(window), SimulatePaper(setting("emulab"), request, k, window, o.Duration).Throughput)
			}
			r.Curves = append(r.Curves, c)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

func (c *Curve) add(x, y float64) { c.X, c.Y = append(c.X, x), append(c.Y, y) }

// WriteFiles writes batching.txt, batching.json and the figures into a directory.
func (r *Report) WriteFiles(dir string) error {
	files := results.Both("batching", r)
	drawn := map[string]*figures.Figure{}
	for _, c := range r.Curves {
		name := fmt.Sprintf("batching-figure-%s-%d.svg", c.Figure, c.Request)
		f := drawn[name]
		if f == nil {
			x := figures.Axis{Label: "batch (KB)", Log: true}
			if c.Figure == "8" {
				x = figures.Axis{Label: "window"}
			}
			f = &figures.Figure{
				Title: fmt.Sprintf("%s, requests of %d bytes (Figure %s)", c.Setting, c.Request, c.Figure),
				X:     x, Y: figures.Axis{Label: "requests/s"},
			}
			drawn[name] = f
		}
		curve := figures.Curve{Name: c.Name, Style: len(f.Curves), Marks: true}
		for i := range c.X {
			curve.Points = append(curve.Points, figures.Point{X: c.X[i], Y: c.Y[i]})
		}
		f.Curves = append(f.Curves, curve)
	}
	for name, f := range drawn {
		files[name] = f.WriteSVG
	}
	return results.WriteFiles(dir, files)
}
