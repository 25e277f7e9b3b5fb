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
		if got < len(window) {
			break
		}
	}
	return n, nil
}

func (c *Client) readWindow(ctx context.Context, ino posix.Ino, into []byte, offset uint64) (int, error) {
	p, err := c.home(ino)
	if err != nil {
		return 0, err
	}
	for try := 1; ; try++ {
		r, err := c.ask(ctx, &meta.Command{Op: meta.OpExtents, Ino: ino, Offset: offset, Length: uint64(len(into))})
		if err != nil || offset >= r.Attr.Size {
			return 0, err
		}
		n := int(min(uint64(len(into)), r.Attr.Size-offset))
		err = p.fill(ctx, into[:n], offset, r.Extents)
		switch {
		case err == nil:
			return n, nil
		case !errors.Is(err, block.ErrNotFound) || try == maxRereads:
			if ctx.Err() == nil {
				c.events.warn("read block", "a block cannot be read: check the storage servers of the partition's regions", "partition", p.id, "inode", ino, "error", err)
			}
			return 0, err
		}
		// Overwritten since the extents were read, and deleted: look again.
	}
}

// fill puts the content of extents, which lie in the range at offset in order, in their places, and
// zeros between them. into may hold anything before.
func (p *partition) fill(ctx context.Context, into []byte, offset uint64, extents []meta.Extent) error {
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
		return p.get(ctx, &blocks[0], place(&blocks[0]))
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i := range blocks {
		g.Go(func() error { return p.get(ctx, &blocks[i], place(&blocks[i])) })
	}
	return g.Wait()
}

// get reads the bytes of e. A block that has no others goes straight into its place.
func (p *partition) get(ctx context.Context, e *meta.Extent, into []byte) error {
	data, err := p.blocks.Get(ctx, e.Block, into[:0:len(into)])
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
