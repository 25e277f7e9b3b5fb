package collector

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/progress"
	"github.com/globalfs/globalfs/internal/topology"
)

// sweep checks all blocks of a region's store. It finds the orphans, and the blocks that other regions of
// their partitions have missed. If remove is set, it deletes the orphans and brings the missed blocks. Blocks
// of partitions that do not answer stay.
func (c *Collector) sweep(ctx context.Context, r *Region, remove bool, meter *progress.Meter) (Swept, error) {
	s := sweeping{collector: c, region: r, remove: remove, found: Swept{Region: r.Name, Deleted: remove}}
	for id, err := range r.Store.Range(ctx, block.ID{}, block.LastID) {
		if err != nil {
			s.fail(fmt.Errorf("list the blocks: %w", err))
			break
		}
		s.found.Seen++
		meter.Add(1)
		if len(s.batch) > 0 && (len(s.batch) == meta.MaxIDs || id.Partition() != s.batch[0].Partition()) {
			s.judge(ctx)
		}
		s.batch = append(s.batch, id)
		if ctx.Err() != nil {
			break
		}
	}
	s.judge(ctx)
	if ctx.Err() != nil {
		s.fail(ctx.Err())
	}
	err := s.failure()
	if err != nil {
		s.found.Error = err.Error()
	}
	c.counts.noteSwept(&s.found)
	return s.found, err
}

// sweeping is one sweep.
type sweeping struct {
	collector   *Collector
	region      *Region
	remove      bool
	batch       []block.ID               // of one partition
	unanswered  map[uint16]bool          // partitions that did not answer: no more queries in this sweep
	unreachable map[topology.Region]bool // regions that no block can be brought to in this sweep

	mu     sync.Mutex
	found  Swept   // while blocks are brought: GUARDED_BY mu
	errs   []error // GUARDED_BY mu; the first few
	failed int     // GUARDED_BY mu
}

// maxErrors is the number of reported errors of a sweep: each page may have one.
const maxErrors = 3

// fail records an error: the sweep continues.
func (s *sweeping) fail(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed++; len(s.errs) < maxErrors {
		s.errs = append(s.errs, err)
	}
}

// failure returns the recorded errors.
func (s *sweeping) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if more := s.failed - len(s.errs); more > 0 {
		return errors.Join(append(s.errs, fmt.Errorf("and %d more errors", more))...)
	}
	return errors.Join(s.errs...)
}

// judge queries the home of the batch for garbage. It deletes the orphans, and brings the others to regions
// that miss them.
func (s *sweeping) judge(ctx context.Context) {
	batch := s.batch
	s.batch = s.batch[:0]
	if len(batch) == 0 {
		return
	}
	home := batch[0].Partition()
	if s.unanswered[home] {
		s.found.Unasked += uint64(len(batch))
		return
	}
	garbage, err := s.collector.cfg.Metadata.Garbage(ctx, home, batch)
	if err != nil {
		if s.unanswered == nil {
			s.unanswered = map[uint16]bool{}
		}
		s.unanswered[home] = true
		s.found.Unasked += uint64(len(batch))
		s.fail(fmt.Errorf("ask partition %d about its blocks: %w", home, err))
		return
	}
	var orphans, needed []block.ID
	for i, is := range garbage {
		if is {
			orphans = append(orphans, batch[i])
		} else {
			needed = append(needed, batch[i])
		}
	}
	s.fail(s.orphans(ctx, orphans))
	s.bring(ctx, home, needed)
}

// orphans counts unneeded blocks, and deletes them if remove is set.
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

// bytes returns the sum of the sizes of blocks.
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
