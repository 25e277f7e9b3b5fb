package reproduce

import (
	"context"

	"github.com/globalfs/globalfs/bench/ordering"
)

func primcastPaper() paper {
	return paper{
		name: "primcast", title: "PrimCast (thesis \"Scaling Strongly Consistent Replicated Systems\", chapter 4)",
		method: "Virtual time; the CPU of each process is busy for the measured time of its steps and for fixed prices of frames.",
		run:    runPrimcast,
	}
}

func runPrimcast(ctx context.Context, j *job) error {
	c := ordering.Default()
	c.Progress = j.progress
	if j.Quick {
		c.Quick()
		c.Cost.Measured = false
		var err error
		if c.Protocols, err = ordering.Named([]string{"primcast", "primcast-hc", "whitebox", "fastcast", "classic"}); err != nil {
			return err
		}
	}
	r, err := ordering.Run(ctx, c)
	if err != nil {
		return err
	}
	if err := r.WriteFiles(j.dir); err != nil {
		return err
	}
	j.steps(r)
	j.lan(r)
	j.colocated(r)
	j.distributed(r)
	return nil
}

// steps checks the numbers of communication steps (T 4.3, Propositions 1 to 3).
func (j *job) steps(r *ordering.Report) {
	of := map[string]ordering.Steps{}
	for _, s := range r.Steps {
		of[s.Protocol] = s
	}
	p, hc := of["primcast"], of["primcast-hc"]
	j.check("Table 4.1, PrimCast", "3 communication steps without collisions, at most 5 without failures, at all destinations",
		p.Alone.Primaries == 3 && p.Alone.Followers == 3 && p.Crowd.Followers <= 5, "",
		"%.0f alone, %.0f in a crowd", p.Alone.Followers, p.Crowd.Followers)
	j.check("Table 4.1, hybrid clock", "3 steps without collisions, 4 and twice the clocks' error without failures",
		hc.Alone.Followers == 3 && hc.Crowd.Followers <= 4, "", "%.0f alone, %.0f in a crowd", hc.Alone.Followers, hc.Crowd.Followers)
	w, f := of["whitebox"], of["fastcast"]
	j.check("Table 4.1, others", "White-Box 3 at leaders and 4 at followers; FastCast 4", w.Alone.Primaries == 3 && w.Alone.Followers == 4 && f.Alone.Primaries == 4, "",
		"White-Box %.0f and %.0f, FastCast %.0f", w.Alone.Primaries, w.Alone.Followers, f.Alone.Primaries)
}

// point gives a measurement with two destinations.
func point(r *ordering.Report, scenario, protocol string, outstanding int) ordering.Point {
	for _, p := range r.Points {
		if p.Scenario == scenario && p.Protocol == protocol && p.Destinations == 2 && p.Outstanding == outstanding {
			return p
		}
	}
	return ordering.Point{}
}

// highest gives the throughput at the end of a curve with two destinations.
func highest(r *ordering.Report, scenario, protocol string) (most float64) {
	for _, p := range r.Points {
		if p.Scenario == scenario && p.Protocol == protocol && p.Destinations == 2 {
			most = max(most, p.Throughput)
		}
	}
	return most
}

func (j *job) lan(r *ordering.Report) {
	p, w, c := point(r, "lan", "primcast", 2), point(r, "lan", "whitebox", 2), point(r, "lan", "classic", 2)
	j.check("Figure 4.2, latency", "PrimCast has a lower latency than White-Box and the classic protocol with little load",
		p.Median <= w.Median && p.Median < c.Median, "", "medians: PrimCast %.2f ms, White-Box %.2f, classic %.2f", p.Median, w.Median, c.Median)
	mine, others := highest(r, "lan", "primcast"), max(highest(r, "lan", "fastcast"), highest(r, "lan", "whitebox"))
	j.check("Figure 4.2, throughput", "PrimCast has the highest throughput", mine > others,
		"All protocols are cores of one style under one driver, and pack all messages of a step. The thesis compares programs in different languages. PrimCast acknowledges from every process to every destination.",
		"PrimCast %.0f messages/s, the best other %.0f", mine, others)
}

func (j *job) colocated(r *ordering.Report) {
	p, f, w := point(r, "colocated", "primcast", 2), point(r, "colocated", "fastcast", 2), point(r, "colocated", "whitebox", 2)
	j.check("Figure 4.3, latency", "PrimCast and FastCast have the same latency, White-Box is a step later at followers",
		p.Median < 1.1*f.Median && f.Median < 1.1*p.Median && w.Median > 1.3*p.Median, "",
		"medians: PrimCast %.0f ms, FastCast %.0f, White-Box %.0f", p.Median, f.Median, w.Median)
	if j.Quick {
		return
	}
	mine, other := highest(r, "colocated", "primcast"), highest(r, "colocated", "fastcast")
	j.check("Figure 4.3, throughput", "PrimCast has 1.6 to 5 times the throughput of FastCast", mine > 1.6*other, "As in Figure 4.2.",
		"PrimCast %.0f messages/s, FastCast %.0f", mine, other)
}

func (j *job) distributed(r *ordering.Report) {
	p, f, w := point(r, "distributed", "primcast", 2), point(r, "distributed", "fastcast", 2), point(r, "distributed", "whitebox", 2)
	j.check("Figure 4.4, latency", "PrimCast is a step within the group ahead of the others at each destination", p.Median < f.Median && p.Median < w.Median, "",
		"medians: PrimCast %.0f ms, FastCast %.0f, White-Box %.0f", p.Median, f.Median, w.Median)
	load := 32
	p, hc := point(r, "distributed", "primcast", load), point(r, "distributed", "primcast-hc", load)
	j.check("Figure 4.5, tail", "the hybrid clock shortens the convoy: the tail of the latencies ends earlier under load", hc.P95 < 0.9*p.P95, "",
		"95th percentiles: PrimCast %.0f ms, with the hybrid clock %.0f", p.P95, hc.P95)
	j.check("Figure 4.5, median", "the hybrid clock removes almost all of the convoy", hc.Median < 0.95*p.Median,
		"A message to two groups has its final timestamp from the farther one. All that is sent within the group meanwhile must be waited for; clocks do not change that.",
		"medians: PrimCast %.0f ms, with the hybrid clock %.0f", p.Median, hc.Median)
}
