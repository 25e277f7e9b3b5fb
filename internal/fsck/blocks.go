package fsck

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// parallel is the maximum number of concurrent checks of blocks.
const parallel = 16

// finder returns the fault of a block; wrong is empty if the block can be read.
type finder func(ctx context.Context, id posix.BlockID) (wrong string, err error)

// wanted returns the number of blocks of a partition to look for.
func (o *Options) wanted(p *Partition) uint64 { return min(uint64(max(0, o.Blocks)), p.Blocks) }

// countBlocks counts the blocks of all partitions to check, for the progress.
func (o *Options) countBlocks(partitions []Partition) {
	total := uint64(0)
	for i := range partitions {
		total += o.wanted(&partitions[i])
	}
	o.Progress.Count(total, "blocks", "looking for the blocks")
}

// blocks checks the blocks of a partition. If o permits only a part of them, it checks blocks at even
// distances.
func (r *Report) blocks(ctx context.Context, o *Options, p *Partition, keys meta.Reader, find finder) error {
	wanted := o.wanted(p)
	if wanted == 0 {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	var mu sync.Mutex
	var bad []string // GUARDED_BY mu
	var n uint64
	for id, ino := range meta.Held(keys) {
		n++
		if n*wanted/p.Blocks == (n-1)*wanted/p.Blocks {
			continue
		}
		if ctx.Err() != nil {
			break
		}
		p.Read++
		g.Go(func() error {
			defer o.Progress.Add(1)
			wrong, err := find(ctx, id)
			switch {
			case err != nil:
				return fmt.Errorf("block %v of inode %d in partition %d: %w", id, ino, p.ID, err)
			case wrong != "":
				mu.Lock()
				defer mu.Unlock()
				bad = append(bad, fmt.Sprintf("block %v of inode %d: %s", id, ino, wrong))
			}
			return nil
		})
	}
	err := g.Wait()
	slices.Sort(bad)
	r.add(partitionName(p.ID), bad...)
	return err
}
