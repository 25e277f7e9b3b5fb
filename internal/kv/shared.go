package kv

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/syndtr/goleveldb/leveldb"
	ldberrors "github.com/syndtr/goleveldb/leveldb/errors"
	"github.com/syndtr/goleveldb/leveldb/storage"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// ErrDamaged marks errors of damaged files: written entries cannot be read as they were written. Errors of
// the disk itself are not marked.
var ErrDamaged = errors.New("store is damaged")

// Shared is a store on disk that many goroutines use at once: a read waits for no write and
// no sync. It keeps K1; errors do not stick, but after a failed Write the store should be
// opened again, since LevelDB may refuse each further one.
type Shared struct{ *database }

// OpenShared opens the store in dir, which it makes if it is missing. One process at a time
// may have it open.
func OpenShared(dir string, o Options) (*Shared, error) {
	db, err := openDatabase(dir, o)
	if err != nil {
		return nil, err
	}
	return &Shared{db}, nil
}

// Get returns a copy of the value of key; nil if it is absent.
func (s *Shared) Get(key []byte) ([]byte, error) {
	value, err := s.db.Get(key, nil)
	switch {
	case errors.Is(err, leveldb.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read store: %w", mark(err))
	case value == nil:
		value = []byte{}
	}
	return value, nil
}

// Scan yields the entries of [from, to) in order, as they were at its beginning, until yield returns false; a
// nil to means no upper bound. Key and value are valid during the call only.
func (s *Shared) Scan(from, to []byte, yield func(key, value []byte) bool) error {
	return scanLevel(s.db, &util.Range{Start: from, Limit: to}, nil, yield)
}

// Write applies b as one batch, which survives the end of the process; with sync, it and all
// earlier ones survive a loss of power.
func (s *Shared) Write(b *Batch, sync bool) error { return s.database.write(&b.batch, sync) }

// Close closes the store. Later calls return ErrClosed.
func (s *Shared) Close() error {
	if err := s.database.close(); err != nil {
		return fmt.Errorf("close store: %w", mark(err))
	}
	return nil
}

// Batch is a set of writes that are applied together or not at all. A later write of the same key replaces an
// earlier one.
type Batch struct{ batch leveldb.Batch }

// Set sets key to value, both of which it copies.
func (b *Batch) Set(key, value []byte) { b.batch.Put(key, value) }

// Delete removes key if it is there.
func (b *Batch) Delete(key []byte) { b.batch.Delete(key) }

// Size returns the approximate size of the batch in the journal, in bytes.
func (b *Batch) Size() int { return len(b.batch.Dump()) }

// mark turns LevelDB's errors into this package's. A file that is missing is damage too.
func mark(err error) error {
	var corrupted *ldberrors.ErrCorrupted
	var file *storage.ErrCorrupted
	switch {
	case errors.Is(err, leveldb.ErrClosed):
		return ErrClosed
	case errors.As(err, &corrupted), errors.As(err, &file), errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}
