package batching

import (
	"bytes"
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/driver"
	model "github.com/globalfs/globalfs/pkg/batching"
)

// TestModelAgrees compares the paper's experiments, the model and the simulation in every fourth row of
// Tables 3 and 4. `globalfs-lab batching` has all rows.
func TestModelAgrees(t *testing.T) {
	r := Report{Duration: 20 * time.Second}
	for i := 0; i < len(rows); i += 4 {
		c, err := compare(rows[i], r.Duration)
		require.NoError(t, err)
		require.InEpsilon(t, c.SimulatedThroughput, c.ModelThroughput, 0.05, "%+v", c)
		require.InEpsilon(t, c.PaperThroughput, c.ModelThroughput, 0.25, "%+v", c)
		require.InDelta(t, c.Simulated, c.Window, 2+0.1*float64(c.Window), "%+v", c)
		require.GreaterOrEqual(t, c.Window, c.PaperMin-1, "%+v", c)
		require.LessOrEqual(t, c.Window, c.PaperMax+1, "%+v", c)
		r.Rows = append(r.Rows, c)
	}
	var table bytes.Buffer
	require.NoError(t, r.WriteTable(&table))
	require.Contains(t, table.String(), "Largest deviation")
}

// TestPolicies: over a distance, a turn without a bound loses half of the throughput, since all clients
// send at the same time. The batch of the model and that of the driver reach the model's throughput. Equal
// runs give equal figures.
func TestPolicies(t *testing.T) {
	s := settings()[5]
	require.Equal(t, "wan-141", s.Name)
	p, err := model.ChooseFor(s.System, s.Workload(1<<10), clients)
	require.NoError(t, err)
	run := func(batch int) float64 {
		x, err := load{System: s.System, Workload: s.Workload(1 << 10), Policy: Policy{Requests: batch}, Clients: clients, Rounds: rounds}.throughput()
		require.NoError(t, err)
		return x
	}
	require.Less(t, run(0), 0.6*p.Throughput)
	first := run(p.Requests)
	require.InEpsilon(t, p.Throughput, first, 0.05)
	require.InEpsilon(t, p.Throughput, run(driver.MostRequests), 0.05)
	require.InDelta(t, first, run(p.Requests), 0)
}

// TestWindow: a window bounds the batches under way, and a batch that waits until it is full leaves after
// the time limit.
func TestWindow(t *testing.T) {
	s := settings()[5]
	run := func(p Policy, clients int) float64 {
		x, err := load{System: s.System, Workload: s.Workload(128), Policy: p, Clients: clients, Rounds: rounds}.throughput()
		require.NoError(t, err)
		return x
	}
	require.InEpsilon(t, 10/0.143, run(Policy{Window: 1, Requests: 10}, 100), 0.03, "a batch for each round trip")
	require.InEpsilon(t, 20/0.145, run(Policy{Window: 2, Requests: 10, Full: true}, 100), 0.03)
	require.InEpsilon(t, 5/0.193, run(Policy{Window: 2, Requests: 10, Full: true}, 5), 0.03, "50 ms longer")
}

func TestChoicesInTable(t *testing.T) {
	r := Report{Choices: []Choice{
		{Setting: "lan", Request: 128, Natural: 50, Driver: 90, Chosen: 97, Best: 100, Policy: Policy{Window: 2, Requests: 8, Full: true}},
		{Setting: "emulab", Request: 128, Natural: 70, Driver: 60, Chosen: 98, Best: 100, Policy: Policy{Window: 3, Requests: 8}},
	}}
	var table bytes.Buffer
	require.NoError(t, r.WriteTable(&table))
	require.Contains(t, table.String(), "8, full, window 2")
	require.Contains(t, table.String(), "8, window 3")
	chosen, product, natural := r.Least()
	require.InDeltaSlice(t, []float64{0.97, 0.9, 0.5}, []float64{chosen, product, natural}, 1e-9)
}

// TestShapes: batching alone suffices in the cluster, and not in the wide-area network.
func TestShapes(t *testing.T) {
	at := func(name string, request, k, window int) float64 {
		return SimulatePaper(setting(name), request, k, window, 20*time.Second).Throughput
	}
	require.InEpsilon(t, at("cluster", 128, 64, 5), at("cluster", 128, 64, 1), 0.05)
	require.Greater(t, at("cluster", 128, 64, 1), 5*at("cluster", 128, 1, 5))
	require.Greater(t, at("emulab", 1024, 16, 10), 1.8*at("emulab", 1024, 16, 1))
	require.Less(t, at("emulab", 128, 1, 40), 500.0, "pipelining alone does not help small requests")
}

func TestSameConfigSameResult(t *testing.T) {
	first := SimulatePaper(setting("emulab"), 128, 8, 4, time.Second)
	require.Equal(t, first, SimulatePaper(setting("emulab"), 128, 8, 4, time.Second))
}

func TestFilesAndErrors(t *testing.T) {
	_, err := Run(t.Context(), Options{})
	require.ErrorContains(t, err, "at least 1 s")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Run(ended, Options{Duration: time.Second, Progress: func(string) {}})
	require.ErrorIs(t, err, context.Canceled)

	r := &Report{Curves: []Curve{
		{Figure: "3", Setting: "cluster", Request: 128, Name: "WND 1", X: []float64{1, 2}, Y: []float64{3, 4}},
		{Figure: "8", Setting: "emulab", Request: 128, Name: "K 1", X: []float64{1, 2}, Y: []float64{3, 4}},
	}}
	dir := t.TempDir()
	require.NoError(t, r.WriteFiles(dir))
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 4)
}
