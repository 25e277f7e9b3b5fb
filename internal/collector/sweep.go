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

// sweep looks at all blocks of a region's store and finds the orphans, and what other regions of their
// partitions have missed; if told to, it deletes the ones and brings the others. What it cannot ask about
// stays.
func (c *Collector) sweep(ctx context.Context, r *Region, remove bool) (Swept, error) {
	s := sweeping{collector: c, region: r, remove: remove, found: Swept{Region: r.Name, Deleted: remove}}
	for id, err := range r.Store.Range(ctx, block.ID{}, block.LastID) {
		if err != nil {
			s.fail(fmt.Errorf("list the blocks: %w", err))
			break
		}
		s.found.Seen++
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
	collector *Collector
	region    *Region
	remove    bool
	batch     []block.ID               // of one partition
	silent    map[uint16]bool          // partitions that did not answer: they are not asked again in this sweep
	away      map[topology.Region]bool // regions that cannot be brought anything in this sweep

	mu     sync.Mutex
	found  Swept   // while blocks are brought: GUARDED_BY mu
	errs   []error // GUARDED_BY mu; the first few
	failed int     // GUARDED_BY mu
}

// maxErrors is how many errors of a sweep are told: each page may have one.
const maxErrors = 3

// fail notes an error: the sweep goes on.
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

// failure gives what went wrong.
func (s *sweeping) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if more := s.failed - len(s.errs); more > 0 {
		return errors.Join(append(s.errs, fmt.Errorf("and %d more errors", more))...)
	}
	return errors.Join(s.errs...)
}

// judge asks for the blocks of the batch, and deletes the orphans among them.
func (s *sweeping) judge(ctx context.Context) {
	batch := s.batch
	s.batch = s.batch[:0]
	if len(batch) == 0 {
		return
	}
	home := batch[0].Partition()
	if s.silent[home] {
		s.found.Unasked += uint64(len(batch))
		return
	}
	garbage, err := s.collector.cfg.Metadata.Garbage(ctx, home, batch)
	if err != nil {
		if s.silent == nil {
			s.silent = map[uint16]bool{}
		}
		s.silent[home] = true
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
