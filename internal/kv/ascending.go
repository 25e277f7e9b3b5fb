package kv

import (
	"bytes"
	"fmt"

	"github.com/syndtr/goleveldb/leveldb/iterator"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// ascending reads keys of a store in ascending order. Most keys that a replica writes for the first time come
// after one another, with numbers that grow, and no key of the store is in between: one search shows that all
// of them are absent. A search passes over keys that were deleted until LevelDB has removed them from its
// tables, so it stays among the keys with the same first byte: no key of its kind follows the newest number,
// and the next kind may begin with many deleted keys.
type ascending struct {
	level *level
	kind  byte              // the first byte of the last key searched for
	at    iterator.Iterator // at the first key of the kind that is not before the last one searched for; nil: none was
	valid bool              // there is such a key
}

func (l *level) ascending() (get func(key []byte) ([]byte, error), end func() error) {
	a := &ascending{level: l}
	return a.get, a.end
}

// get returns the value of a key, nil if it is absent. A key has at least one byte, its kind.
func (a *ascending) get(key []byte) ([]byte, error) {
	if value, ok := a.level.cache.get(key); ok {
		return value, nil
	}
	if a.at == nil || a.kind != key[0] {
		if err := a.end(); err != nil {
			return nil, err
		}
		a.kind = key[0]
		a.at = a.level.db.NewIterator(util.BytesPrefix(key[:1]), nil)
		a.valid = a.at.Seek(key)
	} else if a.valid && bytes.Compare(a.at.Key(), key) < 0 {
		a.valid = a.at.Seek(key)
	}
	if !a.valid || !bytes.Equal(a.at.Key(), key) {
		return nil, a.failed()
	}
	if value := bytes.Clone(a.at.Value()); value != nil {
		return value, a.failed()
	}
	return []byte{}, a.failed()
}

// failed returns the error of the last search: a key that could not be read is not absent.
func (a *ascending) failed() error {
	if err := a.at.Error(); err != nil {
		return fmt.Errorf("read store: %w", mark(err))
	}
	return nil
}

// end ends the use of a.
func (a *ascending) end() error {
	if a.at == nil {
		return nil
	}
	defer a.at.Release()
	return a.failed()
}
