package client

import (
	"context"

	"github.com/globalfs/globalfs/internal/client/route"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Windows in which SeekData and SeekHole look at extents, in bytes. If a window has no result, the next one
// is larger.
const (
	firstSeek = 64 << 20
	maxSeek   = 8 << 30
)

// SeekData returns the first offset at or after offset that is not in a hole. ENXIO if there is none.
func (r *Reader) SeekData(ctx context.Context, ino posix.Ino, offset uint64) (uint64, error) {
	return r.seek(ctx, ino, offset, func(_ uint64, extents []meta.Extent) (uint64, bool) {
		if len(extents) == 0 {
			return 0, false
		}
		return extents[0].Offset, true
	}, func(uint64) (uint64, error) { return 0, posix.ENXIO })
}

// SeekHole returns the first offset at or after offset that is in a hole; the end of the file is a hole.
// ENXIO if offset is not in the file.
func (r *Reader) SeekHole(ctx context.Context, ino posix.Ino, offset uint64) (uint64, error) {
	return r.seek(ctx, ino, offset, func(from uint64, extents []meta.Extent) (uint64, bool) {
		at := from
		for _, e := range extents {
			if e.Offset > at {
				break
			}
			at = e.Offset + e.Length
		}
		return at, true
	}, func(size uint64) (uint64, error) { return size, nil })
}

// seek passes windows from offset on to found until found returns a place within the window. If there is none
// up to the end of the file, atEnd returns the result.
func (r *Reader) seek(ctx context.Context, ino posix.Ino, offset uint64, found func(from uint64, extents []meta.Extent) (uint64, bool), atEnd func(size uint64) (uint64, error)) (uint64, error) {
	ctx, cancel := r.router.Operation(ctx)
	defer cancel()
	for from, window := offset, uint64(firstSeek); ; {
		a, err := r.router.Query(ctx, &meta.Command{Op: meta.OpExtents, Ino: ino, Offset: from, Length: window}, route.Inode(ino))
		switch {
		case err != nil:
			return 0, err
		case offset >= a.Attr.Size:
			return 0, posix.ENXIO
		}
		end := min(a.Attr.Size, from+window, max(a.Number, from+1))
		if at, ok := found(from, a.Extents); ok && at < end {
			return at, nil
		}
		if end == a.Attr.Size {
			return atEnd(end)
		}
		from, window = end, min(8*window, maxSeek)
	}
}

// Layout is a part of a file with the places of its bytes.
type Layout struct {
	Partition uint16 // of the file
	Attr      posix.Attr
	Extents   []meta.Extent // in order; gaps are holes
	End       uint64        // the extents before this offset are complete; at the end of the file this is its size
}

// Layout returns the extents from an offset on, as many as one answer of a replica has.
func (r *Reader) Layout(ctx context.Context, ino posix.Ino, offset uint64) (Layout, error) {
	ctx, cancel := r.router.Operation(ctx)
	defer cancel()
	a, err := r.router.Query(ctx, &meta.Command{Op: meta.OpExtents, Ino: ino, Offset: offset, Length: posix.MaxSize}, route.Inode(ino))
	if err != nil {
		return Layout{}, err
	}
	return Layout{Partition: a.Partition, Attr: a.Attr, Extents: a.Extents, End: min(a.Number, a.Attr.Size)}, nil
}
