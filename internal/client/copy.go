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

// maxFollowing is the maximum number of moved files that wait for copies of their blocks. Blocks of further
// files are copied by their readers.
const maxFollowing = 1 << 12

// Copier copies blocks to the partitions of their files.
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
// that fails, for example because this process dies, readers copy the blocks.
func (c *Copier) follow(ino posix.Ino, to uint16) {
	select {
	case c.moved <- movedFile{ino, to}:
	default:
	}
}

// followMoved copies the blocks of moved files, one file after the other, until life ends.
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

// CopyBlocks copies all blocks of a file to the store of partition target, where readers look first after the
// file has moved. It may miss blocks that are written meanwhile; readers get these from the store to which
// they were written. Config.Timeout bounds only the single steps.
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

// copyWindow copies blocks from offset on, and returns the end of the copied range. A file may have very many
// blocks, so only single steps have a time limit.
func (c *Copier) copyWindow(ctx context.Context, target uint16, ino posix.Ino, offset uint64) (uint64, error) {
	for try := 1; ; try++ {
		to := route.Inode(ino)
		if try == maxRereads {
			to = to.Fresh()
		}
		a, err := c.router.Query(ctx, &meta.Command{Op: meta.OpExtents, Ino: ino, Offset: offset, Length: firstSeek, Flags: meta.ReturnRights}, to)
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
