package client

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// maxInline is how long a file may be so that what is written to it travels in the command and stays
// in the metadata, in bytes (DESIGN 5: small files are inline).
const maxInline = 4 << 10

// maxWrite bounds one command, in bytes.
const maxWrite = meta.MaxBlocks * meta.MaxBlock

// Write is one write to a file.
type Write struct {
	Ino    posix.Ino
	Offset uint64 // with Append: where the end of the file is believed to be
	Data   []byte
	// Append writes at the end of the file as it is when the write is ordered. What is longer than 64
	// MiB is appended in several steps.
	Append bool
	// KillSetID takes the set-id bits away, as a write by a user without CAP_FSETID does.
	KillSetID bool
}

// Written is the outcome of a Write.
type Written struct {
	Bytes  int    // less than were given only beside an error
	Offset uint64 // where the first of them is
	Attr   posix.Attr
}

// Write writes w.Data and returns when it is durable (C4).
func (c *Client) Write(ctx context.Context, cred posix.Cred, w Write) (Written, error) {
	if w.Offset > posix.MaxSize || uint64(len(w.Data)) > posix.MaxSize-w.Offset {
		return Written{}, posix.EFBIG // before blocks are stored for it
	}
	ctx, cancel := c.operation(ctx)
	defer cancel()
	var done Written
	for first := true; first || done.Bytes < len(w.Data); first = false {
		part := w
		part.Offset += uint64(done.Bytes)
		part.Data = w.Data[done.Bytes:min(len(w.Data), done.Bytes+maxWrite)]
		r, err := c.writePart(ctx, cred, &part)
		if err != nil {
			return done, c.outcome(err)
		}
		if first {
			done.Offset = r.Number
		}
		done.Bytes += len(part.Data)
		done.Attr = r.Attr
	}
	if w.KillSetID && done.Attr.Mode&(posix.SetUID|posix.SetGID) != 0 {
		attr, err := c.apply(ctx, w.Ino, &meta.Command{Op: meta.OpSetAttr, Cred: cred, Ino: w.Ino, Set: meta.KillSetID})
		if err != nil {
			return done, c.outcome(err)
		}
		done.Attr = attr.Attr
	}
	return done, nil
}

// writePart writes what fits one command.
func (c *Client) writePart(ctx context.Context, cred posix.Cred, w *Write) (meta.Result, error) {
	cmd := meta.Command{Op: meta.OpWrite, Cred: cred, Ino: w.Ino, Offset: w.Offset, Length: uint64(len(w.Data))}
	if w.Append {
		cmd.Flags |= meta.Append
	}
	if w.Offset <= maxInline && uint64(len(w.Data)) <= maxInline-w.Offset {
		cmd.Data = w.Data
		return c.apply(ctx, w.Ino, &cmd)
	}
	var stored *session // whose blocks hold the data
	var first uint64    // the counter of the first of them
	defer func() {
		if stored != nil {
			stored.decided(first)
		}
	}()
	return c.applyAt(ctx, w.Ino, func(p *partition) (*meta.Command, error) {
		s, err := c.session(ctx, p)
		if err != nil || s == stored {
			return &cmd, err
		}
		if stored != nil {
			stored.decided(first) // the file has moved, or the session is over
		}
		count := (len(w.Data) + meta.MaxBlock - 1) / meta.MaxBlock
		stored, first = s, s.numberBlocks(count)
		cmd.Blocks, err = c.putBlocks(ctx, p, posix.MakeBlockID(p.id, s.id, first), w.Data)
		return &cmd, err
	})
}

// putBlocks stores data as blocks of p, with ids from first on, which were never used before: what a failed write leaves is
// garbage, never a wrong block.
func (c *Client) putBlocks(ctx context.Context, p *partition, first posix.BlockID, data []byte) ([]meta.Block, error) {
	blocks := make([]meta.Block, (len(data)+meta.MaxBlock-1)/meta.MaxBlock)
	g, stored := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i := range blocks {
		piece := data[i*meta.MaxBlock : min(len(data), (i+1)*meta.MaxBlock)]
		blocks[i] = meta.Block{ID: posix.MakeBlockID(p.id, first.Session(), first.Counter()+uint64(i)), Length: uint32(len(piece))}
		g.Go(func() error {
			b := block.New(blocks[i].ID, piece)
			return c.persist(stored, func() error { return p.blocks.Put(stored, b) })
		})
	}
	if err := g.Wait(); err != nil {
		if ctx.Err() == nil {
			c.events.warn("write block", "blocks cannot be stored: check the storage servers of the partition's regions and their free space", "partition", p.id, "error", err)
		}
		return nil, err
	}
	return blocks, nil
}

// Fallocate grows a file or makes a range zeros; flags are meta.FallocatePunch and the like.
func (c *Client) Fallocate(ctx context.Context, cred posix.Cred, ino posix.Ino, offset, length uint64, flags uint32) error {
	_, err := c.update(ctx, ino, &meta.Command{Op: meta.OpFallocate, Cred: cred, Ino: ino, Offset: offset, Length: length, Flags: flags})
	return err
}
