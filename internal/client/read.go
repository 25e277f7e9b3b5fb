package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/recent"
)

// maxWindow bounds the range of one query for extents, in bytes: the answer must fit a message even if the
// extents are short.
const maxWindow = 2 << 20

// maxRereads bounds the attempts of a read that others disturb by replacing its blocks.
const maxRereads = 3

// Reader are the operations that read the content of files.
type Reader struct {
	common
	blocks *Blocks
	spans  *recent.Map[posix.Ino, *span] // extents of files that are viewed
}

func newReader(c common, blocks *Blocks) *Reader {
	return &Reader{common: c, blocks: blocks, spans: recent.New[posix.Ino, *span](maxSpans)}
}

// Read reads into from offset on and returns the number of bytes: less than len(into) only at the end of the
// file. Holes are zeros.
func (r *Reader) Read(ctx context.Context, ino posix.Ino, into []byte, offset uint64) (int, error) {
	ctx, cancel := r.router.Operation(ctx)
	defer cancel()
	return r.readOn(ctx, ino, into, 0, offset)
}

// View is like Read, for callers that do not change the result. It returns the content in buffer or, without
// a copy, in shared memory that the caller must not change. View may use extents that were queried up to
// believe ago, as long as this client has seen nothing newer of the partition. With believe 0 it queries them
// now.
func (r *Reader) View(ctx context.Context, ino posix.Ino, buffer []byte, offset uint64, believe time.Duration) ([]byte, error) {
	ctx, cancel := r.router.Operation(ctx)
	defer cancel()
	if len(buffer) == 0 {
		return nil, nil
	}
	w, err := r.window(ctx, wanted{ino, buffer[:min(len(buffer), maxWindow)], offset, believe}, r.share)
	switch {
	case err != nil:
		return nil, r.outcome(err)
	case w.last || len(w.content) == len(buffer):
		return w.content, nil
	}
	n, err := r.readOn(ctx, ino, buffer, copy(buffer, w.content), offset)
	return buffer[:n], err
}

// readOn continues a read into into, which has n bytes already.
func (r *Reader) readOn(ctx context.Context, ino posix.Ino, into []byte, n int, offset uint64) (int, error) {
	for n < len(into) {
		w, err := r.window(ctx, wanted{ino: ino, into: into[n:min(len(into), n+maxWindow)], offset: offset + uint64(n)}, r.fill)
		if err != nil {
			return n, r.outcome(err)
		}
		if n += len(w.content); w.last {
			break
		}
	}
	return n, nil
}

// wanted is a range of a file.
type wanted struct {
	ino     posix.Ino
	into    []byte // memory for it
	offset  uint64
	believe time.Duration // the largest age of the extents
}

// window is the content of a range, or of its beginning.
type window struct {
	content []byte
	last    bool // the file ends with it
}

// piece is a range of a file in a partition, with its extents in order.
type piece struct {
	partition uint16
	into      []byte
	offset    uint64
	extents   []meta.Extent
}

// window reads as much of a range as one answer has extents for, at least one byte of it unless the file ends
// before it. read returns the content of a piece.
func (r *Reader) window(ctx context.Context, w wanted, read func(context.Context, *piece) ([]byte, error)) (window, error) {
	for try := 1; ; try++ {
		if try == maxRereads {
			w.believe = askQuorum
		}
		s, err := r.spanAt(ctx, w.ino, w.offset, uint64(len(w.into)), w.believe)
		if err != nil || w.offset >= s.size {
			return window{last: true}, err
		}
		extents, end := s.at(w.offset, uint64(len(w.into)))
		content, err := read(ctx, &piece{s.partition, w.into[:end-min(end, w.offset)], w.offset, extents})
		switch {
		case err == nil:
			return window{content: content, last: end >= s.size || len(content) == 0}, nil
		case !errors.Is(err, block.ErrNotFound) && !errors.Is(err, block.ErrForbidden) || try == maxRereads:
			if ctx.Err() == nil {
				r.notices.Rarely("read block", "a block cannot be read: check the storage servers of the partition's regions",
					"partition", s.partition, "inode", w.ino, "error", err)
			}
			return window{}, err
		}
		r.spans.Drop(w.ino) // overwritten since the extents were read, and deleted, or the keys of the servers have changed: look again
	}
}

// share returns the content of a piece in memory that may be shared. Content of a single block is not copied.
func (r *Reader) share(ctx context.Context, p *piece) ([]byte, error) {
	if len(p.extents) == 1 && p.extents[0].Data == nil && p.extents[0].Length == uint64(len(p.into)) {
		return r.get(ctx, p.partition, &p.extents[0], nil)
	}
	return r.fill(ctx, p)
}

// fill writes the content of the extents of a piece into p.into, and zeros between them. p.into may have any
// content before.
func (r *Reader) fill(ctx context.Context, p *piece) ([]byte, error) {
	var blocks []meta.Extent
	into, offset, at := p.into, p.offset, p.offset
	for _, e := range p.extents {
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
		data, err := r.get(ctx, p.partition, e, into)
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

// get returns the bytes of e, in into if its block has no other bytes and they fit there.
func (r *Reader) get(ctx context.Context, partition uint16, e *meta.Extent, into []byte) ([]byte, error) {
	data, err := r.blocks.fetch(block.WithRight(ctx, e.Right), partition, e.Block, into)
	if err != nil {
		return nil, err
	}
	if uint64(len(data)) < uint64(e.Skip)+e.Length {
		return nil, fmt.Errorf("block %v has %d bytes, %d at %d are wanted: %w", e.Block, len(data), e.Length, e.Skip, posix.EIO)
	}
	return data[e.Skip:][:e.Length], nil
}
