package reproduce

import (
	"context"

	"github.com/globalfs/globalfs/bench/carrier"
)

// twoShards compares the ways to execute a command of the file system over two partitions of a region.
func (j *job) twoShards(ctx context.Context) error {
	c := carrier.Default()
	c.Progress = j.progress
	if j.Quick {
		c.Quick()
	}
	c.Experiments = []string{"shards"}
	r, err := carrier.Run(ctx, c)
	if err != nil {
		return err
	}
	if err := r.WriteFiles(j.dir); err != nil {
		return err
	}
	media := carrier.Media()
	rdma, room := media[0], media[1]
	of := func(medium, way string) carrier.Shard { return r.Of(medium, "rename", way) }
	heron, writes, frames := of(rdma, carrier.ByHeron), of(rdma, carrier.ByWrites), of(rdma, carrier.ByFrames)
	j.check("File system with RDMA", "remote reads and one-sided coordination are faster than messages", heron.P50 < writes.P50 && writes.P50 < frames.P50, "",
		"p50 of a rename over two shards: Heron %.0f us, votes by one-sided writes %.0f us, votes in frames %.0f us; many clients: %.0f, %.0f and %.0f/s",
		heron.P50, writes.P50, frames.P50, heron.Rate, writes.Rate, frames.Rate)
	heron, writes, frames = of(room, carrier.ByHeron), of(room, carrier.ByWrites), of(room, carrier.ByFrames)
	j.check("File system without RDMA", "the order of the three ways is the same on any fabric", heron.P50 < frames.P50 && writes.P50 < frames.P50,
		"The paper makes no such claim: Heron assumes RDMA. Servers here have provider soft, whose operations are messages on streams, and a command of Heron takes more of them than a commit has frames. So the commit with votes in frames is the default.",
		"p50 of a rename over two shards: Heron %.0f us, votes by one-sided writes %.0f us, votes in frames %.0f us; many clients: %.0f, %.0f and %.0f/s",
		heron.P50, writes.P50, frames.P50, heron.Rate, writes.Rate, frames.Rate)
	return nil
}
