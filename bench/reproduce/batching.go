package reproduce

import (
	"context"
	"io"
	"math"
	"path/filepath"
	"time"

	"github.com/globalfs/globalfs/bench/batching"
	"github.com/globalfs/globalfs/bench/micro"
	"github.com/globalfs/globalfs/bench/results"
	"github.com/globalfs/globalfs/internal/driver"
	model "github.com/globalfs/globalfs/pkg/batching"
)

func batchingPaper() paper {
	return paper{
		name: "batching", title: "\"Optimizing Paxos with batching and pipelining\"",
		method: "The model of the paper (pkg/batching), a simulated leader with the prices of the paper's machines, replicas with the core of the product, and whole replicas, in virtual time.",
		run:    runBatching,
	}
}

func runBatching(ctx context.Context, j *job) error {
	o := batching.Options{Duration: 30 * time.Second, Quick: j.Quick, Progress: j.progress}
	if j.Quick {
		o.Duration = 10 * time.Second
	}
	r, err := batching.Run(ctx, o)
	if err != nil {
		return err
	}
	if err := r.WriteFiles(j.dir); err != nil {
		return err
	}
	for _, t := range [][2]string{{"Table 3", "cluster"}, {"Table 4", "emulab"}} {
		table, setting := t[0], t[1]
		worst, windows, rows := 0.0, 0, 0
		for _, row := range r.Rows {
			if row.Setting != setting {
				continue
			}
			rows++
			worst = max(worst, math.Abs(row.SimulatedThroughput/row.ModelThroughput-1))
			if row.Window >= row.PaperMin-1 && row.Window <= row.PaperMax+1 {
				windows++
			}
		}
		j.check(table+", throughput", "the model predicts the highest throughput of the experiment", worst < 0.1, "", "the simulation is within %.1f %% of the model", 100*worst)
		j.check(table+", window", "the model gives the smallest window with the highest throughput", windows >= rows-1, "",
			"%d of %d windows are in the range of the paper's experiment, or next to it", windows, rows)
	}
	if err := j.cluster(o.Duration); err != nil {
		return err
	}
	if err := j.emulab(o.Duration); err != nil {
		return err
	}
	chosen, product, natural := r.Least()
	j.check("Section 6", "a batch and a window chosen by the model give the highest throughput", chosen >= 0.95,
		"The least of all settings and sizes.", "at least %.2f of the best fixed batch and window in %d settings and sizes; a turn that takes all requests that wait: %.2f", chosen, len(r.Choices), natural)
	j.check("Section 6, the driver", "the same for the product: within 5 % of the best fixed setting", product >= 0.95,
		"The least of all distances and sizes.", "at most %d requests in a turn, at the prices of a server: at least %.2f", driver.MostRequests, product)
	return j.wholeReplicas(ctx)
}

// leader simulates the leader of the paper in one of its settings.
type leader struct {
	setting  model.Setting
	duration time.Duration
}

func (l *leader) run(request, k, window int) batching.Measured {
	return batching.SimulatePaper(l.setting, request, k, window, l.duration)
}

// rate returns the throughput in requests a second.
func (l *leader) rate(request, k, window int) float64 { return l.run(request, k, window).Throughput }

// cpu compares the CPU time of an instance with the model, for batches of at most 1, 64 and 512 requests of
// 128 bytes. Some batches leave by the timeout, so the model gets the mean size.
func (l *leader) cpu() (worst, first, last float64, err error) {
	for _, k := range []int{1, 64, 512} {
		m := l.run(128, k, 1)
		p, err := model.Predict(l.setting.System, l.setting.Workload(128), int(math.Round(m.Throughput/m.Instances)))
		if err != nil {
			return 0, 0, 0, err
		}
		last = 1000 * m.CPU / m.Instances
		if k == 1 {
			first = last
		}
		worst = max(worst, math.Abs(last/1000/p.CPU.Seconds()-1))
	}
	return worst, first, last, nil
}

// cluster checks Figures 3 to 5, and Table 2.
func (j *job) cluster(duration time.Duration) error {
	j.progress("Figures 3 to 5")
	l := &leader{model.Cluster(), duration}
	small, large := l.rate(128, 512, 1)/l.rate(128, 1, 1), l.rate(8<<10, 64, 1)/l.rate(8<<10, 1, 1)
	wide := l.rate(128, 512, 5) / l.rate(128, 512, 1)
	j.check("Figure 3", "batching brings almost ten times with 128 bytes, a little over four times with 8 KB; a larger window brings nothing",
		small > large && large > 2 && wide < 1.05, "", "%.1f and %.1f times (6.6 and 3.0 by the paper's Table 3); a window of 5 instead of 1: %.2f times", small, large, wide)
	one, some, most := l.run(128, 1, 1), l.run(128, 16, 1), l.run(128, 512, 1)
	j.check("Figure 4(a)", "the latency of a client falls from almost 500 ms to under 100 ms with batches of 2 KB, and little behind", one.Client > 4*some.Client && most.Client > some.Client/2, "",
		"%d, %d and %d ms with batches of 1, 16 and 512 requests", one.Client.Milliseconds(), some.Client.Milliseconds(), most.Client.Milliseconds())
	half, full := l.run(128, 128, 1), l.run(128, 256, 1)
	j.check("Figure 4(b)", "the latency of an instance grows linearly with the batch", math.Abs(full.Instance.Seconds()/half.Instance.Seconds()-2) < 0.1, "",
		"%.2f, %.2f and %.2f ms with 1, 128 and 256 requests", 1000*one.Instance.Seconds(), 1000*half.Instance.Seconds(), 1000*full.Instance.Seconds())
	j.check("Figure 4(c)", "instances fall from 2000/s to under 200/s while requests grow to 12000/s", one.Instances > 1500 && most.Instances < 200 && most.Throughput > 11000, "",
		"%.0f to %.0f instances/s, %.0f to %.0f requests/s", one.Instances, most.Instances, one.Throughput, most.Throughput)
	worst, first, last, err := l.cpu()
	if err != nil {
		return err
	}
	j.check("Figure 5", "the CPU time of an instance is linear in the batch, as in the model", worst < 0.05, "",
		"within %.1f %% of the model: %.2f ms for 1 request, %.1f ms for at most 512", 100*worst, first, last)
	return j.table2(l)
}

// table2 compares the model with the paper's Table 2.
func (j *job) table2(l *leader) error {
	worst := 0.0
	for _, row := range []struct {
		k              int
		takes, inverse float64 // Tinst in ms, and the window of the network
	}{
		{1, 0.52, 211.73}, {2, 0.60, 124.18}, {4, 0.77, 79.52}, {8, 1.10, 56.97}, {16, 1.76, 45.63},
		{32, 3.07, 39.95}, {64, 5.71, 37.11}, {128, 10.98, 35.68}, {256, 21.51, 34.97}, {512, 42.58, 34.62},
	} {
		p, err := model.Predict(l.setting.System, l.setting.Workload(128), row.k)
		if err != nil {
			return err
		}
		worst = max(worst, math.Abs(1000*p.Duration.Seconds()/row.takes-1), math.Abs(p.LinkWindow/row.inverse-1))
	}
	j.check("Table 2", "durations of instances and windows for ten batches of 128-byte requests", worst < 0.02, "", "pkg/batching is within %.1f %% of all rows", 100*worst)
	return nil
}

// emulab checks Figures 7 to 10.
func (j *job) emulab(duration time.Duration) error {
	j.progress("Figures 7 to 10")
	l := &leader{model.Emulab(), duration}
	alone, two := map[int]float64{}, 1.0
	for request, k := range map[int]int{128: 320, 1 << 10: 140, 8 << 10: 17} {
		best := 0.0
		for _, window := range []int{1, 2, 10, 35} {
			best = max(best, l.rate(request, k, window))
		}
		alone[request] = l.rate(request, k, 1) / best
		two = min(two, l.rate(request, k, 2)/best)
	}
	j.check("Figure 7", "batching alone brings half of the highest throughput for 1 KB and 8 KB; a window of 2 suffices with large batches",
		alone[1<<10] < 0.65 && alone[8<<10] < 0.65 && two > 0.85,
		"", "a window of 1: %.2f and %.2f; of 2: at least %.2f", alone[1<<10], alone[8<<10], two)
	p, err := model.Predict(l.setting.System, l.setting.Workload(128), 320)
	if err != nil {
		return err
	}
	j.check("Figure 7, 128 bytes", "batching alone brings almost the highest throughput", alone[128] > 0.9,
		"The paper's own model predicts this part: the processor waits for the round trip of 100 ms.", "a window of 1: %.2f; the model: %.2f", alone[128], p.Alone/p.Throughput)
	small, reached := l.rate(128, 1, 40), l.rate(8<<10, 1, 15)/l.rate(8<<10, 1, 35)
	j.check("Figure 8", "pipelining alone does not reach 500 requests/s with 128 bytes; with 8 KB a window of 15 has the highest throughput", small < 500 && reached > 0.9, "",
		"%.0f/s with 128 bytes; 8 KB: %.2f of the highest throughput with a window of 15", small, reached)
	collapsed := l.rate(1<<10, 256, 35) / l.rate(1<<10, 256, 2)
	j.check("Figures 7 and 8, collapse", "a window that is too large makes the throughput collapse to a tenth", collapsed < 0.5,
		"The collapse comes from lost packets, which the simulated links do not have.", "%.2f of the throughput with a window of 35 instead of 2", collapsed)
	slow, fast := l.run(128, 1, 35), l.run(128, 512, 5)
	j.check("Figure 9", "the latency of a client falls to less than 0.5 s; an instance takes the round trip of 100 ms at least; most instances run with a large window and small batches",
		slow.Client > 2*fast.Client && fast.Client < 500*time.Millisecond && slow.Instance >= 100*time.Millisecond && slow.Instances > 10*fast.Instances, "",
		"clients %.1f and %.1f s, instances %d and %d ms, %.0f and %.0f instances/s with batches of 1 and 512", slow.Client.Seconds(), fast.Client.Seconds(),
		slow.Instance.Milliseconds(), fast.Instance.Milliseconds(), slow.Instances, fast.Instances)
	worst, first, last, err := l.cpu()
	if err != nil {
		return err
	}
	j.check("Figure 10", "the CPU time of an instance is linear in the batch, as in the model", worst < 0.05, "",
		"within %.1f %% of the model: %.2f ms for 1 request, %.1f ms for at most 512", 100*worst, first, last)
	return nil
}

// wholeReplicas checks the bound of the driver on whole replicas.
func (j *job) wholeReplicas(ctx context.Context) error {
	c := micro.Default()
	c.Progress, c.Window, c.Far = j.progress, time.Second, 2*time.Second
	clients, seeds := []int{8, 64, 256}, uint64(3)
	if j.Quick {
		clients, seeds, c.Window, c.Far = []int{64}, 1, 200*time.Millisecond, time.Second
	}
	all, err := c.Steps(ctx, clients, seeds)
	if err != nil {
		return err
	}
	if err := results.WriteFile(filepath.Join(j.dir, "steps.json"), func(w io.Writer) error { return results.WriteJSON(w, all) }); err != nil {
		return err
	}
	least, goal := micro.Least(all, driver.MostRequests), 0.95
	if j.Quick { // short windows hold few operations
		goal = 0.9
	}
	j.check("Section 6, whole replicas", "the same for the file system: creations in a region, and over three regions", least >= goal,
		"The least of all places and numbers of clients.", "at most %d requests in a step: at least %.2f of the best bound; 1 request: %.2f; no bound: %.2f", driver.MostRequests, least, micro.Least(all, 1), micro.Least(all, 0))
	return nil
}
