package client

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/client/route"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// maxFollowing is the number of moved files that can wait for their blocks. Readers bring the blocks of
// further files.
const maxFollowing = 1 << 12

// Copier brings blocks to the partitions where their files are.
type Copier struct {
	common
	blocks *Blocks
	reader *Reader
	moved  chan movedFile // files that wait for their blocks
}

func newCopier(c common, blocks *Blocks, reader *Reader) *Copier {
	return &Copier{common: c, blocks: blocks, reader: reader, moved: make(chan movedFile, maxFollowing)}
}

// movedFile is a file that this client has moved to a partition.
type movedFile struct {
	ino posix.Ino
	to  uint16
}

// follow copies the blocks of a moved file to the store of its new partition, in the background (T 3.8). If
// the copy fails, for example because this client dies, readers bring the blocks.
func (c *Copier) follow(ino posix.Ino, to uint16) {
	select {
	case c.moved <- movedFile{ino, to}:
	default:
	}
}

// followMoved brings the blocks of one file after the other, during a lifetime of the client.
func (c *Copier) followMoved(life context.Context) {
	for {
		select {
		case <-life.Done():
			return
		case f := <-c.moved:
			if err := c.CopyBlocks(life, f.ino, f.to); err != nil && life.Err() == nil {
				c.notices.Debug("the blocks of a file that has moved could not all be brought to it: readers fetch them from where they are",
					"inode", f.ino, "partition", f.to, "error", err)
			}
		}
	}
}

// CopyBlocks stores all blocks of a file in the store of partition target. Readers look there first once the
// file has moved. CopyBlocks may miss blocks that are written meanwhile: readers then get them from the store
// to which they were written. Config.Timeout bounds the single steps only.
func (c *Copier) CopyBlocks(ctx context.Context, ino posix.Ino, target uint16) error {
	if err := c.has(target); err != nil {
		return err
	}
	for offset := uint64(0); ; {
		var err error
		offset, err = c.reader.SeekData(ctx, ino, offset)
		if err == nil {
			offset, err = c.copyWindow(ctx, target, ino, offset)
		}
		switch {
		case errors.Is(err, posix.ENXIO):
			return nil // no data is left
		case err != nil:
			return c.outcome(err)
		}
	}
}

// copyWindow copies blocks from offset on and returns the end of the copied range. There may be very many
// blocks: only the single steps are bounded.
func (c *Copier) copyWindow(ctx context.Context, target uint16, ino posix.Ino, offset uint64) (uint64, error) {
	for try := 1; ; try++ {
		to := route.Inode(ino)
		if try == maxRereads {
			to = to.Fresh()
		}
		a, err := c.router.Query(ctx, &meta.Command{Op: meta.OpExtents, Ino: ino, Offset: offset, Length: firstSeek, Flags: meta.TellRights}, to)
		if err != nil {
			return offset, err
		}
		err = c.copyExtents(ctx, a.Partition, target, a.Extents)
		if !errors.Is(err, block.ErrNotFound) && !errors.Is(err, block.ErrForbidden) || try == maxRereads {
			return max(a.Number, offset+1), err
		}
		// The block was overwritten and deleted since the query, or the keys of the servers have changed:
		// query again.
	}
}

func (c *Copier) copyExtents(ctx context.Context, from, target uint16, extents []meta.Extent) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	copied := map[posix.BlockID]bool{}
	for _, e := range extents {
		if e.Data != nil || copied[e.Block] {
			continue
		}
		copied[e.Block] = true
		g.Go(func() error {
			ctx, cancel := c.router.Operation(ctx)
			defer cancel()
			data, _, err := c.blocks.read(block.WithRight(ctx, e.Right), from, e.Block, nil)
			if err != nil {
				return fmt.Errorf("block %v: %w", e.Block, err)
			}
			return c.blocks.stores.All()[target].Put(ctx, block.New(e.Block, data))
		})
	}
	return g.Wait()
}
