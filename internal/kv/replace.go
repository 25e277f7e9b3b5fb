package kv

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/syndtr/goleveldb/leveldb/storage"

	"github.com/globalfs/globalfs/internal/durable"
)

// Fill calls set with all entries of a store, each key once and in any order. set copies key and value.
type Fill = func(set func(key, value []byte) error) error

// Names of directories beside that of a store.
const (
	filling = ".new"  // a store that is being filled; the next Open removes it
	filled  = ".next" // a complete store, which replaces the store at the next Open
)

// Parameters of a store that is being filled, in bytes.
const (
	fillBuffer = 16 << 20
	fillBatch  = 1 << 20
)

// Replace replaces the content of the store by the entries that fill sets. It holds a bounded part of them in
// memory. After an error nothing has changed. A store on disk has its former content until it is opened
// again, also after a loss of power; writes to the store before it is opened again are lost. A store in
// memory changes at once. A store that keeps a digest reads the digest from its key in the new entries.
func (s *Store) Replace(fill Fill) error {
	if s.err != nil {
		return s.err
	}
	if err := s.base.replace(fill); err != nil {
		return fmt.Errorf("replace store: %w", err)
	}
	if _, inMemory := s.base.(*memory); inMemory {
		s.pending.reset()
		s.written = 0
		if s.summed != nil {
			return s.KeepDigest(s.summed.at, s.summed.part)
		}
	}
	return nil
}

func (m *memory) replace(fill Fill) error {
	var fresh table
	err := fill(func(key, value []byte) error {
		fresh.set(entry{bytes.Clone(key), append([]byte{}, value...)})
		return nil
	})
	if err == nil {
		m.table = fresh
	}
	return err
}

func (l *level) replace(fill Fill) (err error) {
	dir := l.dir + filling
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	fresh, err := Open(dir, Options{WriteBuffer: fillBuffer})
	if err != nil {
		return err
	}
	err = fill(func(key, value []byte) error {
		fresh.Set(key, value)
		if fresh.Pending() < fillBatch {
			return nil
		}
		return fresh.Commit(false)
	})
	if err == nil {
		err = fresh.Commit(true)
	}
	if err = errors.Join(err, fresh.Close()); err != nil {
		return err
	}
	if err := os.RemoveAll(l.dir + filled); err != nil {
		return err
	}
	if err := os.Rename(dir, l.dir+filled); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(l.dir))
}

// takePlace replaces the store in dir by the complete content that Replace has left beside it. It fails if
// another process has the store open, because this process may be writing the content.
func takePlace(dir string) error {
	unfinished, err := durable.Exists(dir + filling)
	complete, err2 := durable.Exists(dir + filled)
	if err = errors.Join(err, err2); err != nil || !unfinished && !complete {
		return err
	}
	if there, err := durable.Exists(dir); err != nil {
		return err
	} else if there {
		files, err := storage.OpenFile(dir, false) // locks
		if err != nil {
			return openError(dir, err)
		}
		if err := files.Close(); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(dir + filling); err != nil || !complete {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.Rename(dir+filled, dir); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(dir))
}
