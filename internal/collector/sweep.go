package collector

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/topology"
)

// sweep looks at all blocks of a region's store and finds the orphans, and what other regions of their partitions have missed; if told to,
// it deletes the ones and brings the others. What it cannot ask about stays.
func (c *Collector) sweep(ctx context.Context, r *Region, remove bool) (Swept, error) {
	s := sweeping{collector: c, region: r, remove: remove, found: Swept{Region: r.Name, Deleted: remove}}
	var errs []error
	for id, err := range r.Store.Range(ctx, block.ID{}, block.LastID) {
		if err != nil {
			errs = append(errs, fmt.Errorf("list the blocks: %w", err))
			break
		}
		s.found.Seen++
		if len(s.batch) > 0 && (len(s.batch) == meta.MaxIDs || id.Partition() != s.batch[0].Partition()) {
			errs = append(errs, s.judge(ctx))
		}
		s.batch = append(s.batch, id)
		if ctx.Err() != nil {
			break
		}
	}
	errs = append(errs, s.judge(ctx), ctx.Err())
	if ctx.Err() == nil {
		c.counts.noteSwept(&s.found)
	}
	return s.found, errors.Join(errs...)
}

// sweeping is one sweep.
type sweeping struct {
	collector *Collector
	region    *Region
	remove    bool
	batch     []block.ID               // of one partition
	silent    map[uint16]bool          // partitions that did not answer: they are not asked again in this sweep
	away      map[topology.Region]bool // regions that cannot be brought anything in this sweep

	mu    sync.Mutex
	found Swept // while blocks are brought: GUARDED_BY mu
}

// judge asks for the blocks of the batch, and deletes the orphans among them.
func (s *sweeping) judge(ctx context.Context) error {
	batch := s.batch
	s.batch = s.batch[:0]
	if len(batch) == 0 {
		return nil
	}
	home := batch[0].Partition()
	if s.silent[home] {
		s.found.Unasked += uint64(len(batch))
		return nil
	}
	garbage, err := s.collector.cfg.Metadata.Garbage(ctx, home, batch)
	if err != nil {
		if s.silent == nil {
			s.silent = map[uint16]bool{}
		}
		s.silent[home] = true
		s.found.Unasked += uint64(len(batch))
		return fmt.Errorf("ask partition %d about its blocks: %w", home, err)
	}
	var orphans, needed []block.ID
	for i, is := range garbage {
		if is {
			orphans = append(orphans, batch[i])
		} else {
			needed = append(needed, batch[i])
		}
	}
	return errors.Join(s.orphans(ctx, orphans), s.bring(ctx, home, needed))
}

// orphans counts blocks that nobody needs, and deletes them.
func (s *sweeping) orphans(ctx context.Context, ids []block.ID) error {
	if len(ids) == 0 {
		return nil
	}
	bytes, err := s.bytes(ctx, ids)
	if err != nil {
		return err
	}
	if s.remove {
		if err := s.region.Store.Delete(ctx, ids); err != nil {
			return fmt.Errorf("delete %d orphans: %w", len(ids), err)
		}
	}
	s.found.Orphans.add(len(ids), bytes)
	return nil
}

// bytes sums the sizes of blocks.
func (s *sweeping) bytes(ctx context.Context, ids []block.ID) (sum uint64, err error) {
	sizes, err := s.region.Store.Sizes(ctx, ids)
	for _, size := range sizes {
		sum += uint64(size)
	}
	if err != nil {
		return sum, fmt.Errorf("sizes of %d blocks: %w", len(ids), err)
	}
	return sum, nil
}
