package reproduce

import (
	"context"

	"github.com/globalfs/globalfs/bench/ordering"
	"github.com/globalfs/globalfs/bench/packing"
)

func packingPaper() paper {
	return paper{
		name: "packing", title: "\"Packing messages as a tool for boosting the performance of total ordering protocols\"",
		method: "Six processes on an Ethernet of 10 Mbit/s in virtual time, with stated costs; then PrimCast and FastCast in a LAN, with and without packing.",
		run:    runPacking,
	}
}

func runPacking(ctx context.Context, j *job) error {
	c := packing.Default()
	c.Progress = j.progress
	r, err := packing.Run(ctx, c)
	if err != nil {
		return err
	}
	if err := r.WriteFiles(j.dir); err != nil {
		return err
	}
	of := func(protocol string, senders, burst int) (x packing.Point) {
		for _, p := range r.Points {
			if p.Protocol == protocol && p.Senders == senders && p.Burst == burst {
				x = p
			}
		}
		return x
	}
	all := c.Processes
	packed, plain := of("dysfc", all, 10), of("dynseq", all, 10)
	j.check("Figure 1, bursts of 10", "packing brings an order of magnitude", packed.Throughput > 5*plain.Throughput && of("tomfc", all, 10).Throughput > 3*of("totem", all, 10).Throughput, "",
		"dysfc %.0f of dynseq %.0f messages/s, tomfc %.0f of totem %.0f", packed.Throughput, plain.Throughput, of("tomfc", all, 10).Throughput, of("totem", all, 10).Throughput)
	packed, plain = of("tomfc", all, 500), of("totem", all, 500)
	j.check("Figure 1, long bursts", "packing brings two orders of magnitude above bursts of 100", packed.Throughput > 100*plain.Throughput,
		"The model has no cost of an interrupt that grows with the load, and no collisions of more than the average. The factor is 25 to 30 for bursts of 500.",
		"tomfc %.0f, totem %.0f messages/s in bursts of 500: %.0f times", packed.Throughput, plain.Throughput, packed.Throughput/plain.Throughput)
	j.check("Figure 1, limits", "dynseq sustains no bursts of more than 60 messages, dynord of 200; the packing protocols sustain 2,000",
		!of("dynseq", all, 200).Sustained && !of("dynord", all, 500).Sustained && of("dysfc", all, 2000).Sustained && of("tomfc", all, 2000).Sustained, "",
		"bursts of 200: dynseq sustained %v; of 500: dynord sustained %v; of 2000: dysfc sustained %v", of("dynseq", all, 200).Sustained, of("dynord", all, 500).Sustained, of("dysfc", all, 2000).Sustained)
	j.check("Figure 2", "the latency of a round with packing is far below that without", of("tomfc", all, 60).Latency < of("totem", all, 60).Latency/10, "",
		"bursts of 60: tomfc %.0f ms, totem %.0f ms", of("tomfc", all, 60).Latency, of("totem", all, 60).Latency)
	j.check("Figure 1, without packing", "totem is the best protocol without packing for long bursts", of("totem", all, 60).Throughput > max(of("dynseq", all, 60).Throughput, of("dynord", all, 60).Throughput), "",
		"bursts of 60: totem %.0f messages/s, dynord %.0f, dynseq %.0f", of("totem", all, 60).Throughput, of("dynord", all, 60).Throughput, of("dynseq", all, 60).Throughput)
	j.check("Figures 3 and 4, one sender", "total packs little with one sender; dysfc and tomfc are far ahead for long bursts",
		of("total", 1, 500).Throughput < of("dysfc", 1, 500).Throughput/10 && of("total", 1, 500).Throughput < of("tomfc", 1, 500).Throughput/10, "",
		"bursts of 500: total %.0f messages/s, dysfc %.0f, tomfc %.0f", of("total", 1, 500).Throughput, of("dysfc", 1, 500).Throughput, of("tomfc", 1, 500).Throughput)
	return j.packingToday(ctx)
}

// packingToday checks the paper's conclusion on protocols of this repository: their frames hold all messages
// of a step, or a step takes one frame or one proposal.
func (j *job) packingToday(ctx context.Context) error {
	rates := map[bool]map[string]float64{}
	for _, unpacked := range []bool{false, true} {
		c := ordering.Default()
		c.Progress, c.Cost.Measured, c.Unpacked = j.progress, false, unpacked
		var err error
		if c.Protocols, err = ordering.Named([]string{"primcast", "fastcast"}); err != nil {
			return err
		}
		if c.Scenarios, err = ordering.ScenariosNamed([]string{"lan"}); err != nil {
			return err
		}
		c.Quick()
		c.Outstanding = []int{32}
		r, err := ordering.Run(ctx, c)
		if err != nil {
			return err
		}
		rates[unpacked] = map[string]float64{}
		for _, p := range r.Points {
			rates[unpacked][p.Protocol] = p.Throughput
		}
	}
	on, off := rates[false], rates[true]
	gain := min(on["primcast"]/off["primcast"], on["fastcast"]/off["fastcast"])
	between := max(on["primcast"], on["fastcast"]) / min(on["primcast"], on["fastcast"])
	j.check("Conclusion, today", "packing matters more than the choice of the protocol", gain > between, "",
		"LAN, messages/s packed and not: PrimCast %.0f and %.0f, FastCast %.0f and %.0f", on["primcast"], off["primcast"], on["fastcast"], off["fastcast"])
	return nil
}
