package batching

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"text/tabwriter"
	"time"

	model "github.com/globalfs/globalfs/pkg/batching"
)

// Options of a run.
type Options struct {
	Duration time.Duration // virtual time of each simulated point, at least 1 s
	Quick    bool          // Tables 3 and 4 and two comparisons of policies, without the curves
	Progress func(what string)
}

// Compared is one row of the paper's Tables 3 and 4: the paper's experiment, the model, and the simulation.
type Compared struct {
	Setting   string `json:"setting"`
	Request   int    `json:"request_bytes"`
	Requests  int    `json:"requests_in_a_batch"`
	PaperMin  int    `json:"paper_window_min"`
	PaperMax  int    `json:"paper_window_max"`
	Window    int    `json:"model_window"`
	Simulated int    `json:"simulated_window"` // the smallest with 99% of the highest throughput
	// Throughputs in requests a second: the highest over all windows.
	PaperThroughput     float64 `json:"paper_throughput"`
	ModelThroughput     float64 `json:"model_throughput"`
	SimulatedThroughput float64 `json:"simulated_throughput"`
}

// Curve is the simulated throughput for one size of requests, in dependence on the batch or on the window.
type Curve struct {
	Figure  string    `json:"figure"`
	Setting string    `json:"setting"`
	Request int       `json:"request_bytes"`
	Name    string    `json:"name"`
	X       []float64 `json:"x"` // batch in KB, or window
	Y       []float64 `json:"requests_per_second"`
}

// Report is the outcome of a run.
type Report struct {
	Duration time.Duration `json:"virtual_ns"`
	Rows     []Compared    `json:"rows"`
	Choices  []Choice      `json:"choices"`
	Rounds   int           `json:"choice_rounds"` // requests of each client in a measurement of Choices
	Curves   []Curve       `json:"curves,omitempty"`
}

const (
	clients = 1200
	timeout = 50 * time.Millisecond
)

func setting(name string) model.Setting {
	if name == "cluster" {
		return model.Cluster()
	}
	return model.Emulab()
}

// Run simulates all points.
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.Duration < time.Second {
		return nil, fmt.Errorf("a point of %s: at least 1 s of virtual time is needed", o.Duration)
	}
	r := &Report{Duration: o.Duration}
	for _, row := range rows {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		o.Progress(fmt.Sprintf("%s, requests of %d bytes, batches of %d", row.setting, row.request, row.k))
		c, err := compare(row, o.Duration)
		if err != nil {
			return nil, err
		}
		r.Rows = append(r.Rows, c)
	}
	if err := r.compareChoices(ctx, o); err != nil || o.Quick {
		return r, err
	}
	return r, r.curves(ctx, o)
}

func compare(row row, duration time.Duration) (Compared, error) {
	s := setting(row.setting)
	p, err := model.Predict(s.System, s.Workload(row.request), row.k)
	if err != nil {
		return Compared{}, err
	}
	c := Compared{
		Setting: row.setting, Request: row.request, Requests: row.k, PaperMin: row.windows[0], PaperMax: row.windows[1],
		Window: p.Window, PaperThroughput: row.throughput, ModelThroughput: p.Throughput,
	}
	throughput := func(window int) float64 { return SimulatePaper(s, row.request, row.k, window, duration).Throughput }
	c.SimulatedThroughput = throughput(2*p.Window + 2)
	low, high := 0, 2*p.Window+2 // the throughput grows with the window
	for high-low > 1 {
		if window := low + (high-low)/2; throughput(window) >= 0.99*c.SimulatedThroughput {
			high = window
		} else {
			low = window
		}
	}
	c.Simulated = high
	return c, nil
}

// SimulatePaper runs the leader of one of the paper's settings with its clients: requests of some bytes, k of
// them in a batch at most.
func SimulatePaper(s model.Setting, request, k, window int, duration time.Duration) Measured {
	return Simulate(Config{s.System, s.Workload(request), window, k, clients, timeout, duration})
}

// WriteTable writes the table that a person reads.
func (r *Report) WriteTable(out io.Writer) error {
	fmt.Fprintf(out, `Tables 3 and 4: the smallest window with the highest throughput, and this throughput in requests/s.
paper: the experiment that the paper prints; model: pkg/batching; simulated: %d clients, %s of virtual time a point.

`, clients, r.Duration)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "setting\trequest\tbatch\tpaper w\tmodel w\tsimulated w\tpaper/s\tmodel/s\tsimulated/s\tmodel:paper\tmodel:simulated\t")
	paper, simulated := 0.0, 0.0
	for _, c := range r.Rows {
		toPaper, toSimulated := c.ModelThroughput/c.PaperThroughput, c.ModelThroughput/c.SimulatedThroughput
		paper, simulated = max(paper, math.Abs(toPaper-1)), max(simulated, math.Abs(toSimulated-1))
		fmt.Fprintf(w, "%s\t%d\t%d\t%d-%d\t%d\t%d\t%.0f\t%.0f\t%.0f\t%.2f\t%.2f\t\n", c.Setting, c.Request, c.Requests, c.PaperMin, c.PaperMax,
			c.Window, c.Simulated, c.PaperThroughput, c.ModelThroughput, c.SimulatedThroughput, toPaper, toSimulated)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nLargest deviation of the model's throughput: %.0f%% from the paper's experiments, %.1f%% from the simulation.\n", 100*paper, 100*simulated)
	return r.writeChoices(out)
}

// WriteJSON writes the report as one object.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
}
