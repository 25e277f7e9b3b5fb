package dev

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/globalfs/globalfs/internal/attach"
	"github.com/globalfs/globalfs/internal/collector"
	"github.com/globalfs/globalfs/internal/mover"
	"github.com/globalfs/globalfs/internal/topology"
)

// workers do what is to be done in the background. In each region there are a mover, which moves what is to leave the region's
// partition, so that each inode is read nearby; and a collector, which deletes what the partition has dropped and sweeps the
// region's blocks.
type workers struct {
	clients []*attach.Client

	mu      sync.Mutex
	running []*running // GUARDED_BY mu
	over    bool       // GUARDED_BY mu; nothing more is started
}

func (c *Cluster) startWorkers(ctx context.Context) error {
	for _, region := range c.Plan.Regions {
		client, err := c.Client(region)
		if err != nil {
			return fmt.Errorf("background work in %s: %w", region, err)
		}
		c.workers.clients = append(c.workers.clients, client)
		mine := func(partition uint16) bool { return c.workerOf(partition) == region }
		m, err := mover.New(mover.Config{Client: client.Client, Logger: c.cfg.Logger.With("mover", region), Mine: mine})
		if err != nil {
			return fmt.Errorf("mover in %s: %w", region, err)
		}
		g, err := collector.New(collector.Config{
			Metadata: client.Client, Regions: client.Regions, Mine: mine, Grace: c.cfg.Grace, Sweep: c.cfg.Sweep,
			Sweeps: func(r topology.Region) bool { return r == region }, Logger: c.cfg.Logger.With("collector", region),
		})
		if err != nil {
			return fmt.Errorf("collector in %s: %w", region, err)
		}
		c.metrics.Add(g.Metrics)
		c.workers.start(ctx, m.Run)
		c.workers.start(ctx, g.Run)
	}
	for _, s := range c.Plan.Servers {
		if s.State == topology.StorageLeaving {
			c.workers.start(ctx, func(ctx context.Context) { c.retire(ctx, s.Name) })
		}
	}
	return nil
}

// start runs something until the workers stop.
func (w *workers) start(ctx context.Context, run func(context.Context)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	ctx, stop := context.WithCancel(ctx)
	r := &running{stop: stop, done: make(chan struct{})}
	w.running = append(w.running, r)
	go func() {
		defer close(r.done)
		run(ctx)
	}()
}

// workerOf gives the region whose workers look after a partition: that of a global one has
// replicas everywhere.
func (c *Cluster) workerOf(partition uint16) topology.Region {
	if r := c.Plan.Partitions[partition].Region; r != "" {
		return r
	}
	return c.Plan.Regions[0]
}

// stop ends all workers. What they have not done yet they go on with after the next start.
func (w *workers) stop() error {
	w.mu.Lock()
	w.over = true
	running := w.running
	w.running = nil
	w.mu.Unlock()
	for _, r := range running {
		r.stop()
	}
	for _, r := range running {
		<-r.done
	}
	var err error
	for _, c := range w.clients {
		err = errors.Join(err, c.Close())
	}
	w.clients = nil
	return err
}

// Collector makes a collector that looks after all partitions and sweeps all regions when it is told to (Once).
func (c *Cluster) Collector(client *attach.Client) (*collector.Collector, error) {
	return collector.New(collector.Config{Metadata: client.Client, Regions: client.Regions, Grace: c.cfg.Grace, Logger: c.cfg.Logger})
}
