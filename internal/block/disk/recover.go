package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/segfile"
)

// recover makes segments and the index x consistent after a crash: see S1 to S3 and S6 in the package
// comment.
func (s *Store) recover(x *index) error {
	frontier, version, err := x.frontier()
	if err != nil {
		return err
	}
	sizes, last, err := s.segments()
	if err != nil {
		return err
	}
	counted, err := x.load(sizes)
	if err != nil {
		return err
	}
	beyond := frontier.Offset > sizes[frontier.Segment]
	if !counted || beyond || version == 1 {
		if err := x.recount(frontier, sizes); err != nil {
			return err
		}
	}
	if beyond {
		frontier = segfile.Place{Segment: frontier.Segment + 1}
	}
	end := frontier
	for n := uint64(frontier.Segment); n <= uint64(last); n++ {
		if _, ok := sizes[uint32(n)]; !ok {
			continue
		}
		if n > uint64(frontier.Segment) {
			end = segfile.Place{Segment: uint32(n)}
		}
		if end, err = s.replay(x, end, uint32(n) == last); err != nil {
			return err
		}
	}
	return s.resume(end)
}

// segments returns the size of each segment, in bytes, and the number of the last one.
func (s *Store) segments() (sizes map[uint32]uint64, last uint32, err error) {
	names, err := os.ReadDir(s.config.Dir)
	if err != nil {
		return nil, 0, err
	}
	sizes = make(map[uint32]uint64)
	for _, name := range names {
		n, ok := segfile.Number(name.Name())
		if !ok {
			continue
		}
		info, err := name.Info()
		if err != nil {
			return nil, 0, err
		}
		sizes[n] = uint64(info.Size())
		last = max(last, n)
	}
	return sizes, last, nil
}

// load fills the ledger from the index. It returns false if the ledger is impossible: a segment has more live
// bytes than its file.
func (x *index) load(sizes map[uint32]uint64) (bool, error) {
	l := &x.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	for segment, size := range sizes {
		l.segments[segment] = segmentUsage{size: size}
	}
	fits := true
	inline, err := x.usages(func(segment uint32, u usage) {
		fits = fits && u.bytes <= sizes[segment]
		if size, ok := sizes[segment]; ok {
			l.segments[segment] = segmentUsage{usage: u, size: size}
		}
	})
	l.inline = inline
	return fits, err
}

// recount drops the entries that point beyond the end of their segments, and counts the others.
func (x *index) recount(frontier segfile.Place, sizes map[uint32]uint64) error {
	var c changes
	counted, inline := make(map[uint32]usage), usage{}
	err := x.entries(func(id block.ID, e *entry) bool {
		size := segfile.HeaderSize + uint64(e.length)
		switch {
		case e.inline != nil:
			inline = inline.plus(usage{bytes: uint64(len(e.inline)), blocks: 1})
		case e.at.Offset+size > sizes[e.at.Segment]:
			c.drop(id)
		default:
			counted[e.at.Segment] = counted[e.at.Segment].plus(usage{bytes: size, blocks: 1})
		}
		return true
	})
	if err != nil {
		return err
	}
	if _, err := x.usages(func(segment uint32, _ usage) { c.dropUsage(segment) }); err != nil {
		return err
	}
	l := &x.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	for segment, size := range sizes {
		l.segments[segment] = segmentUsage{usage: counted[segment], size: size}
		c.setUsage(segment, counted[segment])
	}
	l.inline = inline
	c.setInline(inline)
	c.setFrontier(frontier)
	return x.commit(&c, true)
}

// replayRecords is the number of records after which a replay writes its findings to the index.
const replayRecords = 4096

// replay indexes the good records of a segment from a place on, and returns the end of the last one. In the
// last segment, it cuts off the bytes after that end. If a block is indexed already, the later record counts:
// it was put because the earlier one is bad, or compaction has moved it. A record with a good header and bad
// bytes is skipped: its put was not acknowledged, or its bytes were damaged later.
func (s *Store) replay(x *index, from segfile.Place, last bool) (end segfile.Place, err error) {
	path := filepath.Join(s.config.Dir, segfile.Name(from.Segment))
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return end, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return end, err
	}
	// Pages of an earlier failed sync may be in memory only: read the disk.
	if err := unix.Fadvise(int(file.Fd()), int64(from.Offset), 0, unix.FADV_DONTNEED); err != nil {
		return end, fmt.Errorf("fadvise %s: %w", path, err)
	}
	in := scanner{file: file, size: uint64(info.Size()), at: from.Offset}
	end = from
	for more := true; more; {
		e := newEdit(x)
		if more, err = s.replayInto(e, &in, &end); err != nil {
			return end, err
		}
		if last && !more {
			if err := file.Truncate(int64(end.Offset)); err != nil {
				return end, err
			}
			x.ledger.setSize(end.Segment, end.Offset)
		}
		if err := file.Sync(); err != nil {
			return end, err
		}
		if err := e.commit(end, true); err != nil {
			return end, err
		}
	}
	return end, nil
}

// replayInto adds at most replayRecords records to e, and moves end to the end of the last one. It reports
// whether there may be more.
func (s *Store) replayInto(e *edit, in *scanner, end *segfile.Place) (more bool, err error) {
	if s.closing.Load() {
		return false, block.ErrClosed
	}
	for range replayRecords {
		r, at, ok, err := in.next()
		if err != nil || !ok {
			return false, err
		}
		_, good, err := in.content(&r, at)
		if err != nil {
			return false, err
		}
		if !good {
			continue
		}
		slot, err := e.load(r.ID)
		if err != nil {
			return false, err
		}
		e.set(r.ID, slot, &entry{crc: r.Sum, at: segfile.Place{Segment: end.Segment, Offset: at}, length: r.Length})
		end.Offset = in.at
	}
	return true, nil
}

// resume prepares further appends at end, in the last segment if it exists.
func (s *Store) resume(end segfile.Place) error {
	s.appender = appender{dir: s.config.Dir, roll: s.config.SegmentBytes, noSync: s.config.NoSync, end: end}
	file, err := os.OpenFile(filepath.Join(s.config.Dir, segfile.Name(end.Segment)), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("last segment: %w", err)
	}
	s.appender.file = file
	return nil
}
