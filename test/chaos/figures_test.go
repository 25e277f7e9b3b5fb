package chaos

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/bench/figures"
)

// event is one fault with its recovery time.
type event struct {
	Fault     string  `json:"fault"`
	At        float64 `json:"at_s"`
	Lasted    float64 `json:"lasted_s"`
	Recovered float64 `json:"recovered_s"` // from the end of the fault until each mount had changed each partition
	Done      int     `json:"done"`        // operations acknowledged from the beginning of the fault to the recovery
}

// kind returns the name of the fault without its server.
func (e *event) kind() string {
	word, rest, _ := strings.Cut(e.Fault, " ")
	switch {
	case strings.Contains(e.Fault, "etcd"), strings.HasSuffix(e.Fault, "links"):
		return e.Fault
	case word == "cut" && strings.HasPrefix(rest, "region"):
		return "cut region"
	case word == "kill" && strings.Contains(rest, " and "):
		return "kill two"
	}
	return word
}

// progress returns the numbers of acknowledged operations in each second until ctx ends.
func (t *tally) progress(ctx context.Context) (perSecond []float64) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	last := 0
	for {
		select {
		case <-ctx.Done():
			return perSecond
		case <-ticker.C:
		}
		t.mu.Lock()
		now := t.done
		t.mu.Unlock()
		perSecond = append(perSecond, float64(now-last))
		last = now
	}
}

// results are the results of a run.
type results struct {
	Seed      uint64         `json:"seed"`
	Seconds   float64        `json:"seconds"`
	Done      int            `json:"operations"`
	Doubt     map[string]int `json:"in_doubt"` // by errno
	Builds    int            `json:"builds"`
	Broken    int            `json:"builds_failed"`
	Events    []event        `json:"events"`
	PerSecond []float64      `json:"operations_per_second"`
	Usage     []usage        `json:"usage"`
}

// write puts the results and their plots into a directory.
func (r *results) write(w *world, dir string) {
	require.NoError(w.t, os.MkdirAll(dir, 0o755))
	text, err := json.MarshalIndent(r, "", "  ")
	require.NoError(w.t, err)
	require.NoError(w.t, os.WriteFile(filepath.Join(dir, "chaos.json"), append(text, '\n'), 0o644))
	r.draw(w, filepath.Join(dir, "chaos-recovery.svg"), figures.Figure{
		Title: "From the end of a fault until every mount has changed every partition",
		X:     figures.Axis{Label: "time of the run [s]"}, Y: figures.Axis{Label: "recovered after [s]"}, Curves: r.recoveries(),
	})
	load := figures.Curve{Name: "operations acknowledged"}
	for second, n := range r.PerSecond {
		load.Points = append(load.Points, figures.Point{X: float64(second + 1), Y: n})
	}
	r.draw(w, filepath.Join(dir, "chaos-load.svg"), figures.Figure{
		Title: "Operations of three mounts while things go wrong",
		X:     figures.Axis{Label: "time of the run [s]"}, Y: figures.Axis{Label: "operations/s"}, Curves: []figures.Curve{load},
	})
}

func (r *results) draw(w *world, path string, f figures.Figure) {
	out, err := os.Create(path)
	require.NoError(w.t, err)
	require.NoError(w.t, f.WriteSVG(out))
	require.NoError(w.t, out.Close())
}

// recoveries returns a curve for each kind of fault.
func (r *results) recoveries() (curves []figures.Curve) {
	byKind := map[string][]figures.Point{}
	for _, e := range r.Events {
		byKind[e.kind()] = append(byKind[e.kind()], figures.Point{X: e.At + e.Lasted, Y: e.Recovered})
	}
	var kinds []string
	for kind := range byKind {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	for i, kind := range kinds {
		curves = append(curves, figures.Curve{Name: kind, Style: i, Marks: true, Points: byKind[kind]})
	}
	return curves
}
