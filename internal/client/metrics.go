package client

import (
	"strconv"

	"github.com/globalfs/globalfs/internal/metrics"
)

// counts is how long the answers of a partition took, retries included.
type counts struct {
	queries metrics.Durations
	updates [4]metrics.Durations // by the partitions concerned: one to three, or more
}

func (c *counts) update(partitions int) *metrics.Durations {
	return &c.updates[min(max(partitions, 1), len(c.updates))-1]
}

// Metrics tells how long answers took, for the mount of that name.
func (c *Client) Metrics(report metrics.Report, mount string) {
	for _, p := range c.partitions {
		id := strconv.Itoa(int(p.id))
		report.Durations(metrics.ClientQueries, &p.counts.queries, mount, id)
		for i := range p.counts.updates {
			partitions := strconv.Itoa(i + 1)
			if i == len(p.counts.updates)-1 {
				partitions = "more"
			}
			report.Durations(metrics.ClientUpdates, &p.counts.updates[i], mount, id, partitions)
		}
	}
}
