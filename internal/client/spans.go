package client

import (
	"context"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/client/route"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Bounds of what is remembered of where the content of files is.
const (
	maxSpans       = 1 << 10  // files
	maxSpanExtents = 64       // of one file: of one with short extents nothing is remembered
	maxSpanLiteral = 16 << 10 // bytes of content that stands in them, of one file
	askAhead       = 16 << 20 // bytes behind a read in sequence that are asked about too
)

// span is what one answer told of a range of a file: where its content is.
type span struct {
	partition uint16
	// seen is how new the answer is: once this client has seen more of the partition, the span must not be
	// used, since what was read with it could be older than what was read before (C3).
	seen     ask.Seen
	asked    time.Time
	from, to uint64 // all extents in [from, to) are known
	size     uint64 // of the file
	extents  []meta.Extent
}

// at gives the extents in the part of [offset, offset+length) that s knows.
func (s *span) at(offset, length uint64) (extents []meta.Extent, end uint64) {
	end = min(s.to, offset+min(length, posix.MaxSize))
	for i := range s.extents {
		if e := &s.extents[i]; e.Offset < end && offset < e.Offset+e.Length {
			extents = append(extents, e.Clip(offset, end))
		}
	}
	return extents, end
}

// knows reports whether s tells all that is in a range, which begins in the file.
func (s *span) knows(offset, length uint64) bool {
	return s.from <= offset && offset < s.to && (length <= s.to-offset || s.to == s.size)
}

// isSmall reports whether s is worth its memory.
func (s *span) isSmall() bool {
	literal := 0
	for i := range s.extents {
		literal += len(s.extents[i].Data)
	}
	return len(s.extents) <= maxSpanExtents && literal <= maxSpanLiteral
}

// isCurrent reports whether s is not older than believe, and as new as all that this client has seen.
func (r *Reader) isCurrent(s *span, believe time.Duration) bool {
	return time.Since(s.asked) < believe && s.seen.Covers(r.router.Seen(s.partition))
}

// askQuorum in the place of a time for which spans are believed has a quorum asked: when what was told before
// was not there any more again and again, the replica may lag for longer than what was dropped is kept.
const askQuorum = -1

// spanAt tells of a range of a file: what is remembered if that may be believed for so long, or else what the
// partition says. Of a file that is read in sequence it is asked about more, so that the next reads need not
// ask.
func (r *Reader) spanAt(ctx context.Context, ino posix.Ino, offset, length uint64, believe time.Duration) (*span, error) {
	fresh := believe == askQuorum
	if r.cfg.Linearizable {
		believe = 0
	}
	known, ok := r.spans.Get(ino)
	if ok && known.knows(offset, length) && r.isCurrent(known, believe) {
		return known, nil
	}
	extents := meta.Command{Op: meta.OpExtents, Ino: ino, Offset: offset, Length: length, Flags: meta.TellRights}
	if ok && believe > 0 && known.from < offset && offset <= known.to+askAhead {
		extents.Length += askAhead
	}
	to := route.Inode(ino)
	if fresh {
		to = to.Fresh()
	}
	s := &span{asked: time.Now(), from: offset}
	a, err := r.router.Query(ctx, &extents, to)
	if err != nil {
		return nil, err
	}
	s.partition, s.seen = a.Partition, a.AsOf
	s.to, s.size, s.extents = min(a.Number, a.Attr.Size), a.Attr.Size, a.Extents
	if believe > 0 && offset < s.to && s.isSmall() {
		r.spans.Put(ino, s)
	}
	return s, nil
}
