package collector

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/metrics"
	"github.com/globalfs/globalfs/internal/topology"
)

// Amount is a number of blocks and their bytes, one copy of each. The bytes of a block are counted only in
// its home, also if another partition has held it.
type Amount struct {
	Blocks uint64 `json:"blocks"`
	Bytes  uint64 `json:"bytes"`
}

func (a *Amount) add(blocks int, bytes uint64) {
	a.Blocks += uint64(blocks)
	a.Bytes += bytes
}

// Partition is the usage of blocks of a partition.
type Partition struct {
	ID        uint16 `json:"partition"`
	Path      string `json:"path"`
	Live      Amount `json:"live"`      // in files
	Dropped   Amount `json:"dropped"`   // in the queue
	Due       Amount `json:"due"`       // of these: after the grace period
	Collected Amount `json:"collected"` // of these: deleted now
	Error     string `json:"error,omitempty"`
}

// Swept is the result of a sweep over the store of a region.
type Swept struct {
	Region  topology.Region `json:"region"`
	Seen    uint64          `json:"blocks"`
	Orphans Amount          `json:"orphans"`
	Brought Amount          `json:"brought"` // to other regions that had missed them
	Unasked uint64          `json:"unasked"` // blocks of partitions that did not answer, or that do not exist
	Deleted bool            `json:"deleted"`
	Error   string          `json:"error,omitempty"`
}

// Report is the outcome of a collection.
type Report struct {
	Partitions []Partition `json:"partitions"`
	Regions    []Swept     `json:"regions"`
}

// Complete reports whether every partition and every region has answered.
func (r *Report) Complete() bool {
	for _, p := range r.Partitions {
		if p.Error != "" {
			return false
		}
	}
	for _, s := range r.Regions {
		if s.Error != "" || s.Unasked > 0 {
			return false
		}
	}
	return true
}

// Once checks all partitions and the regions of this collector now, and deletes unneeded blocks unless dry is
// set.
func (c *Collector) Once(ctx context.Context, grace time.Duration, dry bool) (Report, error) {
	var r Report
	for _, p := range c.cfg.Metadata.Cluster().Partitions {
		r.Partitions = append(r.Partitions, Partition{ID: p.ID, Path: p.Path})
	}
	var working sync.WaitGroup
	c.once.Count(uint64(len(r.Partitions)), "partitions", "looking for dropped blocks")
	for i := range r.Partitions {
		working.Go(func() {
			c.report(ctx, &r.Partitions[i], grace, dry)
			c.once.Add(1)
		})
	}
	working.Wait()
	regions := c.mySweeps()
	r.Regions = make([]Swept, len(regions))
	c.once.Count(c.blocksIn(regions, r.Partitions), "blocks", "looking for orphans")
	for i, region := range regions {
		working.Go(func() { r.Regions[i], _ = c.sweep(ctx, region, !dry, &c.once) })
	}
	working.Wait()
	return r, ctx.Err()
}

// blocksIn returns the number of blocks that regions store for the partitions, apart from orphans.
func (c *Collector) blocksIn(regions []*Region, partitions []Partition) (total uint64) {
	plan := c.cfg.Metadata.Cluster()
	for _, r := range regions {
		for i := range partitions {
			if at := plan.Partitions[i].Region; at == "" || at == r.Name {
				total += partitions[i].Live.Blocks + partitions[i].Dropped.Blocks
			}
		}
	}
	return total
}

// report fills in the report of one partition.
func (c *Collector) report(ctx context.Context, p *Partition, grace time.Duration, dry bool) {
	due, usage, err := c.due(ctx, p.ID, time.Now().Add(-max(0, grace)))
	p.Due, p.Live, p.Dropped = due, Amount{usage.Blocks, usage.Bytes}, Amount{usage.Dropped, usage.DroppedBytes}
	if err == nil && !dry {
		p.Collected, err = c.collect(ctx, p.ID, grace)
	}
	if err != nil {
		p.Error = err.Error()
	}
}

// counts are the results of this collector since it was made.
type counts struct {
	mu        sync.Mutex
	collected map[uint16]Amount               // GUARDED_BY mu
	swept     map[topology.Region]*sweptCount // GUARDED_BY mu
}

type sweptCount struct {
	deleted Amount
	orphans Amount // that the last sweep found
	ended   time.Time
}

func (n *counts) noteCollected(partition uint16, a Amount) {
	n.mu.Lock()
	defer n.mu.Unlock()
	sum := n.collected[partition]
	n.collected[partition] = Amount{sum.Blocks + a.Blocks, sum.Bytes + a.Bytes}
}

func (n *counts) noteSwept(s *Swept) {
	n.mu.Lock()
	defer n.mu.Unlock()
	sum := n.swept[s.Region]
	if sum == nil {
		sum = &sweptCount{}
		n.swept[s.Region] = sum
	}
	sum.orphans = s.Orphans
	if s.Error == "" {
		sum.ended = time.Now()
	}
	if s.Deleted {
		sum.deleted.Blocks += s.Orphans.Blocks
		sum.deleted.Bytes += s.Orphans.Bytes
	}
}

// scrapePatience bounds the wait of a scrape for the partitions.
const scrapePatience = time.Second

// Metrics reports the results of this collector, and the usage of blocks of its partitions.
func (c *Collector) Metrics(report metrics.Report) {
	c.counts.mu.Lock()
	for partition, a := range c.counts.collected {
		report.Value(metrics.CollectedBlocks, float64(a.Blocks), fmt.Sprint(partition))
		report.Value(metrics.CollectedBytes, float64(a.Bytes), fmt.Sprint(partition))
	}
	for region, s := range c.counts.swept {
		report.Value(metrics.OrphanBlocks, float64(s.orphans.Blocks), string(region))
		report.Value(metrics.OrphanBytes, float64(s.orphans.Bytes), string(region))
		report.Value(metrics.SweptBlocks, float64(s.deleted.Blocks), string(region))
		report.Value(metrics.SweptBytes, float64(s.deleted.Bytes), string(region))
		if !s.ended.IsZero() {
			report.Value(metrics.SweepEnded, float64(s.ended.UnixMilli())/1000, string(region))
		}
	}
	c.counts.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), scrapePatience)
	defer cancel()
	for _, p := range c.cfg.Metadata.Cluster().Partitions {
		if !c.cfg.Mine(p.ID) {
			continue
		}
		if _, usage, err := c.cfg.Metadata.DroppedBlocks(ctx, p.ID, 0, time.Time{}); err == nil {
			report.Value(metrics.DataLiveBlocks, float64(usage.Blocks), fmt.Sprint(p.ID))
			report.Value(metrics.DataLiveBytes, float64(usage.Bytes), fmt.Sprint(p.ID))
			report.Value(metrics.DataDroppedBlocks, float64(usage.Dropped), fmt.Sprint(p.ID))
			report.Value(metrics.DataDroppedBytes, float64(usage.DroppedBytes), fmt.Sprint(p.ID))
		}
	}
}
