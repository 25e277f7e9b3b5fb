package client

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Where gives the attributes of an inode and the partition that it is in.
func (c *Client) Where(ctx context.Context, ino posix.Ino) (posix.Attr, uint16, error) {
	ctx, cancel := c.operation(ctx)
	defer cancel()
	a, err := c.askAt(ctx, &meta.Command{Op: meta.OpGetAttr, Ino: ino})
	if err != nil {
		return posix.Attr{}, 0, c.outcome(err)
	}
	return a.Attr, a.partition.id, nil
}

// PartitionTasks gives what a partition has to be moved in the background.
func (c *Client) PartitionTasks(ctx context.Context, partition uint16) ([]meta.Task, error) {
	p, err := c.partition(partition)
	if err != nil {
		return nil, posix.EINVAL
	}
	ctx, cancel := c.operation(ctx)
	defer cancel()
	tasks, err := c.tasks(ctx, p)
	return tasks, c.outcome(err)
}

// CopyBlocks stores all blocks of a file where partition target has its own, which is where they are
// looked for first once the file has moved there. What is written meanwhile may be missed: whoever reads
// it then gets it from where it was written. Only the single steps are bound by Config.Timeout.
func (c *Client) CopyBlocks(ctx context.Context, ino posix.Ino, target uint16) error {
	to, err := c.partition(target)
	if err != nil {
		return posix.EINVAL
	}
	for offset := uint64(0); ; {
		offset, err = c.SeekData(ctx, ino, offset)
		if err == nil {
			offset, err = c.copyWindow(ctx, to, ino, offset)
		}
		switch {
		case errors.Is(err, posix.ENXIO):
			return nil // no data is left
		case err != nil:
			return c.outcome(err)
		}
	}
}

// copyWindow copies blocks from offset on and gives up to where. There may be very many: only the single steps are bounded.
func (c *Client) copyWindow(ctx context.Context, to *partition, ino posix.Ino, offset uint64) (uint64, error) {
	for try := 1; ; try++ {
		asking, cancel := c.operation(ctx)
		a, err := c.askAtAs(asking, &meta.Command{Op: meta.OpExtents, Ino: ino, Offset: offset, Length: firstSeek}, c.cfg.Linearizable || try == maxRereads)
		cancel()
		if err != nil {
			return offset, err
		}
		err = c.copyExtents(ctx, a.partition, to, a.Extents)
		if !errors.Is(err, block.ErrNotFound) || try == maxRereads {
			return max(a.Number, offset+1), err
		}
		// Overwritten since the extents were read, and deleted: look again.
	}
}

func (c *Client) copyExtents(ctx context.Context, from, to *partition, extents []meta.Extent) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	copied := map[posix.BlockID]bool{}
	for _, e := range extents {
		if e.Data != nil || copied[e.Block] {
			continue
		}
		copied[e.Block] = true
		g.Go(func() error {
			ctx, cancel := c.operation(ctx)
			defer cancel()
			data, _, err := c.readBlock(ctx, from, e.Block, nil)
			if err != nil {
				return fmt.Errorf("block %v: %w", e.Block, err)
			}
			return to.blocks.Put(ctx, block.New(e.Block, data))
		})
	}
	return g.Wait()
}

// HasBlock reports whether a block of a file in a partition can be read.
func (c *Client) HasBlock(ctx context.Context, partition uint16, id posix.BlockID) (bool, error) {
	p, err := c.partition(partition)
	if err != nil {
		return false, posix.EINVAL
	}
	ctx, cancel := c.operation(ctx)
	defer cancel()
	_, _, err = c.readBlock(ctx, p, id, nil)
	if errors.Is(err, block.ErrNotFound) || errors.Is(err, block.ErrCorrupt) {
		return false, nil
	}
	return err == nil, c.outcome(err)
}
