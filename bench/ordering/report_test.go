package ordering

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPercentile(t *testing.T) {
	var s sample
	require.Zero(t, s.percentile(50))
	for i := range 200 {
		s = append(s, time.Duration(200-i)*time.Millisecond)
	}
	d := s.distribution()
	require.Len(t, d, 101)
	require.Equal(t, []float64{1, 2, 100, 190, 200}, []float64{d[0], d[1], d[50], d[95], d[100]})
	require.True(t, slices.IsSorted(d))
	require.Equal(t, []float64{7, 7, 7}, sample{7 * time.Millisecond}.distribution()[49:52])
}

// small has one protocol in the LAN, fixed costs and short windows.
func small() Config {
	c := Default()
	c.Protocols, c.Scenarios = c.Protocols[:1], c.Scenarios[:1]
	c.Cost.Measured = false
	c.Quick()
	c.Outstanding = []int{1, 2, 3}
	return c
}

// Without the measured part of the cost, a run is a function of its seed.
func TestRunsRepeat(t *testing.T) {
	c := small()
	first, err := Run(t.Context(), c)
	require.NoError(t, err)
	again, err := Run(t.Context(), c)
	require.NoError(t, err)
	require.Equal(t, first, again)
	c.Seed = 2
	other, err := Run(t.Context(), c)
	require.NoError(t, err)
	require.NotEqual(t, first.Points, other.Points)

	require.Len(t, first.Points, 3)
	for _, p := range first.Points {
		require.Positive(t, p.Throughput)
		require.GreaterOrEqual(t, p.P95, p.Median)
		require.True(t, p.Busy > 0 && p.Busy < 1)
		require.Zero(t, p.Core, "nothing is measured")
	}
	// Little's law: 24 clients with one message each.
	p := first.Points[0]
	require.InDelta(t, 24, p.Throughput*(p.Median+milliseconds(c.Scenarios[0].Think))/1000, 4)
}

// Every protocol delivers in every scenario, with costs as measured.
func TestEveryProtocolRuns(t *testing.T) {
	c := Default()
	c.Quick()
	c.Outstanding = []int{1}
	r, err := Run(t.Context(), c)
	require.NoError(t, err)
	require.Len(t, r.Points, 3*len(Protocols()))
	for _, p := range r.Points {
		require.Positive(t, p.Core, "%s: steps take time", p.Protocol)
	}
}

// T proposition 2.
func TestStepsOfPrimCast(t *testing.T) {
	steps, err := countSteps(t.Context(), &Protocols()[0], 1)
	require.NoError(t, err)
	require.Equal(t, Delays{3, 3}, steps.Alone)
	require.Greater(t, steps.Crowd.Primaries, 4.0)
	require.LessOrEqual(t, max(steps.Crowd.Primaries, steps.Crowd.Followers), 5.0)
}

// An interrupted run gives its results so far.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := small()
	points := 0
	c.Progress = func(string) {
		if points++; points == 4 { // the steps, two points, and the next one has begun
			cancel()
		}
	}
	r, err := Run(ctx, c)
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, r.Points, 2)
}

func TestValidate(t *testing.T) {
	for says, change := range map[string]func(*Config){
		"give 1 to 8":                func(c *Config) { c.Destinations = []int{1, 9} },
		"in ascending order":         func(c *Config) { c.Outstanding = []int{2, 1} },
		"above 0":                    func(c *Config) { c.Outstanding = []int{0} },
		"give a positive duration":   func(c *Config) { c.Window = -1 },
		"clients that think for -1":  func(c *Config) { c.Think = -1 },
		"clocks are off by -1ns":     func(c *Config) { c.Skew = -1 },
		"a payload of -1 bytes":      func(c *Config) { c.Payload = -1 },
		"cost: -1ns a frame":         func(c *Config) { c.Cost.Frame = -1 },
		"[] outstanding messages":    func(c *Config) { c.Outstanding = nil },
		"0s a frame, -1ns to wake u": func(c *Config) { c.Cost = Cost{Wake: -1} },
		"-1 bits a second":           func(c *Config) { c.Cost.Bandwidth = -1 },
	} {
		c := Default()
		require.NoError(t, c.Validate())
		change(&c)
		require.ErrorContains(t, c.Validate(), says)
		_, err := Run(t.Context(), c)
		require.ErrorContains(t, err, says)
	}
	_, err := Named([]string{"primcast", "paxos"})
	require.ErrorContains(t, err, `there is no protocol "paxos": give some of primcast`)
}

// sampleReport returns a report with a point of each figure.
func sampleReport() *Report {
	r := &Report{Steps: []Steps{{Protocol: "primcast", Alone: Delays{3, 3}, Crowd: Delays{5, 5}}}}
	latencies := sample{time.Millisecond, 2 * time.Millisecond}.distribution()
	for _, s := range Scenarios() {
		for _, d := range s.Destinations {
			for _, o := range []int{2, 128} {
				r.Points = append(r.Points, Point{
					Scenario: s.Name, Protocol: "primcast", Destinations: d, Outstanding: o,
					Messages: 2, Throughput: float64(10 * o), Median: latencies[50], P95: latencies[95], Latencies: latencies,
				})
			}
		}
	}
	return r
}

// The names of the JSON are an interface: plots and comparisons of others read them.
func TestJSON(t *testing.T) {
	var b bytes.Buffer
	r := sampleReport()
	require.NoError(t, r.WriteJSON(&b))
	var back Report
	d := json.NewDecoder(bytes.NewReader(b.Bytes()))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&back))
	require.Equal(t, *r, back)
	var names struct {
		Setup  map[string]any
		Steps  []map[string]any
		Points []map[string]any
	}
	require.NoError(t, json.Unmarshal(b.Bytes(), &names))
	for _, name := range []string{"scenario", "protocol", "destinations", "outstanding", "window_ms", "messages", "throughput_per_s",
		"median_ms", "p95_ms", "busy", "cpu_us_per_message", "core_us_per_message", "frames_per_message", "latency_percentiles_ms"} {
		require.Contains(t, names.Points[0], name)
	}
	for _, name := range []string{"go", "platform", "seed", "groups", "group_members", "payload_bytes", "cost", "skew_ns"} {
		require.Contains(t, names.Setup, name)
	}
	require.Contains(t, names.Steps[0], "alone")
	b.Reset()
	require.NoError(t, (&Report{}).WriteJSON(&b))
	require.True(t, json.Valid(b.Bytes()), "an interrupted run: %s", &b)
}

// The files are those that the README in bench/results names, and browsers can show them.
func TestWriteFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	require.NoError(t, sampleReport().WriteFiles(dir))
	var names []string
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
		if filepath.Ext(e.Name()) == ".svg" {
			wellFormed(t, filepath.Join(dir, e.Name()))
		}
	}
	require.Equal(t, []string{
		"figure-4.2-lan-2.svg",
		"figure-4.3-colocated-1.svg", "figure-4.3-colocated-2.svg", "figure-4.3-colocated-4.svg", "figure-4.3-colocated-8.svg",
		"figure-4.4-distributed-2.svg", "figure-4.4-distributed-4.svg",
		"figure-4.5a-cdf-2.svg", "figure-4.5b-cdf-128.svg",
		"results.json", "results.txt",
	}, names)
}

func wellFormed(t *testing.T, name string) {
	f, err := os.Open(name)
	require.NoError(t, err)
	defer f.Close()
	root := ""
	for d := xml.NewDecoder(f); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err, name)
		if e, ok := token.(xml.StartElement); ok && root == "" {
			root = e.Name.Local
		}
	}
	require.Equal(t, "svg", root, name)
}

func TestTable(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, sampleReport().WriteTable(&b))
	require.Regexp(t, `primcast +3\.00 +3\.00 +5\.00 +5\.00`, b.String())
	require.Regexp(t, `distributed +4 +primcast +128 +1280 +1\.000 +2\.000`, b.String())
}
