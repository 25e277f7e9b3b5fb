package disk

import (
	"fmt"
	"maps"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/segfile"
)

// Audit counts the entries of the index, and fails if the ledger differs.
func (s *Store) Audit() error {
	s.committing.Lock()
	defer s.committing.Unlock()
	return s.withIndex(func(x *index) error {
		counted, inline := make(map[uint32]usage), usage{}
		err := x.entries(func(_ block.ID, e *entry) bool {
			if e.inline != nil {
				inline = inline.plus(usage{bytes: uint64(len(e.inline)), blocks: 1})
			} else {
				counted[e.at.Segment] = counted[e.at.Segment].plus(usage{bytes: segfile.HeaderSize + uint64(e.length), blocks: 1})
			}
			return true
		})
		if err != nil {
			return err
		}
		sizes, _, err := s.segments()
		if err != nil {
			return err
		}
		stored := make(map[uint32]usage)
		storedInline, err := x.usages(func(segment uint32, u usage) {
			if u != (usage{}) {
				stored[segment] = u
			}
		})
		x.ledger.mu.Lock()
		defer x.ledger.mu.Unlock()
		if x.ledger.inline != inline || storedInline != inline {
			return fmt.Errorf("small blocks: ledger %v, index %v, counted %v", x.ledger.inline, storedInline, inline)
		}
		if !maps.Equal(stored, counted) {
			return fmt.Errorf("usage in the index is %v, counted %v", stored, counted)
		}
		if len(x.ledger.segments) != len(sizes) {
			return fmt.Errorf("%d segments, the ledger has %d", len(sizes), len(x.ledger.segments))
		}
		for segment, size := range sizes {
			if got, want := x.ledger.segments[segment], (segmentUsage{usage: counted[segment], size: size}); got != want {
				return fmt.Errorf("segment %d: ledger %v, counted %v", segment, got, want)
			}
		}
		return err
	})
}

// Downgrade converts the index to version 1 of the format.
func (s *Store) Downgrade() error {
	s.committing.Lock()
	defer s.committing.Unlock()
	var c changes
	if _, err := s.index.usages(func(segment uint32, _ usage) { c.dropUsage(segment) }); err != nil {
		return err
	}
	c.batch.Delete([]byte{keyInline})
	frontier := appendFrontier(nil, s.appender.end)
	frontier[0] = 1
	c.batch.Set([]byte{keyFrontier}, frontier)
	return s.index.commit(&c, true)
}

// GetSlowly is like Get, and calls between after the lookup of the block and before the read.
func (s *Store) GetSlowly(id block.ID, between func()) ([]byte, error) {
	e, err := s.lookup(id)
	if err != nil {
		return nil, err
	}
	between()
	return s.follow(id, e, nil)
}
