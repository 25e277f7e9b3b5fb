package kv

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
)

// base holds the committed entries.
type base interface {
	get(key []byte) ([]byte, error)
	// ascending returns a get for keys in ascending order, and a function that ends its use.
	ascending() (get func(key []byte) ([]byte, error), end func() error)
	// scan yields [from, to) in order until yield returns false; key and value are valid during the call
	// only.
	scan(from, to []byte, yield func(key, value []byte) bool) error
	// write makes the pending entries one batch.
	write(pending *table, sync bool) error
	// replace replaces the entries by those of fill, see Store.Replace.
	replace(fill Fill) error
	// view returns the committed entries as they are now.
	view() (*View, error)
	// verify reads all entries, and calls each with their sizes until it returns false.
	verify(each func(bytes int) bool) error
	close() error
}

// ErrClosed is the error of a Store after Close.
var ErrClosed = errors.New("store is closed")

// Store is a store of ordered keys that are written in batches. It is not safe for concurrent use.
type Store struct {
	pending table
	written int // bytes of the writes since the last Commit, about
	base    base
	summed  *summed // nil: the store keeps no digest
	err     error   // K2
}

// Get returns the value of key, nil if it is absent. The caller must not change it.
func (s *Store) Get(key []byte) []byte {
	if value, ok := s.pending.get(key); ok {
		return value
	}
	if s.err != nil {
		return nil
	}
	value, err := s.base.get(key)
	s.fail(err)
	return value
}

// Set sets key to value, both of which it copies.
func (s *Store) Set(key, value []byte) {
	both := make([]byte, len(key)+len(value))
	n := copy(both, key)
	copy(both[n:], value)
	s.pending.set(entry{both[:n:n], both[n:]})
	s.written += len(both) + entryOverhead
}

// Delete removes key if it is present.
func (s *Store) Delete(key []byte) {
	s.pending.set(entry{key: bytes.Clone(key)})
	s.written += len(key) + entryOverhead
}

// Pending returns the bytes of the writes since the last Commit, about. They are lost with the process.
func (s *Store) Pending() int { return s.written }

// Scan yields the keys of [from, to) in order, pending writes included; a nil to means no upper bound. Key
// and value are valid until the next step and must not be changed. The loop may write: it gets keys ahead as
// written, and no key behind again. It must not commit.
func (s *Store) Scan(from, to []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		if s.err != nil || to != nil && bytes.Compare(from, to) >= 0 {
			return
		}
		m := merge{pending: s.pending.seek(from), to: to, yield: yield}
		s.fail(s.base.scan(from, to, m.committed))
		if !m.stopped && s.err == nil {
			m.before(nil)
		}
	}
}

// merge lays pending entries over committed ones.
type merge struct {
	pending cursor // in the pending entries
	to      []byte
	yield   func(key, value []byte) bool
	stopped bool
}

// committed yields a committed entry after the pending ones before it.
func (m *merge) committed(key, value []byte) bool {
	if !m.before(key) {
		return false
	}
	if e, ok := m.pending.peek(); ok && bytes.Equal(e.key, key) {
		value = e.value
	}
	m.pending.pass(key)
	if value != nil && !m.yield(key, value) {
		m.stopped = true
	}
	return !m.stopped
}

// before yields the pending entries in front of limit, or all that are left if it is nil.
func (m *merge) before(limit []byte) bool {
	for {
		e, ok := m.pending.peek()
		if !ok || limit != nil && bytes.Compare(e.key, limit) >= 0 || m.to != nil && bytes.Compare(e.key, m.to) >= 0 {
			return true
		}
		m.pending.pass(e.key)
		if e.value != nil && !m.yield(e.key, e.value) {
			m.stopped = true
			return false
		}
	}
}

// Commit makes all writes since the last Commit one batch, which survives the end of the process.
// With sync, this and all earlier ones survive a loss of power.
func (s *Store) Commit(sync bool) error {
	if s.err != nil {
		return s.err
	}
	if len(s.pending.runs) > 0 {
		s.saveDigest()
	}
	if s.err == nil && (len(s.pending.runs) > 0 || sync) {
		s.fail(s.base.write(&s.pending, sync))
		s.pending.reset()
		s.written = 0
	}
	return s.err
}

// Err returns the first error, nil if there was none.
func (s *Store) Err() error { return s.err }

// Verify reads all committed entries, with their checksums, and gives the first error. It calls each, which
// may be nil, with the size of each entry, and ends when each returns false. Another goroutine than the owner
// may call it; the owner must not close the store meanwhile.
func (s *Store) Verify(each func(bytes int) bool) error {
	if each == nil {
		each = func(int) bool { return true }
	}
	return s.base.verify(each)
}

// Close closes the store. Uncommitted writes are lost.
func (s *Store) Close() error {
	if errors.Is(s.err, ErrClosed) {
		return nil
	}
	s.err = ErrClosed
	if err := s.base.close(); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

// fail keeps the first error.
func (s *Store) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}
