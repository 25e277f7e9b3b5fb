package kv

import (
	"fmt"
	"iter"
	"slices"

	"github.com/syndtr/goleveldb/leveldb/opt"
)

// View is the content of a store at the time of its creation. Another goroutine may read it while the owner
// uses the store. Its blocks do not replace the owner's in the cache.
type View struct {
	scan  func(yield func(key, value []byte) bool) error
	close func()
	err   error
}

// View commits the pending writes, and returns the present content of the store. The caller must close the
// view before the store.
func (s *Store) View() (*View, error) {
	if err := s.Commit(false); err != nil {
		return nil, err
	}
	return s.base.view()
}

// Scan yields all keys in order, with their values; both are valid until the next step.
func (v *View) Scan(_, _ []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		if v.err == nil {
			v.err = v.scan(yield)
		}
	}
}

// Err returns the error that ended a Scan early.
func (v *View) Err() error { return v.err }

// Close releases the view.
func (v *View) Close() { v.close() }

func (m *memory) view() (*View, error) {
	frozen := &memory{}
	for _, run := range m.table.runs {
		frozen.table.runs = append(frozen.table.runs, slices.Clone(run))
	}
	return &View{
		scan:  func(yield func(key, value []byte) bool) error { return frozen.scan(nil, nil, yield) },
		close: func() {},
	}, nil
}

func (l *level) view() (*View, error) {
	snapshot, err := l.db.GetSnapshot()
	if err != nil {
		return nil, fmt.Errorf("view: %w", err)
	}
	return &View{
		scan: func(yield func(key, value []byte) bool) error {
			return scanLevel(snapshot, nil, &opt.ReadOptions{DontFillCache: true}, yield)
		},
		close: snapshot.Release,
	}, nil
}
