package block

import (
	"context"
	"errors"
	"fmt"
)

// update is one Put (data) or Delete (remove) on its way to the disk.
type update struct {
	id     ID
	data   []byte
	crc    uint32
	remove []ID

	done bool  // GUARDED_BY Segments.committing
	err  error // GUARDED_BY Segments.committing
}

// submit makes u durable together with all that other goroutines submit meanwhile:
// whoever gets the lock first writes for all who wait, with one sync.
func (s *Segments) submit(ctx context.Context, u *update) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.waiting.Lock()
	s.queue = append(s.queue, u)
	s.waiting.Unlock()

	s.committing.Lock()
	defer s.committing.Unlock()
	if !u.done {
		s.waiting.Lock()
		updates := s.queue
		s.queue = nil
		s.waiting.Unlock()
		s.commit(updates)
	}
	return u.err
}

// commit does updates, in order. The caller holds committing.
func (s *Segments) commit(updates []*update) {
	b := batch{store: s, known: make(map[ID]known)}
	err := b.open()
	for _, u := range updates {
		u.done = true
		if u.err = err; err == nil {
			u.err = b.add(u)
		}
	}
	if err != nil {
		return
	}
	if err := b.close(); err != nil {
		for _, u := range updates {
			if u.err == nil {
				u.err = err
			}
		}
	}
}

// batch is a number of updates that become durable together.
type batch struct {
	store    *Segments
	budget   uint64       // bytes of disk that may still be used
	known    map[ID]known // what the batch did so far
	changes  changes      // of the index
	appended bool         // records were appended
	direct   bool         // changes has more than the places of appended records
}

// known is the state of a block in the middle of a batch.
type known struct {
	present bool
	crc     uint32
}

func (b *batch) open() error {
	if b.store.closed {
		return ErrClosed
	}
	_, free, err := b.store.Usage()
	if err != nil {
		return err
	}
	b.budget = free
	return b.store.appender.begin()
}

// add does one update, except for the index. An error is that update's own.
func (b *batch) add(u *update) error {
	for _, id := range u.remove {
		b.changes.drop(id)
		b.known[id] = known{}
		b.direct = true
	}
	if u.data == nil {
		return nil
	}
	present, err := b.has(u)
	if present || err != nil {
		return err
	}
	size := uint64(len(u.data) + recordHeader)
	if size > b.budget {
		return fmt.Errorf("put block %v: %w on %s", u.id, ErrNoSpace, b.store.config.Dir)
	}
	e := entry{crc: u.crc, length: uint32(len(u.data))}
	if len(u.data) <= maxInline {
		e.inline = u.data
		b.direct = true
	} else {
		e.at, err = b.store.appender.append(&record{id: u.id, length: e.length, crc: u.crc}, u.data)
		if err != nil {
			return fmt.Errorf("put block %v: %w", u.id, err)
		}
		b.appended = true
	}
	b.budget -= size
	b.changes.set(u.id, &e)
	b.known[u.id] = known{present: true, crc: u.crc}
	return nil
}

// has reports whether there is a good copy of u's block already; ErrConflict if it has
// other bytes. A bad copy counts as none: the put replaces it.
func (b *batch) has(u *update) (bool, error) {
	if k, ok := b.known[u.id]; ok {
		if k.present && k.crc != u.crc {
			return false, fmt.Errorf("put block %v: %w", u.id, ErrConflict)
		}
		return k.present, nil
	}
	data, err := b.store.Get(context.Background(), u.id, nil)
	switch {
	case errors.Is(err, ErrNotFound) || errors.Is(err, ErrCorrupt):
		return false, nil
	case err == nil && checksum(u.id, data) != u.crc:
		return false, fmt.Errorf("put block %v: %w", u.id, ErrConflict)
	}
	return err == nil, err
}

// close makes the batch durable: the records first, then the index with the new frontier
// (S1). Blocks in the index itself and deletes need its sync; the places of
// records do not, since Open finds those behind the frontier. After an error the index
// may or may not come back with the batch, so the records stay, in a segment that is
// left as it is.
func (b *batch) close() error {
	s := b.store
	if !b.appended && !b.direct {
		return nil
	}
	if b.appended && !s.config.NoSync {
		if err := s.appender.sync(); err != nil {
			return err
		}
	}
	b.changes.setFrontier(s.appender.end)
	if err := s.index.commit(&b.changes, b.direct && !s.config.NoSync); err != nil {
		s.appender.broken = true
		return err
	}
	return nil
}
