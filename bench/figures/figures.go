// Package figures draws curves as SVG, in the manner of the thesis' plots. It knows nothing of their
// meaning, and is the only importer of the plotting library.
package figures

import (
	"fmt"
	"io"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// Figure is one plot.
type Figure struct {
	Title  string
	X, Y   Axis
	Curves []Curve
}

// Axis of a figure.
type Axis struct {
	Label string
	// Log is a logarithmic scale, which needs values above 0. Otherwise the axis starts at 0.
	Log bool
}

// Curve connects points. Curves with the same Style look the same in all figures.
type Curve struct {
	Name   string
	Style  int
	Marks  bool // at each point
	Points []Point
}

// Point of a curve.
type Point struct{ X, Y float64 }

// Size of a figure.
const (
	width  = 16 * vg.Centimeter
	height = 11 * vg.Centimeter
)

// WriteSVG draws f. Values that are not finite, or not positive on a logarithmic axis, are errors.
func (f *Figure) WriteSVG(w io.Writer) error {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = f.Title, f.X.Label, f.Y.Label
	p.Title.TextStyle.Font.Variant = "Sans"
	p.Title.Padding = vg.Points(6)
	p.Legend.TextStyle.Font.Variant, p.Legend.TextStyle.Font.Size = "Sans", vg.Points(9)
	p.Legend.Padding = vg.Points(2)
	p.Add(plotter.NewGrid())
	for i := range f.Curves {
		if err := f.add(p, &f.Curves[i]); err != nil {
			return fmt.Errorf("figure %q: %w", f.Title, err)
		}
	}
	prepare(&p.X, f.X, 1.4)
	prepare(&p.Y, f.Y, 1.05)
	svg, err := p.WriterTo(width, height, "svg")
	if err != nil {
		return fmt.Errorf("figure %q: %w", f.Title, err)
	}
	_, err = svg.WriteTo(w)
	return err
}

// add draws one curve.
func (f *Figure) add(p *plot.Plot, c *Curve) error {
	var points plotter.XYs
	for _, at := range c.Points {
		if !f.X.holds(at.X) || !f.Y.holds(at.Y) {
			return fmt.Errorf("curve %q: (%v, %v) is not on the axes", c.Name, at.X, at.Y)
		}
		points = append(points, plotter.XY(at))
	}
	line, marks, err := plotter.NewLinePoints(points)
	if err != nil {
		return fmt.Errorf("curve %q: %w", c.Name, err)
	}
	line.Color, line.Width, line.Dashes = plotutil.Color(c.Style), vg.Points(1.3), plotutil.Dashes(c.Style)
	marks.Color, marks.Shape, marks.Radius = plotutil.Color(c.Style), plotutil.Shape(c.Style), vg.Points(3)
	p.Add(line)
	if !c.Marks {
		p.Legend.Add(c.Name, line)
		return nil
	}
	p.Add(marks)
	p.Legend.Add(c.Name, line, marks)
	return nil
}

func (a *Axis) holds(v float64) bool {
	return !math.IsNaN(v) && !math.IsInf(v, 0) && (!a.Log || v > 0)
}

// prepare sets an axis up when the range of all curves is known. A linear one goes on beyond its highest
// value by a factor: across, the legend has its place there.
func prepare(axis *plot.Axis, a Axis, beyond float64) {
	axis.Label.TextStyle.Font.Variant, axis.Tick.Label.Font.Variant = "Sans", "Sans"
	if math.IsInf(axis.Min, 0) { // no curve has a point
		axis.Min, axis.Max = 1, 10
	}
	if !a.Log {
		axis.Min, axis.Max = 0, axis.Max*beyond
		return
	}
	ticks := decades(axis.Min, axis.Max)
	axis.Min, axis.Max = ticks[0].Value, ticks[len(ticks)-1].Value
	axis.Scale, axis.Tick.Marker = plot.LogScale{}, plot.ConstantTicks(ticks)
}

// decades gives the ticks of a logarithmic axis around a range, with labels at 1, 2 and 5 times the powers
// of ten; the outermost ones have labels.
func decades(low, high float64) (ticks []plot.Tick) {
	for power := math.Floor(math.Log10(low)); ; power++ {
		for digit := 1; digit < 10; digit++ {
			v := float64(digit) * math.Pow10(int(power))
			labelled := digit == 1 || digit == 2 || digit == 5
			if labelled && v <= low {
				ticks = ticks[:0]
			}
			ticks = append(ticks, plot.Tick{Value: v})
			if !labelled {
				continue
			}
			ticks[len(ticks)-1].Label = strconv.FormatFloat(v, 'g', -1, 64)
			if v >= high && len(ticks) > 1 {
				return ticks
			}
		}
	}
}
