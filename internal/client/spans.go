package client

import (
	"context"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/client/route"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Bounds of the memory of extents.
const (
	maxSpans       = 1 << 10  // files
	maxSpanExtents = 64       // of one file: a file with more extents is not remembered
	maxSpanLiteral = 16 << 10 // bytes of literal content in the extents of one file
	askAhead       = 16 << 20 // bytes after a sequential read that its query includes
)

// span has the extents of a range of a file, from one answer.
type span struct {
	partition uint16
	// seen is the vector entry of the answer. Once this client has seen more of the partition, it must not
	// use the span: the read could be older than an earlier read (C3).
	seen      ask.Seen
	queriedAt time.Time
	from, to  uint64 // all extents in [from, to) are known
	size      uint64 // of the file
	extents   []meta.Extent
}

// at returns the extents in the known part of [offset, offset+length), and the end of that part.
func (s *span) at(offset, length uint64) (extents []meta.Extent, end uint64) {
	end = min(s.to, offset+min(length, posix.MaxSize))
	for i := range s.extents {
		if e := &s.extents[i]; e.Offset < end && offset < e.Offset+e.Length {
			extents = append(extents, e.Clip(offset, end))
		}
	}
	return extents, end
}

// knows reports whether s has all extents of a range that begins in the file.
func (s *span) knows(offset, length uint64) bool {
	return s.from <= offset && offset < s.to && (length <= s.to-offset || s.to == s.size)
}

// isSmall reports whether s is small enough to be remembered.
func (s *span) isSmall() bool {
	literal := 0
	for i := range s.extents {
		literal += len(s.extents[i].Data)
	}
	return len(s.extents) <= maxSpanExtents && literal <= maxSpanLiteral
}

// isCurrent reports whether s is younger than believe, and covers all that this client has seen of the
// partition.
func (r *Reader) isCurrent(s *span, believe time.Duration) bool {
	return time.Since(s.queriedAt) < believe && s.seen.Covers(r.router.Seen(s.partition))
}

// askQuorum, as the maximum age, demands the answer of a quorum. It is used after the blocks of earlier
// answers were repeatedly missing: the replica may lag for longer than dropped blocks are kept.
const askQuorum = -1

// spanAt returns the extents of a range of a file: the remembered ones if they are younger than believe,
// otherwise those of a query to the partition. For a sequential read the query asks for more, so that the
// next reads need no query.
func (r *Reader) spanAt(ctx context.Context, ino posix.Ino, offset, length uint64, believe time.Duration) (*span, error) {
	fresh := believe == askQuorum
	if r.cfg.Linearizable || r.router.delegations.covers(ino) {
		believe = 0
	}
	known, ok := r.spans.Get(ino)
	if ok && known.knows(offset, length) && r.isCurrent(known, believe) {
		return known, nil
	}
	extents := meta.Command{Op: meta.OpExtents, Ino: ino, Offset: offset, Length: length, Flags: meta.ReturnRights}
	if ok && believe > 0 && known.from < offset && offset <= known.to+askAhead {
		extents.Length += askAhead
	}
	to := route.Inode(ino)
	if fresh {
		to = to.Fresh()
	}
	s := &span{queriedAt: time.Now(), from: offset}
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
