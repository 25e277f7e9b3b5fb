package collector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// collect deletes the blocks in the queue of a partition that were dropped longer than grace ago. A server or
// a region that is away does not keep the partition from forgetting the blocks: the copies there are orphans,
// for a sweep when it is back.
func (c *Collector) collect(ctx context.Context, partition uint16, grace time.Duration) (done Amount, err error) {
	store, err := c.cfg.Metadata.BlockStore(partition)
	if err != nil {
		return done, err
	}
	before := time.Now().Add(-max(0, grace))
	for {
		page, _, err := c.cfg.Metadata.DroppedBlocks(ctx, partition, 0, before)
		if err != nil || len(page) == 0 {
			return done, err
		}
		ids, bytes := idsOf(page)
		switch err := store.Delete(ctx, ids); {
		case ctx.Err() != nil:
			return done, ctx.Err()
		case errors.Is(err, block.ErrUnavailable):
			c.cfg.Logger.Debug("gc: not all copies of dropped blocks could be deleted: a sweep will find the rest", "partition", partition, "error", err)
		case err != nil:
			return done, fmt.Errorf("delete %d dropped blocks of partition %d: %w", len(ids), partition, err)
		}
		if _, err := c.cfg.Metadata.Collected(ctx, partition, ids); err != nil {
			return done, err
		}
		done.add(len(ids), bytes)
		c.counts.noteCollected(partition, Amount{uint64(len(ids)), bytes})
	}
}

// due counts the blocks that collect would delete, and returns the partition's usage of blocks.
func (c *Collector) due(ctx context.Context, partition uint16, before time.Time) (due Amount, usage meta.BlockUsage, err error) {
	for after := uint64(0); ; {
		page, usage, err := c.cfg.Metadata.DroppedBlocks(ctx, partition, after, before)
		if err != nil || len(page) == 0 {
			return due, usage, err
		}
		_, bytes := idsOf(page)
		due.add(len(page), bytes)
		after = page[len(page)-1].Place
	}
}

func idsOf(page []meta.Dropped) (ids []posix.BlockID, bytes uint64) {
	for _, d := range page {
		ids = append(ids, d.ID)
		bytes += d.Length
	}
	return ids, bytes
}
