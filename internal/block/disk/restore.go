package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/durable"
	"github.com/globalfs/globalfs/internal/kv"
)

// errRebuilding is the error of calls during the rebuild of the index.
var errRebuilding = errors.New("the block index is being rebuilt from the segments: ask another server, or wait")

// keptIndexes is the number of damaged indexes that are kept for analysis.
const keptIndexes = 2

// withIndex calls do with the index. If do finds the index damaged, withIndex rebuilds it and calls do again.
func (s *Store) withIndex(do func(*index) error) error {
	err := s.peek(do)
	var down *indexDown
	if !errors.As(err, &down) {
		return err
	}
	s.committing.Lock()
	if s.index == down.index { // no other call has rebuilt it meanwhile
		err = s.restore(down.index, down)
	} else {
		err = nil
	}
	s.committing.Unlock()
	if err != nil {
		return err
	}
	return s.peek(do)
}

// peek calls do with the index, and rebuilds nothing.
func (s *Store) peek(do func(*index) error) error {
	s.reading.RLock()
	defer s.reading.RUnlock()
	if s.index == nil {
		return s.indexError
	}
	return do(s.index)
}

// lookup returns the entry of a block; ErrNotFound if there is none.
func (s *Store) lookup(id block.ID) (e entry, err error) {
	err = s.withIndex(func(x *index) (err error) {
		e, err = x.get(id)
		return err
	})
	return e, err
}

// publish makes x the index of all calls.
func (s *Store) publish(x *index) {
	s.reading.Lock()
	defer s.reading.Unlock()
	s.index, s.indexError = x, nil
}

// withdraw closes the index, if there is one. Until the next publish, calls return cause.
func (s *Store) withdraw(cause error) error {
	s.reading.Lock()
	defer s.reading.Unlock()
	x := s.index
	s.index, s.indexError = nil, cause
	if x == nil {
		return nil
	}
	return x.close()
}

// restore opens the index again after cause, and rebuilds it if it is damaged. failed is the index of cause,
// nil if none is open. The caller holds committing.
func (s *Store) restore(failed *index, cause error) error {
	if s.closed {
		return block.ErrClosed
	}
	if s.index != failed {
		return nil
	}
	broken := s.appender.broken
	_ = s.appender.close() // its state is read from disk again
	_ = s.withdraw(errRebuilding)
	var err error
	if errors.Is(cause, kv.ErrDamaged) {
		err = s.setAside(cause)
	}
	if err == nil {
		err = s.open()
	}
	if err != nil {
		// The next call tries again.
		_ = s.withdraw(&indexDown{cause: err})
		return fmt.Errorf("block store %s: %w", s.config.Dir, err)
	}
	if broken {
		return s.sealSegment(s.appender.end.Segment)
	}
	return nil
}

// unopened is the error of a store without an index. The caller holds committing.
func (s *Store) unopened() error {
	s.reading.RLock()
	defer s.reading.RUnlock()
	return s.indexError
}

// open opens the index and brings it up to date. It rebuilds a damaged index, once. The caller holds
// committing.
func (s *Store) open() error {
	err := s.openOnce()
	if !errors.Is(err, kv.ErrDamaged) {
		return err
	}
	if err := s.setAside(err); err != nil {
		return err
	}
	return s.openOnce()
}

// openOnce opens the index and indexes the missing records.
func (s *Store) openOnce() error {
	x, err := openIndex(s.indexDir())
	if err != nil {
		return err
	}
	if err := s.recover(x); err != nil {
		return errors.Join(err, x.close())
	}
	s.indexFailed = nil
	s.publish(x)
	return nil
}

func (s *Store) indexDir() string { return filepath.Join(s.config.Dir, "index") }

// setAside renames a damaged index, and deletes the oldest renamed ones.
func (s *Store) setAside(cause error) error {
	names, err := os.ReadDir(s.config.Dir)
	if err != nil {
		return err
	}
	var old []int
	for _, name := range names {
		digits, ok := strings.CutPrefix(name.Name(), "index.damaged-")
		if n, err := strconv.Atoi(digits); ok && err == nil {
			old = append(old, n)
		}
	}
	slices.Sort(old)
	aside := func(n int) string { return fmt.Sprintf("%s.damaged-%d", s.indexDir(), n) }
	next := 1
	if len(old) > 0 {
		next = old[len(old)-1] + 1
	}
	for ; len(old) >= keptIndexes; old = old[1:] {
		if err := os.RemoveAll(aside(old[0])); err != nil {
			return err
		}
	}
	err = os.Rename(s.indexDir(), aside(next))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("set the damaged index aside: %w", err)
	}
	s.rebuilds.Add(1)
	s.config.Log.Error("block index is damaged: it is rebuilt from the segments; small blocks are missing here until repair has fetched them, deleted ones may come back as garbage; check this disk",
		"dir", s.config.Dir, "aside", aside(next), "error", cause)
	return durable.SyncDir(s.config.Dir)
}
