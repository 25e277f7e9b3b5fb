package route

import (
	"strconv"

	"github.com/globalfs/globalfs/internal/metrics"
)

// counts has the latencies of a partition's answers, including retries.
type counts struct {
	queries metrics.Durations
	updates [4]metrics.Durations // by the number of partitions of the update: 1, 2, 3, or more
}

func (c *counts) update(partitions int) *metrics.Durations {
	return &c.updates[min(max(partitions, 1), len(c.updates))-1]
}

// Metrics reports the latencies of the partitions' answers, labelled with the name of a mount.
func (r *Router) Metrics(report metrics.Report, mount string) {
	for _, p := range r.partitions.All() {
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

// Calls returns the numbers of queries and updates that were answered so far.
func (r *Router) Calls() (queries, updates uint64) {
	for _, p := range r.partitions.All() {
		queries += p.counts.queries.Count()
		for i := range p.counts.updates {
			updates += p.counts.updates[i].Count()
		}
	}
	return queries, updates
}
