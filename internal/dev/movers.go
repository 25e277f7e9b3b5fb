package dev

import (
	"context"
	"errors"
	"fmt"

	"github.com/globalfs/globalfs/internal/mover"
	"github.com/globalfs/globalfs/internal/topology"
)

// movers move what was placed. There is one in each region, which works on what is to leave the region's partition, so that
// each inode is read nearby.
type movers struct {
	clients []*Client
	running []*running
}

func (c *Cluster) startMovers(ctx context.Context) error {
	for _, region := range c.Plan.Regions {
		client, err := c.Client(region)
		if err != nil {
			return fmt.Errorf("mover in %s: %w", region, err)
		}
		c.movers.clients = append(c.movers.clients, client)
		m, err := mover.New(mover.Config{
			Client: client.Client, Logger: c.cfg.Logger.With("mover", region),
			Mine: func(partition uint16) bool { return c.moverOf(partition) == region },
		})
		if err != nil {
			return fmt.Errorf("mover in %s: %w", region, err)
		}
		ctx, stop := context.WithCancel(ctx)
		r := &running{stop: stop, done: make(chan struct{})}
		c.movers.running = append(c.movers.running, r)
		go func() {
			defer close(r.done)
			m.Run(ctx)
		}()
	}
	return nil
}

// moverOf gives the region whose mover works on what is to leave a partition: that of a global one has
// replicas everywhere.
func (c *Cluster) moverOf(partition uint16) topology.Region {
	if r := c.Plan.Partitions[partition].Region; r != "" {
		return r
	}
	return c.Plan.Regions[0]
}

// stop ends all movers. What they have not moved yet they go on with after the next start.
func (m *movers) stop() error {
	for _, r := range m.running {
		r.stop()
	}
	for _, r := range m.running {
		<-r.done
	}
	var err error
	for _, c := range m.clients {
		err = errors.Join(err, c.Close())
	}
	*m = movers{}
	return err
}
