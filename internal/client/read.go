package client

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// parallel bounds the blocks that one operation moves at a time.
const parallel = 8

// maxWindow bounds the range whose extents are asked for at once, in bytes: an answer must fit a message
// even if the extents are short.
const maxWindow = 2 << 20

// maxRereads bounds how often a read begins anew because others replaced what it was reading.
const maxRereads = 3

// Read reads into from offset on and gives how much there was: less than len(into) only at
// the end of the file. Holes are zeros.
func (c *Client) Read(ctx context.Context, ino posix.Ino, into []byte, offset uint64) (int, error) {
	ctx, cancel := c.operation(ctx)
	defer cancel()
	n := 0
	for n < len(into) {
		window := into[n:min(len(into), n+maxWindow)]
		got, err := c.readWindow(ctx, ino, window, offset+uint64(n))
		n += got
		if err != nil {
			return n, c.outcome(err)
		}
		if got == 0 {
			break // the end
		}
	}
	return n, nil
}

// readWindow gives how much it has read: nothing only at the end of the file.
func (c *Client) readWindow(ctx context.Context, ino posix.Ino, into []byte, offset uint64) (int, error) {
	for try := 1; ; try++ {
		r, err := c.askAt(ctx, &meta.Command{Op: meta.OpExtents, Ino: ino, Offset: offset, Length: uint64(len(into))})
		if err != nil || offset >= r.Attr.Size {
			return 0, err
		}
		n := int(min(uint64(len(into)), r.Attr.Size-offset, r.Number-min(offset, r.Number)))
		err = c.fill(ctx, r.partition, into[:n], offset, r.Extents)
		switch {
		case err == nil:
			return n, nil
		case !errors.Is(err, block.ErrNotFound) || try == maxRereads:
			if ctx.Err() == nil {
				c.events.warn("read block", "a block cannot be read: check the storage servers of the partition's regions", "partition", r.partition.id, "inode", ino, "error", err)
			}
			return 0, err
		}
		// Overwritten since the extents were read, and deleted: look again.
	}
}

// fill puts the content of extents, which lie in the range at offset in order, in their places, and
// zeros between them. into may hold anything before.
func (c *Client) fill(ctx context.Context, p *partition, into []byte, offset uint64, extents []meta.Extent) error {
	var blocks []meta.Extent
	at := offset
	for _, e := range extents {
		if e.Offset < at || e.Length > uint64(len(into)) || e.Offset+e.Length > offset+uint64(len(into)) {
			return fmt.Errorf("extent at %d of %d bytes is not in its place", e.Offset, e.Length)
		}
		clear(into[at-offset : e.Offset-offset])
		at = e.Offset + e.Length
		if e.Data == nil {
			blocks = append(blocks, e)
			continue
		}
		copy(into[e.Offset-offset:], e.Data)
	}
	clear(into[at-offset:])
	place := func(e *meta.Extent) []byte { return into[e.Offset-offset:][:e.Length] }
	if len(blocks) == 1 {
		return c.get(ctx, p, &blocks[0], place(&blocks[0]))
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i := range blocks {
		g.Go(func() error { return c.get(ctx, p, &blocks[i], place(&blocks[i])) })
	}
	return g.Wait()
}

// get reads the bytes of e. A block that has no others goes straight into its place.
func (c *Client) get(ctx context.Context, p *partition, e *meta.Extent, into []byte) error {
	data, err := c.fetch(ctx, p, e.Block, into)
	if err != nil {
		return err
	}
	if uint64(len(data)) < uint64(e.Skip)+e.Length {
		return fmt.Errorf("block %v has %d bytes, %d at %d are wanted: %w", e.Block, len(data), e.Length, e.Skip, posix.EIO)
	}
	if data = data[e.Skip:][:e.Length]; &data[0] != &into[0] {
		copy(into, data)
	}
	return nil
}

// fetch gives a block of a file that is in p. One that came from elsewhere is put into p's store for the next
// reader (T 3.8).
func (c *Client) fetch(ctx context.Context, p *partition, id posix.BlockID, into []byte) ([]byte, error) {
	data, from, err := c.readBlock(ctx, p, id, into)
	if err == nil && from != p {
		c.bring(p, id, data)
	}
	return data, err
}

// readBlock reads a block of a file that is in p: from p's store or, if that does not have it yet or cannot tell, from that of
// the partition where the file was when the block was written.
func (c *Client) readBlock(ctx context.Context, p *partition, id posix.BlockID, into []byte) (data []byte, from *partition, err error) {
	data, err = p.blocks.Get(ctx, id, into[:0:len(into)])
	if err == nil || ctx.Err() != nil {
		return data, p, err
	}
	from, unknown := c.partition(id.Partition())
	if unknown != nil || from == p {
		return nil, p, err
	}
	data, there := from.blocks.Get(ctx, id, into[:0:len(into)])
	if there != nil && !errors.Is(err, block.ErrNotFound) {
		return nil, p, err
	}
	return data, from, there
}

// bring puts a block into the store of p in the background, unless enough is on its way already: reading goes on without it.
func (c *Client) bring(p *partition, id posix.BlockID, data []byte) {
	select {
	case c.bringing <- struct{}{}:
	default:
		return
	}
	data = slices.Clone(data)
	c.running.Go(func() {
		defer func() { <-c.bringing }()
		ctx, cancel := c.operation(c.life)
		defer cancel()
		if err := p.blocks.Put(ctx, id, data); err != nil {
			c.events.logger.Debug("a block of a file that has moved could not be brought to it: readers fetch it from where it is", "partition", p.id, "block", id, "error", err)
		}
	})
}
