package disk

import (
	"context"
	"errors"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/segfile"
)

// update is the request of one call: a Put (data), a Delete (remove), or a step of compaction (moves, or a
// segment to seal or to retire).
type update struct {
	id     block.ID
	data   []byte
	crc    uint32
	bad    *entry // a copy that Put found bad, and replaces
	remove []block.ID
	moves  []move
	seal   *uint32
	retire *uint32

	done  bool   // GUARDED_BY Store.committing
	found *entry // GUARDED_BY Store.committing; an existing copy: nothing was done
	err   error  // GUARDED_BY Store.committing
}

// submit executes updates, and returns their first error (group commit). The goroutine that gets the lock
// executes the updates of all goroutines that wait for it, in one batch with one sync.
func (s *Store) submit(ctx context.Context, updates ...*update) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.peek(func(*index) error { return nil }); errors.Is(err, errRebuilding) {
		return err // rather than wait for the end of the rebuild
	}
	s.waiting.Lock()
	s.queue = append(s.queue, updates...)
	s.waiting.Unlock()

	s.committing.Lock()
	defer s.committing.Unlock()
	if !updates[0].done { // all of updates are in one batch
		s.waiting.Lock()
		all := s.queue
		s.queue = nil
		s.waiting.Unlock()
		s.commit(all)
	}
	for _, u := range updates {
		if u.err != nil {
			return u.err
		}
	}
	return nil
}

// commit executes updates, in order. If the index is damaged, commit rebuilds it and executes all updates
// again; a repeated update has no further effect. The caller holds committing.
func (s *Store) commit(updates []*update) {
	err := s.attempt(updates)
	var down *indexDown
	if errors.As(err, &down) {
		if err = s.restore(down.index, down); err == nil {
			err = s.attempt(updates)
		}
	}
	for _, u := range updates {
		if u.done = true; err != nil {
			u.err = err
		}
	}
}

// attempt executes updates with one batch. An error concerns all of them. The caller holds committing.
func (s *Store) attempt(updates []*update) error {
	if s.closed {
		return block.ErrClosed
	}
	if err := s.usable(); err != nil {
		return err
	}
	total, available, err := s.space()
	if err != nil {
		return err
	}
	if err := s.beginSegment(); err != nil {
		return err
	}
	free := s.free(available)
	if low := s.isLow(total, free); s.low.Swap(low) != low && low {
		s.wake()
	}
	b := batch{store: s, edit: newEdit(s.index), budget: free, moveBudget: available - min(available, moveMargin)}
	for _, u := range updates {
		u.found, u.err = nil, nil
		if err := b.plan(u); err != nil {
			return err
		}
	}
	if err := b.write(); err != nil {
		return err
	}
	if err := b.commit(); err != nil {
		return err
	}
	s.wakeCompaction(b.edit)
	return nil
}

// usable opens the index again after a failed write to it, if there is room for that. Until then the index
// can be read. The caller holds committing.
func (s *Store) usable() error {
	if s.index == nil {
		return s.unopened()
	}
	if s.indexFailed == nil {
		return nil
	}
	if _, available, err := s.space(); err != nil || available < reopenBytes {
		return errors.Join(err, s.indexFailed)
	}
	return s.restore(s.index, s.indexFailed)
}

// beginSegment leaves a segment that is full or broken. The caller holds committing.
func (s *Store) beginSegment() error {
	before := s.appender.end.Segment
	if err := s.appender.begin(); err != nil {
		return err
	}
	return s.noteSealed(before)
}

// sealSegment leaves a segment if records are appended to it. The caller holds committing.
func (s *Store) sealSegment(segment uint32) error {
	if s.appender.end.Segment != segment {
		return nil
	}
	if err := s.appender.leave(); err != nil {
		return err
	}
	return s.noteSealed(segment)
}

// noteSealed records the size of a segment that was just left. The size is more than that of its records if
// the segment is broken. The caller holds committing.
func (s *Store) noteSealed(segment uint32) error {
	if s.appender.end.Segment == segment {
		return nil
	}
	size, err := segfile.Size(s.config.Dir, segment)
	if err != nil {
		return err
	}
	s.index.ledger.setSize(segment, size)
	s.wake()
	return nil
}
