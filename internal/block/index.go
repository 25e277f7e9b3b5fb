package block

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/globalfs/globalfs/internal/kv"
)

// index is the LevelDB of one server: its small blocks and the places of the others.
// It may be used by many goroutines, one at a time: what they look for is in memory
// mostly. Package kv sees to it that after a crash it is as one commit left it, with
// all commits before it, which LevelDB alone does not (S1, S5).
type index struct {
	mu    sync.Mutex
	store *kv.Store // GUARDED_BY mu
}

// keyFrontier and keyBlock are the keys; an id follows keyBlock.
const (
	keyBlock    = 'b'
	keyFrontier = 'f'
)

// openIndex opens or makes the index in dir. Memory is kept small: a process may have
// a dozen stores, and the kernel caches the files anyway.
func openIndex(dir string) (*index, error) {
	store, err := kv.Open(dir, kv.Options{WriteBuffer: 2 << 20, BlockCache: 2 << 20, ValueCache: 1 << 20})
	if err != nil {
		return nil, fmt.Errorf("block index: %w", spaceError(err))
	}
	return &index{store: store}, nil
}

// close waits for what is under way. Later calls give ErrClosed.
func (x *index) close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return indexError(x.store.Close())
}

// value gives the value of a key, nil if there is none. It is never changed.
func (x *index) value(key []byte) ([]byte, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	value := x.store.Get(key)
	return value, indexError(x.store.Err())
}

// get gives the entry of a block; ErrNotFound if there is none, a
// CorruptError if it cannot be read.
func (x *index) get(id ID) (entry, error) {
	value, err := x.value(blockKey(id))
	if err != nil {
		return entry{}, err
	}
	if value == nil {
		return entry{}, ErrNotFound
	}
	e, err := decodeEntry(value)
	if err != nil {
		return entry{}, &CorruptError{ID: id, File: "index", Cause: err}
	}
	return e, nil
}

// frontier gives the frontier of the last commit; the zero place if there was none.
func (x *index) frontier() (place, error) {
	value, err := x.value([]byte{keyFrontier})
	if err != nil || value == nil {
		return place{}, err
	}
	p, err := decodeFrontier(value)
	if err != nil {
		return place{}, fmt.Errorf("frontier of the index: %w", err)
	}
	return p, nil
}

// scan gives up to limit ids from from to to, both included.
func (x *index) scan(from, to ID, limit int) ([]ID, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var ids []ID
	for key := range x.store.Scan(blockKey(from), append(blockKey(to), 0)) {
		id, ok := keyID(key)
		if !ok {
			return nil, fmt.Errorf("block index: key %x is no block's", key)
		}
		if ids = append(ids, id); len(ids) == limit {
			break
		}
	}
	return ids, indexError(x.store.Err())
}

// entries calls do with each entry that can be read.
func (x *index) entries(do func(ID, *entry)) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for key, value := range x.store.Scan([]byte{keyBlock}, []byte{keyBlock + 1}) {
		id, ok := keyID(key)
		if e, err := decodeEntry(value); ok && err == nil {
			do(id, &e)
		}
	}
	return indexError(x.store.Err())
}

// changes is a batch of changes to the index: applied together or not at all. A later
// change of the same key replaces an earlier one.
type changes struct{ all []change }

// change sets key to value, or removes it if value is nil.
type change struct{ key, value []byte }

func (c *changes) set(id ID, e *entry) { c.all = append(c.all, change{blockKey(id), e.append(nil)}) }

func (c *changes) drop(id ID) { c.all = append(c.all, change{key: blockKey(id)}) }

func (c *changes) setFrontier(p place) {
	c.all = append(c.all, change{[]byte{keyFrontier}, appendFrontier(nil, p)})
}

// commit applies c; durably, with all commits before it, if sync. The first error stays
// until the index is opened again.
func (x *index) commit(c *changes, sync bool) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, change := range c.all {
		if change.value == nil {
			x.store.Delete(change.key)
		} else {
			x.store.Set(change.key, change.value)
		}
	}
	return indexError(x.store.Commit(sync))
}

func blockKey(id ID) []byte {
	key := make([]byte, 0, 2+len(id))
	return append(append(key, keyBlock), id[:]...)
}

func keyID(key []byte) (ID, bool) {
	rest, ok := bytes.CutPrefix(key, []byte{keyBlock})
	if !ok || len(rest) != len(ID{}) {
		return ID{}, false
	}
	return ID(rest), true
}

// indexError turns the errors that callers decide on into this package's.
func indexError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kv.ErrClosed):
		return ErrClosed
	}
	return spaceError(fmt.Errorf("block index: %w", err))
}

// spaceError marks what the kernel says when a disk, a quota or the limit of a process is
// used up as ErrNoSpace.
func spaceError(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG) {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return err
}
