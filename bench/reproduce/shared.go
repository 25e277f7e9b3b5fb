package reproduce

import (
	"context"

	"github.com/globalfs/globalfs/bench/onesided"
)

func tramPaper() paper {
	return paper{
		name: "tram", title: "TRAM (\"Scaling atomic ordering in shared memory\")",
		method: "Virtual time with fixed prices of a network with RDMA, in memory; the protocols with messages use TCP in a LAN.",
		run:    runTram,
	}
}

func runTram(ctx context.Context, j *job) error {
	c := onesided.Default()
	c.Progress = j.progress
	if j.Quick {
		c.Quick()
		c.Destinations = []int{1, 4, 8}
	}
	r, err := onesided.Run(ctx, c)
	if err != nil {
		return err
	}
	if err := r.WriteFiles(j.dir); err != nil {
		return err
	}
	of := func(protocol string, destinations int) (p onesided.Point) {
		for _, x := range r.Points {
			if x.Protocol == protocol && x.Destinations == destinations && x.Outstanding == c.Outstanding[0] {
				p = x
			}
		}
		return p
	}
	base, prim := of("tram-base", 1), of("primcast", 1)
	j.check("Figure 5, one group", "an order of magnitude below the latency of message passing", base.Median < prim.Median/10, "",
		"p50 %.1f us, PrimCast over TCP %.0f us", base.Median, prim.Median)
	j.check("Figure 5, several groups", "latency grows with the destinations in the base tree", of("tram-base", 4).Median > base.Median && of("tram-base", 8).Median >= of("tram-base", 4).Median, "",
		"p50 %.1f, %.1f and %.1f us for 1, 4 and 8 groups", base.Median, of("tram-base", 4).Median, of("tram-base", 8).Median)
	depth, breadth := of("tram-depth", 8), of("tram-breadth", 8)
	j.check("Figures 6 to 8, depth", "the deep tree has the highest throughput for several destinations", depth.Throughput > breadth.Throughput && depth.Throughput > of("tram-base", 8).Throughput, "",
		"messages/s to 8 groups: depth %.0f, base %.0f, breadth %.0f", depth.Throughput, of("tram-base", 8).Throughput, breadth.Throughput)
	tree := func(destinations int) float64 { return of("byzcast", destinations).Median }
	j.check("Figure 9, message passing", "ByzCast has the trend of TRAM in the base tree, and is orders of magnitude slower (here: with crash-tolerant groups, over TCP)",
		tree(4) > tree(1) && tree(8) >= tree(4) && tree(1) > 10*base.Median && tree(8) > 10*of("tram-base", 8).Median,
		"The trend is the same. With 24 clients the processor of TRAM's root is the limit for several groups: its latency there is time in a queue.",
		"p50 of ByzCast with crash-tolerant groups %.0f, %.0f and %.0f us for 1, 4 and 8 groups, TRAM %.1f, %.1f and %.1f us",
		tree(1), tree(4), tree(8), base.Median, of("tram-base", 4).Median, of("tram-base", 8).Median)
	flat := breadth.Median < 1.5*of("tram-breadth", 4).Median
	j.check("Figures 6 to 8, breadth", "the flat tree has a constant latency for several destinations", flat,
		"24 clients saturate the one CPU of the root, which all messages to several groups pass.",
		"p50 %.1f and %.1f us for 4 and 8 groups", of("tram-breadth", 4).Median, breadth.Median)
	return nil
}

func heronPaper() paper {
	return paper{
		name: "heron", title: "Heron (\"Scalable state machine replication on shared memory\")",
		method: "TPC-C on Heron over TRAM, in virtual time with fixed prices, in memory. The paper orders by RamCast. DynaStar was not built (docs/papers/baselines.md): Figure 5 has the curves of Heron only. Renames of the file system over two shards are executed by package bench/heronfs and by whole replicas, at the prices of server processes.",
		run:    runHeron,
	}
}

func runHeron(ctx context.Context, j *job) error {
	c := onesided.DefaultHeron()
	c.Progress = j.progress
	if j.Quick {
		c.Quick()
	}
	r, err := onesided.RunHeron(ctx, c)
	if err != nil {
		return err
	}
	if err := r.WriteFiles(j.dir); err != nil {
		return err
	}
	rate := func(workload string, warehouses int) (x onesided.HeronThroughput) {
		for _, t := range r.Throughput {
			if t.Workload == workload && t.Warehouses == warehouses {
				x = t
			}
		}
		return x
	}
	last := c.Warehouses[len(c.Warehouses)-1]
	j.check("Figure 4, order", "RamCast > null requests > TPC-C, at each number of warehouses above 1",
		rate("tram", last).PerSecond > rate("null", last).PerSecond && rate("null", last).PerSecond > rate("tpcc", last).PerSecond, "",
		"%d warehouses: order %.0f/s, null %.0f, TPC-C %.0f", last, rate("tram", last).PerSecond, rate("null", last).PerSecond, rate("tpcc", last).PerSecond)
	j.check("Figure 4, 1 to 2 warehouses", "the throughput of TPC-C does not grow from 1 to 2 warehouses", rate("tpcc", 2).PerSecond < 1.3*rate("tpcc", 1).PerSecond, "",
		"%.0f and %.0f/s", rate("tpcc", 1).PerSecond, rate("tpcc", 2).PerSecond)
	j.check("Figure 4, local", "local TPC-C scales linearly", rate("local", last).PerSecond > 0.9*float64(last)*rate("local", 1).PerSecond, "",
		"%.2f of linear with %d warehouses", rate("local", last).PerSecond/float64(last)/rate("local", 1).PerSecond, last)
	j.check("Figure 5, Heron", "tens of microseconds while throughput scales", rate("tpcc", last).Median < 1000 && rate("tpcc", last).PerSecond > rate("tpcc", 1).PerSecond, "",
		"p50 %.0f us and %.0f/s with %d warehouses", rate("tpcc", last).Median, rate("tpcc", last).PerSecond, last)
	one, four := r.Latency[0], r.Latency[3]
	j.check("Figure 6, total", "a new order takes about 35 us with one client; all stages grow with the warehouses", four.Median > one.Median && four.Median < 105, "",
		"p50 %.0f us in 1 warehouse, %.0f in 4", one.Median, four.Median)
	j.check("Figure 6, coordination", "coordination takes 2 to 3 us", four.Coordination <= 5,
		"A replica learns of a write by a step of its loop, at 0.3 us a step and 0.1 us an operation, and writes a note to each replica of the other warehouses; followers deliver later than the leader. The paper's replicas spin on the word that changes.",
		"%.0f us with 2 warehouses, %.0f with 4", r.Latency[1].Coordination, four.Coordination)
	j.check("Figure 7", "new order and payment over two warehouses are the longest; order status and delivery are short", r.Latency[5].Median > r.Latency[7].Median && r.Latency[1].Median > r.Latency[6].Median, "",
		"new order %.0f us, payment %.0f us, delivery %.0f us, order status %.0f us", r.Latency[1].Median, r.Latency[5].Median, r.Latency[6].Median, r.Latency[7].Median)
	zero, large := r.Transfers[0], r.Transfers[len(r.Transfers)-1]
	j.check("Figure 8", "the protocol alone takes two writes; the time then grows with the size", zero.Took < 20 && large.Took > 5*r.Transfers[1].Took, "",
		"%.1f us without data, %.0f us for 64 KB, %.0f us for 640 KB", zero.Took, r.Transfers[1].Took, large.Took)
	j.delays(r)
	return j.twoShards(ctx)
}

func (j *job) delays(r *onesided.HeronReport) {
	most, longest := 0.0, 0.0
	for _, d := range r.Delays {
		most, longest = max(most, d.Delayed), max(longest, d.Delay)
	}
	j.check("Table I, share", "at most 8 % of the transactions wait for the last replicas in phase 4", most <= 8,
		"Fixed prices make the replicas of a group march in step, and followers deliver a constant time after their leader. So the quorum is nearly always ahead of the last replica.",
		"up to %.0f %%", most)
	j.check("Table I, delay", "the wait is a fraction of the latency of a transaction", longest < r.Delays[0].Median/2, "", "at most %.1f us of %.0f us", longest, r.Delays[0].Median)
}
