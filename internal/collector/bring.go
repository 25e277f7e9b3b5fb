package collector

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/topology"
)

// bringing bounds the blocks that are copied between regions at a time.
const bringing = 4

// bring copies blocks of this region to the other regions of their partition that have missed them, because
// these were away during the write. The sweeps of the other regions bring the blocks that this region has
// missed.
func (s *sweeping) bring(ctx context.Context, home uint16, ids []block.ID) {
	partitions := s.collector.cfg.Metadata.Cluster().Partitions
	if len(ids) == 0 || int(home) >= len(partitions) {
		return
	}
	regions := partitions[home].Regions()
	if !slices.Contains(regions, s.region.Name) {
		return // copies of files that have moved here: their home has the blocks
	}
	for i := range s.collector.cfg.Regions {
		to := &s.collector.cfg.Regions[i]
		if to.Name == s.region.Name || !slices.Contains(regions, to.Name) || s.unreachable[to.Name] {
			continue
		}
		if err := s.bringTo(ctx, to, ids); err != nil {
			if s.unreachable == nil {
				s.unreachable = map[topology.Region]bool{}
			}
			s.unreachable[to.Name] = true
			s.fail(fmt.Errorf("bring what region %s has missed: %w", to.Name, err))
		}
	}
}

func (s *sweeping) bringTo(ctx context.Context, to *Region, ids []block.ID) error {
	there, err := to.Store.Sizes(ctx, ids)
	if err != nil {
		return err
	}
	var missed []block.ID
	for i, size := range there {
		if size == 0 {
			missed = append(missed, ids[i])
		}
	}
	if len(missed) == 0 {
		return nil
	}
	if !s.remove {
		bytes, err := s.bytes(ctx, missed)
		s.found.Brought.add(len(missed), bytes)
		return err
	}
	g, copying := errgroup.WithContext(ctx)
	g.SetLimit(bringing)
	for _, id := range missed {
		g.Go(func() error { return s.bringBlock(copying, to, id) })
	}
	return g.Wait()
}

// bringBlock copies one block. An unreadable block does not stop the sweep: it may have been deleted
// meanwhile.
func (s *sweeping) bringBlock(ctx context.Context, to *Region, id block.ID) error {
	data, err := s.region.Store.Get(ctx, id, nil)
	switch {
	case errors.Is(err, block.ErrNotFound) || errors.Is(err, block.ErrCorrupt):
		return nil
	case err != nil:
		s.fail(fmt.Errorf("read block %v, which region %s has missed: %w", id, to.Name, err))
		return nil
	}
	if err := to.Store.Put(ctx, block.New(id, data)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found.Brought.add(1, uint64(len(data)))
	return nil
}
