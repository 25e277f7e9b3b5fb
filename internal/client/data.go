package client

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// parallel is how many blocks of one read or write travel at a time.
const parallel = 8

// inlineEnd is how far into a file small writes are kept with the metadata.
const inlineEnd = meta.MaxLiteral

// Read fills into from offset on, and gives how many bytes there were before the end of the
// file (T 3.4.2).
func (c *Client) Read(ctx context.Context, i posix.Ino, into []byte, offset uint64) (int, error) {
	r, err := c.query(ctx, meta.Command{Op: meta.OpExtents, Ino: i, Offset: offset, Length: uint64(len(into))})
	if err != nil {
		return 0, err
	}
	if offset >= r.Attr.Size {
		return 0, nil
	}
	into = into[:min(uint64(len(into)), r.Attr.Size-offset)]
	ctx, cancel := c.bound(ctx)
	defer cancel()
	return len(into), c.code(c.fill(ctx, i.Partition(), into, offset, r.Extents))
}

// fill copies extents into their places, and zeros between them.
func (c *Client) fill(ctx context.Context, partition uint16, into []byte, offset uint64, extents []meta.Extent) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	store, end := c.cfg.Blocks[partition], uint64(0)
	for _, e := range extents {
		start := e.Offset - offset
		if e.Offset < offset || start < end || start+e.Length > uint64(len(into)) {
			return fmt.Errorf("extent [%d, +%d) does not lie in [%d, +%d) after the one before", e.Offset, e.Length, offset, len(into))
		}
		clear(into[end:start])
		end = start + e.Length
		part := into[start:end]
		if e.Data != nil {
			copy(part, e.Data)
			continue
		}
		group.Go(func() error {
			data, err := store.Get(ctx, e.Block, nil)
			if err == nil && uint64(len(data)) < uint64(e.Skip)+e.Length {
				err = fmt.Errorf("block %v has %d bytes, the file needs %d", e.Block, len(data), uint64(e.Skip)+e.Length)
			}
			if err != nil {
				return err
			}
			copy(part, data[e.Skip:])
			return nil
		})
	}
	clear(into[end:])
	return group.Wait()
}

// Write puts data at offset, or at the end of the file as it is when the write is ordered (meta.Append
// in flags). It gives the attributes after it. The blocks are stored in all regions of
// the partition before the update is ordered: whoever sees the update can read them.
func (c *Client) Write(ctx context.Context, cred posix.Cred, i posix.Ino, data []byte, offset uint64, flags uint32) (posix.Attr, error) {
	if len(data) == 0 {
		return c.GetAttr(ctx, i)
	}
	if offset+uint64(len(data)) > posix.MaxSize || offset > posix.MaxSize {
		return posix.Attr{}, posix.EFBIG
	}
	cmd := meta.Command{Op: meta.OpWrite, Cred: cred, Ino: i, Offset: offset, Length: uint64(len(data)), Flags: flags}
	if offset+uint64(len(data)) <= inlineEnd {
		cmd.Data = data
	} else {
		bounded, cancel := c.bound(ctx)
		blocks, err := c.store(bounded, i.Partition(), data)
		cancel()
		if err != nil {
			return posix.Attr{}, c.code(err)
		}
		cmd.Blocks = blocks
	}
	r, err := c.update(ctx, cmd)
	return r.Attr, err
}

// store cuts data into blocks and puts them.
func (c *Client) store(ctx context.Context, partition uint16, data []byte) ([]meta.Block, error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	var blocks []meta.Block
	for len(data) > 0 {
		part := data[:min(len(data), block.MaxSize)]
		data = data[len(part):]
		id := posix.MakeBlockID(partition, c.session, c.block.Add(1))
		blocks = append(blocks, meta.Block{ID: id, Length: uint32(len(part))})
		group.Go(func() error { return c.cfg.Blocks[partition].Put(ctx, id, part) })
	}
	return blocks, group.Wait()
}

// Fallocate reserves, cuts a hole or makes zeros in [offset, offset+length), as flags say.
func (c *Client) Fallocate(ctx context.Context, cred posix.Cred, i posix.Ino, offset, length uint64, flags uint32) (posix.Attr, error) {
	r, err := c.update(ctx, meta.Command{Op: meta.OpFallocate, Cred: cred, Ino: i, Offset: offset, Length: length, Flags: flags})
	return r.Attr, err
}
