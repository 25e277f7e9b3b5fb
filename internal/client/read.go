package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/pause"
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
	return c.readOn(ctx, ino, into, 0, offset)
}

// View is Read for those who only look at what there is: it gives that in buffer or, without copying it there, in memory that
// is not to be changed, as others may look at it too. Where the content is may have been asked up to believe ago, as long as this
// client has seen nothing newer of the partition; with 0 it is asked now.
func (c *Client) View(ctx context.Context, ino posix.Ino, buffer []byte, offset uint64, believe time.Duration) ([]byte, error) {
	ctx, cancel := c.operation(ctx)
	defer cancel()
	if len(buffer) == 0 {
		return nil, nil
	}
	w, err := c.viewWindow(ctx, ino, buffer[:min(len(buffer), maxWindow)], offset, believe)
	switch {
	case err != nil:
		return nil, c.outcome(err)
	case w.last || len(w.content) == len(buffer):
		return w.content, nil
	}
	n, err := c.readOn(ctx, ino, buffer, copy(buffer, w.content), offset)
	return buffer[:n], err
}

// readOn goes on to read into, of which there are n bytes.
func (c *Client) readOn(ctx context.Context, ino posix.Ino, into []byte, n int, offset uint64) (int, error) {
	for n < len(into) {
		w, err := c.readWindow(ctx, ino, into[n:min(len(into), n+maxWindow)], offset+uint64(n))
		if err != nil {
			return n, c.outcome(err)
		}
		if n += len(w.content); w.last {
			break
		}
	}
	return n, nil
}

// window is the content of a range, or of the beginning of it.
type window struct {
	content []byte
	last    bool // the file ends with it
}

// readWindow reads as much of a range, at least a byte of it if the file goes on there, as its extents can be told of at once.
func (c *Client) readWindow(ctx context.Context, ino posix.Ino, into []byte, offset uint64) (window, error) {
	return c.inWindow(ctx, ino, into, offset, 0, c.fill)
}

// viewWindow is readWindow of content that may be shared: what is in one block stays there.
func (c *Client) viewWindow(ctx context.Context, ino posix.Ino, buffer []byte, offset uint64, believe time.Duration) (window, error) {
	return c.inWindow(ctx, ino, buffer, offset, believe, func(ctx context.Context, p *partition, into []byte, offset uint64, extents []meta.Extent) ([]byte, error) {
		if len(extents) == 1 && extents[0].Data == nil && extents[0].Length == uint64(len(into)) {
			return c.get(ctx, p, &extents[0], nil)
		}
		return c.fill(ctx, p, into, offset, extents)
	})
}

// contents gives what is at offset, where extents are in order, in into or elsewhere.
type contents func(ctx context.Context, p *partition, into []byte, offset uint64, extents []meta.Extent) ([]byte, error)

func (c *Client) inWindow(ctx context.Context, ino posix.Ino, into []byte, offset uint64, believe time.Duration, read contents) (window, error) {
	for try := 1; ; try++ {
		if try == maxRereads {
			believe = askQuorum
		}
		s, err := c.spanAt(ctx, ino, offset, uint64(len(into)), believe)
		if err != nil || offset >= s.size {
			return window{last: true}, err
		}
		extents, end := s.at(offset, uint64(len(into)))
		content, err := read(ctx, s.partition, into[:end-min(end, offset)], offset, extents)
		switch {
		case err == nil:
			return window{content: content, last: end >= s.size || len(content) == 0}, nil
		case !errors.Is(err, block.ErrNotFound) || try == maxRereads:
			if ctx.Err() == nil {
				c.events.warn("read block", "a block cannot be read: check the storage servers of the partition's regions", "partition", s.partition.id, "inode", ino, "error", err)
			}
			return window{}, err
		}
		c.spans.drop(ino) // overwritten since the extents were read, and deleted: look again
	}
}

// fill puts the content of extents, which lie in the range at offset in order, in their places, and
// zeros between them. into may hold anything before.
func (c *Client) fill(ctx context.Context, p *partition, into []byte, offset uint64, extents []meta.Extent) ([]byte, error) {
	var blocks []meta.Extent
	at := offset
	for _, e := range extents {
		if e.Offset < at || e.Length > uint64(len(into)) || e.Offset+e.Length > offset+uint64(len(into)) {
			return nil, fmt.Errorf("extent at %d of %d bytes is not in its place", e.Offset, e.Length)
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
	place := func(e *meta.Extent) error {
		into := into[e.Offset-offset:][:e.Length]
		data, err := c.get(ctx, p, e, into)
		if err == nil && &data[0] != &into[0] {
			copy(into, data)
		}
		return err
	}
	if len(blocks) == 1 {
		return into, place(&blocks[0])
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i := range blocks {
		g.Go(func() error { return place(&blocks[i]) })
	}
	return into, g.Wait()
}

// get gives the bytes of e, in into if its block has no others and they fit there.
func (c *Client) get(ctx context.Context, p *partition, e *meta.Extent, into []byte) ([]byte, error) {
	data, err := c.fetch(ctx, p, e.Block, into)
	if err != nil {
		return nil, err
	}
	if uint64(len(data)) < uint64(e.Skip)+e.Length {
		return nil, fmt.Errorf("block %v has %d bytes, %d at %d are wanted: %w", e.Block, len(data), e.Length, e.Skip, posix.EIO)
	}
	return data[e.Skip:][:e.Length], nil
}

// fetch gives a block of a file that is in p. One that came from elsewhere is put into p's store for the next
// reader (T 3.8).
func (c *Client) fetch(ctx context.Context, p *partition, id posix.BlockID, into []byte) ([]byte, error) {
	var data []byte
	var from *partition
	err := c.persist(ctx, func() (err error) {
		data, from, err = c.readBlock(ctx, p, id, into)
		return err
	})
	if err == nil && from != p {
		c.bring(p, id, data)
	}
	return data, err
}

// persist does try and, if the client is hard, does it again as long as it fails for a reason that may go away.
func (c *Client) persist(ctx context.Context, try func() error) error {
	for wait := firstPause; ; wait = min(2*wait, maxPause) {
		err := try()
		if err == nil || !c.cfg.Hard || isFinal(err) {
			return err
		}
		c.events.warn("storage", "storage servers do not answer: trying on; check that they run and can be reached", "error", err)
		if err := pause.Between(ctx, wait/2, wait); err != nil {
			return err
		}
	}
}

// isFinal reports whether a block store would say the same again.
func isFinal(err error) bool {
	for _, final := range []error{block.ErrNotFound, block.ErrCorrupt, block.ErrNoSpace, block.ErrConflict, block.ErrClosed} {
		if errors.Is(err, final) {
			return true
		}
	}
	return false
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
	b := block.New(id, data) // a copy
	c.running.Go(func() {
		defer func() { <-c.bringing }()
		ctx, cancel := context.WithTimeout(c.life(), c.cfg.Timeout)
		defer cancel()
		if err := p.blocks.Put(ctx, b); err != nil {
			c.events.logger.Debug("a block of a file that has moved could not be brought to it: readers fetch it from where it is", "partition", p.id, "block", id, "error", err)
		}
	})
}
