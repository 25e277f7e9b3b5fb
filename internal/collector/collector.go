package collector

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/pause"
	"github.com/globalfs/globalfs/internal/progress"
	"github.com/globalfs/globalfs/internal/topology"
)

// Store is the block store of a region, which also returns the lengths of blocks.
type Store interface {
	block.Store
	// Sizes returns the length of each block in bytes, 0 for an absent block.
	Sizes(ctx context.Context, ids []block.ID) ([]uint32, error)
}

// Metadata is a collector's access to the partitions: a client.
type Metadata interface {
	Cluster() *topology.Cluster
	// DroppedBlocks returns the oldest blocks behind a place in a partition's queue that were dropped before
	// a time, and the partition's usage of blocks.
	DroppedBlocks(ctx context.Context, partition uint16, after uint64, before time.Time) ([]meta.Dropped, meta.BlockUsage, error)
	// Collected reports to a partition that blocks in its queue are deleted, and returns the number of those
	// that were still in the queue.
	Collected(ctx context.Context, partition uint16, ids []block.ID) (uint64, error)
	// Garbage reports for each block whether no file needs it. All blocks were written for partition home.
	Garbage(ctx context.Context, home uint16, ids []block.ID) ([]bool, error)
	// BlockStore returns the stores of all regions of a partition as one.
	BlockStore(partition uint16) (block.Store, error)
}

// Region is a region with its store.
type Region struct {
	Name  topology.Region
	Store Store
}

// Config of a Collector. Zero values take the defaults.
type Config struct {
	Metadata Metadata
	Regions  []Region // all regions
	// Sweeps reports whether this collector sweeps a region's store. It is called before each sweep. Nil: it
	// sweeps all stores.
	Sweeps func(topology.Region) bool
	// Mine reports whether this collector works on the queue of a partition. One collector must; several do
	// no harm. Nil: it works on all queues.
	Mine     func(partition uint16) bool
	Grace    time.Duration // time for which a dropped block is kept; negative: none
	Interval time.Duration // between queries of the queues
	Sweep    time.Duration // between sweeps
	Logger   *slog.Logger  // nil: slog.Default()
}

// Defaults of Config.
const (
	DefaultGrace    = 10 * time.Minute
	DefaultInterval = 10 * time.Second
	DefaultSweep    = time.Hour
)

// Validate returns an error with the wrong field and the remedy.
func (cfg *Config) Validate() error {
	switch {
	case cfg.Metadata == nil:
		return fmt.Errorf("collector: nobody to ask about blocks: set Metadata")
	case cfg.Interval < 0 || cfg.Sweep < 0:
		return fmt.Errorf("collector: interval %v, sweep %v: give positive durations, or 0 for %v and %v", cfg.Interval, cfg.Sweep, DefaultInterval, DefaultSweep)
	}
	for _, r := range cfg.Regions {
		if r.Store == nil {
			return fmt.Errorf("collector: region %s has no store: set Store", r.Name)
		}
	}
	return nil
}

// Collector deletes unneeded blocks.
type Collector struct {
	cfg    Config
	counts counts
	once   progress.Meter // of Once
}

// Progress returns the progress of the present or last call of Once.
func (c *Collector) Progress() progress.State { return c.once.State() }

// New makes a collector.
func New(cfg Config) (*Collector, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Mine == nil {
		cfg.Mine = func(uint16) bool { return true }
	}
	if cfg.Grace == 0 {
		cfg.Grace = DefaultGrace
	}
	if cfg.Sweeps == nil {
		cfg.Sweeps = func(topology.Region) bool { return true }
	}
	if cfg.Interval == 0 {
		cfg.Interval = DefaultInterval
	}
	if cfg.Sweep == 0 {
		cfg.Sweep = DefaultSweep
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Collector{cfg: cfg, counts: counts{collected: map[uint16]Amount{}, swept: map[topology.Region]*sweptCount{}}}, nil
}

// Grace returns the time for which a dropped block is kept.
func (c *Collector) Grace() time.Duration { return max(0, c.cfg.Grace) }

// Run collects until ctx ends. It works on partitions and regions independently: one that cannot be reached
// does not delay the others.
func (c *Collector) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, p := range c.cfg.Metadata.Cluster().Partitions {
		running.Go(func() {
			for pause.Between(ctx, 3*c.cfg.Interval/4, c.cfg.Interval) == nil {
				c.collectMine(ctx, p.ID)
			}
		})
	}
	for i := range c.cfg.Regions {
		running.Go(func() {
			for pause.Between(ctx, 3*c.cfg.Sweep/4, c.cfg.Sweep) == nil {
				if r := &c.cfg.Regions[i]; c.cfg.Sweeps(r.Name) {
					c.sweepOne(ctx, r)
				}
			}
		})
	}
	running.Wait()
}

// mySweeps returns the regions that this collector sweeps.
func (c *Collector) mySweeps() (mine []*Region) {
	for i := range c.cfg.Regions {
		if c.cfg.Sweeps(c.cfg.Regions[i].Name) {
			mine = append(mine, &c.cfg.Regions[i])
		}
	}
	return mine
}

func (c *Collector) collectMine(ctx context.Context, partition uint16) {
	if !c.cfg.Mine(partition) {
		return
	}
	got, err := c.collect(ctx, partition, c.cfg.Grace)
	if err != nil && ctx.Err() == nil {
		c.cfg.Logger.Debug("gc: dropped blocks of a partition cannot be deleted now: trying again later", "partition", partition, "error", err)
	}
	if got.Blocks > 0 {
		c.cfg.Logger.Info("gc: deleted dropped blocks", "partition", partition, "blocks", got.Blocks, "bytes", got.Bytes)
	}
}

func (c *Collector) sweepOne(ctx context.Context, r *Region) {
	began := time.Now()
	found, err := c.sweep(ctx, r, true, nil)
	if err != nil && ctx.Err() == nil {
		c.cfg.Logger.Warn("gc: a sweep did not see all blocks of a region: the next one begins anew; check that its storage servers and the partitions' replicas answer",
			"region", r.Name, "error", err)
	}
	if ctx.Err() == nil {
		c.cfg.Logger.Info("gc: swept a region", "region", r.Name, "blocks", found.Seen, "orphans", found.Orphans.Blocks, "bytes", found.Orphans.Bytes, "brought elsewhere", found.Brought.Blocks, "took", time.Since(began).Round(time.Millisecond))
	}
}
