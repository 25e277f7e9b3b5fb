package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/segfile"
)

const (
	// moveBytes is the number of bytes from which on compaction commits the collected records. A small number
	// bounds the wait of concurrent puts.
	moveBytes = 1 << 20
	// The last segment is compacted, too, when it has 1/sealShare of the size of a full segment.
	sealShare = 4
	// lowShare is the dead share that suffices when the disk is nearly full.
	lowShare = 1.0 / 16
	// compactRetry is the pause of Run after an error, if nothing becomes due meanwhile.
	compactRetry = time.Minute
)

// move is a live record that compaction moves.
type move struct {
	segfile.Record
	from segfile.Place
	data []byte
}

// badRecords describes a segment in which compaction left bad records: all other live blocks were moved.
type badRecords struct{ live uint64 } // number of live blocks that are left

// Run compacts due segments, now and whenever a segment becomes due, until ctx ends or the store is closed.
// The caller waits for Run before it closes the store.
func (s *Store) Run(ctx context.Context) {
	for {
		retry := make(<-chan time.Time)
		err := s.Compact(ctx)
		switch {
		case ctx.Err() != nil || errors.Is(err, block.ErrClosed):
			return
		case err != nil:
			s.config.Log.Warn("compaction of block segments failed: it is tried again later", "dir", s.config.Dir, "error", err)
			retry = time.After(compactRetry)
		}
		select {
		case <-ctx.Done():
			return
		case <-s.due:
		case <-retry:
		}
	}
}

// Compact frees the space of dead blocks. It moves the live records of due segments, which are those with a
// large dead share, to the end of the log and removes their files (S7). Concurrent calls wait for each other.
func (s *Store) Compact(ctx context.Context) error {
	select {
	case s.compacting <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.compacting }()
	for {
		segments, err := s.dueSegments()
		if err != nil || len(segments) == 0 {
			return err
		}
		if err := s.compactSegment(ctx, segments[0]); err != nil {
			return fmt.Errorf("compact %s: %w", filepath.Join(s.config.Dir, segfile.Name(segments[0])), err)
		}
	}
}

// dueSegments returns the segments to compact, that with the largest dead share first. The caller holds the
// token of compacting.
func (s *Store) dueSegments() (segments []uint32, err error) {
	total, free, err := s.Usage()
	if err != nil {
		return nil, err
	}
	low := s.isLow(total, free)
	s.committing.Lock()
	active := s.appender.end.Segment
	s.committing.Unlock()
	err = s.withIndex(func(x *index) error {
		segments = x.ledger.mostDead(func(segment uint32, h segmentUsage) bool {
			if stuck, ok := s.stuck[segment]; ok && h.blocks >= stuck.live {
				return false
			}
			if segment == active && (h.size == 0 || h.size < s.config.SegmentBytes/sealShare && !low) {
				return false
			}
			return segment <= active && s.isDue(h, low)
		})
		return nil
	})
	return segments, err
}

// isDue reports whether the dead share of a segment is large enough to compact it. low means that the disk is
// nearly full.
func (s *Store) isDue(h segmentUsage, low bool) bool {
	switch {
	case h.blocks == 0:
		return true
	case low:
		return h.deadShare() >= min(lowShare, s.config.CompactShare)
	}
	return h.deadShare() >= s.config.CompactShare
}

// wakeCompaction wakes Run if the last commit made a segment due. The caller holds committing.
func (s *Store) wakeCompaction(e *edit) {
	low := s.low.Load()
	for segment, d := range e.deltas {
		if int64(d.blocks) > 0 {
			continue
		}
		if h, ok := e.index.ledger.of(segment); ok && s.isDue(h, low) {
			s.wake()
		}
	}
}

// wake makes Run look for due segments.
func (s *Store) wake() {
	select {
	case s.due <- struct{}{}:
	default:
	}
}

// compactSegment moves the live records of a segment and removes it. If a live record is bad, the segment
// stays until the block was put again or deleted (S8). The caller holds the token of compacting.
func (s *Store) compactSegment(ctx context.Context, segment uint32) error {
	if err := s.submit(ctx, &update{seal: &segment}); err != nil {
		return err
	}
	live, err := s.live(segment)
	if err != nil {
		return err
	}
	bad := uint64(0)
	if live > 0 {
		if bad, err = s.evacuate(ctx, segment); err != nil {
			return err
		}
	}
	if bad > 0 {
		s.badRecords.Add(bad)
		s.stuck[segment] = badRecords{live: bad}
		s.config.Log.Error("compaction found bad blocks: their segment stays until repair has put them again", "dir", s.config.Dir,
			"segment", segfile.Name(segment), "blocks", bad)
		return nil
	}
	if err := s.submit(ctx, &update{retire: &segment}); err != nil {
		return err
	}
	delete(s.stuck, segment)
	s.compactions.Add(1)
	return nil
}

// live returns the number of live blocks of a segment.
func (s *Store) live(segment uint32) (blocks uint64, err error) {
	err = s.withIndex(func(x *index) error {
		h, _ := x.ledger.of(segment)
		blocks = h.blocks
		return nil
	})
	return blocks, err
}

// evacuate moves the live records of a segment, and counts the bad ones.
func (s *Store) evacuate(ctx context.Context, segment uint32) (bad uint64, err error) {
	file, err := os.Open(filepath.Join(s.config.Dir, segfile.Name(segment)))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	size, err := segfile.Size(s.config.Dir, segment)
	if err != nil {
		return 0, err
	}
	in := scanner{file: file, size: size}
	m := mover{store: s, in: &in}
	for {
		r, at, ok, err := in.next()
		if err != nil {
			return 0, err
		}
		if !ok {
			break
		}
		if err := m.offer(ctx, r, segfile.Place{Segment: segment, Offset: at}); err != nil {
			return 0, err
		}
	}
	if err := m.flush(ctx); err != nil {
		return 0, err
	}
	left, err := s.live(segment)
	if err != nil || left == 0 {
		return 0, err
	}
	return m.rest(ctx, segment)
}

// mover collects live records and moves them in small batches.
type mover struct {
	store *Store
	in    *scanner
	moves []move
	bytes int // in moves
}

// offer collects the record r, which was found at a place, if it is live and good.
func (m *mover) offer(ctx context.Context, r segfile.Record, at segfile.Place) error {
	e, err := m.store.lookup(r.ID)
	if errors.Is(err, block.ErrNotFound) || err == nil && (e.inline != nil || e.at != at) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = m.take(ctx, segfile.Record{ID: r.ID, Length: e.length, Sum: e.crc}, at)
	return err
}

// take collects a live record. It returns false if the bytes of the record are bad.
func (m *mover) take(ctx context.Context, r segfile.Record, at segfile.Place) (bool, error) {
	data, good, err := m.in.content(&r, at.Offset)
	if err != nil || !good {
		return false, err
	}
	m.moves = append(m.moves, move{Record: r, from: at, data: append([]byte(nil), data...)})
	m.bytes += segfile.HeaderSize + len(data)
	if m.bytes < moveBytes {
		return true, nil
	}
	return true, m.flush(ctx)
}

// flush moves the collected records, within the rate limit unless space is short.
func (m *mover) flush(ctx context.Context) error {
	if len(m.moves) == 0 {
		return nil
	}
	s := m.store
	if !s.low.Load() {
		if err := s.limiter.WaitN(ctx, min(m.bytes, s.limiter.Burst())); err != nil {
			return err
		}
	}
	if err := s.submit(ctx, &update{moves: m.moves}); err != nil {
		return err
	}
	m.moves, m.bytes = m.moves[:0], 0
	return nil
}

// rest moves the live records of a segment that the scan of its headers did not find, because a header is
// damaged. It counts the bad ones.
func (m *mover) rest(ctx context.Context, segment uint32) (bad uint64, err error) {
	var left []move
	err = m.store.withIndex(func(x *index) error {
		left = left[:0]
		return x.entries(func(id block.ID, e *entry) bool {
			if e.inline == nil && e.at.Segment == segment {
				left = append(left, move{Record: segfile.Record{ID: id, Length: e.length, Sum: e.crc}, from: e.at})
			}
			return true
		})
	})
	if err != nil {
		return 0, err
	}
	for _, l := range left {
		good, err := m.take(ctx, l.Record, l.from)
		if err != nil {
			return 0, err
		}
		if !good {
			bad++
		}
	}
	return bad, m.flush(ctx)
}

// removeSegment deletes the file of a segment that the index does not name any more. Readers with an open
// file finish. The caller holds committing.
func (s *Store) removeSegment(segment uint32) error {
	err := os.Remove(filepath.Join(s.config.Dir, segfile.Name(segment)))
	s.files.Forget(segment) // not before: a get with the looked-up place would open it again, and keep its space
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	s.index.ledger.forget(segment)
	return nil
}
