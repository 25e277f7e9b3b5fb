package disk

import (
	"errors"
	"fmt"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/segfile"
)

// batch executes updates together, in three phases: plan decides about each update, write appends the records
// with one call, commit changes the index at once.
type batch struct {
	store      *Store
	edit       *edit
	budget     uint64 // bytes of disk that puts may still use
	moveBudget uint64 // bytes of disk that compaction may still use: it may use the reserve, since it frees space
	steps      []step
	records    []*pending
	sharing    []share
	retiring   []*update

	direct bool // the index changes by small blocks or deletes, which are in no segment
	moving bool // records are moved

	movedBlocks, movedBytes uint64
}

// plan is the state of a block after the updates that are planned so far, if the whole batch succeeds.
type plan struct {
	present bool
	crc     uint32
	touched bool     // an update of this batch has set it
	record  *pending // written by this batch; nil: none
}

// step is one change of the index. The new entry of the block is a record, or a small block (inline), or
// nothing.
type step struct {
	id     block.ID
	record *pending
	inline *entry
}

// share links an update to a record: the update fails if the record cannot be written.
type share struct {
	update *update
	record *pending
}

// plan plans the update u. u.err is an error that concerns only u.
func (b *batch) plan(u *update) error {
	for _, id := range u.remove {
		if err := b.planDelete(id); err != nil {
			return err
		}
	}
	for i := range u.moves {
		if err := b.planMove(u, &u.moves[i]); err != nil {
			return err
		}
	}
	switch {
	case u.seal != nil:
		u.err = b.store.sealSegment(*u.seal)
	case u.retire != nil:
		b.retiring = append(b.retiring, u)
	case u.data != nil:
		return b.planPut(u)
	}
	return nil
}

func (b *batch) planDelete(id block.ID) error {
	s, err := b.edit.load(id)
	if err != nil || !s.planned.present {
		return err
	}
	s.planned = plan{touched: true}
	b.steps = append(b.steps, step{id: id})
	b.direct = true
	return nil
}

func (b *batch) planPut(u *update) error {
	s, err := b.edit.load(u.id)
	if err != nil {
		return err
	}
	if done := b.repeats(u, s); done {
		return nil
	}
	size := uint64(len(u.data) + segfile.HeaderSize)
	if size > b.budget {
		u.err = fmt.Errorf("put block %v: %w on %s", u.id, block.ErrNoSpace, b.store.config.Dir)
		return nil
	}
	b.budget -= size
	if len(u.data) <= maxInline {
		b.steps = append(b.steps, step{id: u.id, inline: &entry{crc: u.crc, inline: u.data}})
		s.planned = plan{present: true, crc: u.crc, touched: true}
		b.direct = true
		return nil
	}
	b.append(u, s, &pending{Record: segfile.Record{ID: u.id, Length: uint32(len(u.data)), Sum: u.crc}, data: u.data})
	return nil
}

// append plans a record, for the data of a put or for a moved block.
func (b *batch) append(u *update, s *slot, r *pending) {
	b.records = append(b.records, r)
	b.sharing = append(b.sharing, share{update: u, record: r})
	b.steps = append(b.steps, step{id: r.ID, record: r})
	s.planned = plan{present: true, crc: r.Sum, touched: true, record: r}
}

// repeats reports whether the block of a put is present already, so that nothing is written. If the put has
// other bytes than an earlier one of this batch, u.err is ErrConflict. If the block is in the store, u.found
// is its entry: Put compares the bytes. A copy that Put has found bad is replaced.
func (b *batch) repeats(u *update, s *slot) bool {
	switch p := &s.planned; {
	case !p.present:
		return false
	case p.touched && p.crc != u.crc:
		u.err = fmt.Errorf("put block %v: %w", u.id, block.ErrConflict)
		return true
	case p.touched:
		if p.record != nil {
			b.sharing = append(b.sharing, share{update: u, record: p.record})
		}
		return true
	}
	if u.bad != nil && u.bad.same(&s.entry) {
		return false
	}
	u.found = &entry{}
	*u.found = s.entry
	return true
}

// planMove moves a record, unless its block was deleted or put again meanwhile.
func (b *batch) planMove(u *update, m *move) error {
	s, err := b.edit.load(m.ID)
	if err != nil {
		return err
	}
	if !s.present || s.planned.touched || s.entry.inline != nil || s.entry.at != m.from {
		return nil
	}
	size := uint64(len(m.data) + segfile.HeaderSize)
	if size > b.moveBudget {
		u.err = fmt.Errorf("compaction: %w on %s", block.ErrNoSpace, b.store.config.Dir)
		return nil
	}
	b.moveBudget -= size
	b.moving = true
	b.append(u, s, &pending{Record: m.Record, data: m.data, moved: true})
	return nil
}

// write appends the records, and makes them durable before the index names them (S1). Moved records are
// always made durable, since compaction removes the old ones (S7).
func (b *batch) write() error {
	s := b.store
	before := s.appender.end.Offset
	s.appender.write(b.records)
	if end := s.appender.end; end.Offset > before {
		s.written.Add(end.Offset - before)
		s.index.ledger.setSize(end.Segment, end.Offset)
	}
	for _, share := range b.sharing {
		if err := share.record.err; err != nil {
			share.update.err = fmt.Errorf("block %v: %w", share.record.ID, err)
		}
	}
	if len(b.records) > 0 && !s.config.NoSync || b.moving || len(b.retiring) > 0 {
		return s.appender.sync()
	}
	return nil
}

// commit changes the index, together with the new frontier (S1). The commit is synced if it has small blocks
// or deletes: they are only in the index. Places of records need no sync, since Open finds the records after
// the frontier. The removal of a segment is always synced (S7).
//
// After an error it is not known whether the index has the batch. So the records stay, and nothing more is
// appended to their segment.
func (b *batch) commit() error {
	s := b.store
	if len(b.steps) == 0 && len(b.retiring) == 0 {
		return nil
	}
	for i := range b.steps {
		b.apply(&b.steps[i])
	}
	for _, u := range b.retiring {
		u.err = b.retire(*u.retire)
	}
	sync := b.direct && !s.config.NoSync || len(b.edit.retired) > 0
	err := b.edit.commit(s.appender.end, sync)
	s.written.Add(uint64(b.edit.changes.batch.Size()))
	if err != nil {
		s.appender.broken = s.appender.file != nil
		var down *indexDown
		if !errors.As(err, &down) {
			s.indexFailed = err
		}
		return err
	}
	s.unsynced = s.unsynced && !sync || b.direct && !sync
	s.movedBlocks.Add(b.movedBlocks)
	s.movedBytes.Add(b.movedBytes)
	for _, u := range b.retiring {
		if u.err == nil {
			s.appender.forget(*u.retire)
			u.err = s.removeSegment(*u.retire)
		}
	}
	return nil
}

// apply applies one step. If its record could not be written, the block stays unchanged.
func (b *batch) apply(do *step) {
	s := b.edit.blocks[do.id]
	switch {
	case do.inline != nil:
		b.edit.set(do.id, s, do.inline)
	case do.record == nil:
		b.edit.drop(do.id, s)
	case do.record.err == nil:
		if do.record.moved {
			b.movedBlocks++
			b.movedBytes += segfile.HeaderSize + uint64(do.record.Length)
		}
		b.edit.set(do.id, s, &entry{crc: do.record.Sum, at: do.record.at, length: do.record.Length})
	}
}

// retire plans the removal of a segment.
func (b *batch) retire(segment uint32) error {
	if left := b.edit.left(segment); left > 0 || segment == b.store.appender.end.Segment {
		return fmt.Errorf("compaction: %s still has %d blocks: %w", segfile.Name(segment), left, errInUse)
	}
	b.edit.retire(segment)
	return nil
}

var errInUse = errors.New("segment is in use")
