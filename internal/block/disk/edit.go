package disk

import (
	"errors"

	"github.com/globalfs/globalfs/internal/block"
	"github.com/globalfs/globalfs/internal/block/segfile"
)

// edit collects changes of the index, with their effect on the ledger. The caller holds Store.committing, so
// that nothing else changes the index meanwhile.
type edit struct {
	index   *index
	changes changes
	blocks  map[block.ID]*slot
	deltas  map[uint32]usage // added modulo 2^64: a decrease is added as its complement
	inline  usage
	retired []uint32
}

// slot is the state of a block after the edit.
type slot struct {
	entry   entry
	present bool
	planned plan // the batch's plan for it
}

func newEdit(x *index) *edit {
	return &edit{index: x, blocks: make(map[block.ID]*slot), deltas: make(map[uint32]usage)}
}

// load returns the slot of a block.
func (e *edit) load(id block.ID) (*slot, error) {
	if s := e.blocks[id]; s != nil {
		return s, nil
	}
	found, err := e.index.get(id)
	if err != nil && !errors.Is(err, block.ErrNotFound) {
		return nil, err
	}
	s := &slot{entry: found, present: err == nil}
	s.planned = plan{present: s.present, crc: found.crc}
	e.blocks[id] = s
	return s, nil
}

// set replaces the entry of the block with slot s by to.
func (e *edit) set(id block.ID, s *slot, to *entry) {
	if s.present {
		e.count(&s.entry, ^uint64(0))
	}
	s.entry, s.present = *to, true
	e.count(to, 1)
	e.changes.set(id, to)
}

// drop removes the block with slot s from the index.
func (e *edit) drop(id block.ID, s *slot) {
	if s.present {
		e.count(&s.entry, ^uint64(0))
		s.entry, s.present = entry{}, false
		e.changes.drop(id)
	}
}

// count adds the size of an entry to the deltas (sign is 1), or subtracts it (sign is ^0).
func (e *edit) count(of *entry, sign uint64) {
	if of.inline != nil {
		e.inline.bytes += sign * uint64(len(of.inline))
		e.inline.blocks += sign
		return
	}
	d := e.deltas[of.at.Segment]
	d.bytes += sign * (segfile.HeaderSize + uint64(of.length))
	d.blocks += sign
	e.deltas[of.at.Segment] = d
}

// left returns the number of live blocks of a segment after the edit.
func (e *edit) left(segment uint32) uint64 {
	h, _ := e.index.ledger.of(segment)
	return h.blocks + e.deltas[segment].blocks
}

// retire removes a segment without live blocks from the index.
func (e *edit) retire(segment uint32) {
	e.retired = append(e.retired, segment)
}

// commit writes the edit with the new frontier, and then applies it to the ledger.
func (e *edit) commit(frontier segfile.Place, sync bool) error {
	l := &e.index.ledger
	after := make(map[uint32]usage, len(e.deltas))
	l.mu.Lock()
	inline := l.inline.plus(e.inline)
	for segment, d := range e.deltas {
		after[segment] = l.segments[segment].plus(d)
	}
	l.mu.Unlock()

	bad := inline.negative()
	for segment, u := range after {
		e.changes.setUsage(segment, u)
		bad = bad || u.negative()
	}
	if bad {
		return e.index.damaged("more blocks were removed than there were")
	}
	if e.inline != (usage{}) {
		e.changes.setInline(inline)
	}
	for _, segment := range e.retired {
		e.changes.dropUsage(segment)
	}
	e.changes.setFrontier(frontier)
	if err := e.index.commit(&e.changes, sync); err != nil {
		return err
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	l.inline = inline
	for segment, u := range after {
		h := l.segments[segment]
		h.usage = u
		l.segments[segment] = h
	}
	return nil
}

func (u usage) plus(d usage) usage {
	return usage{bytes: u.bytes + d.bytes, blocks: u.blocks + d.blocks}
}

// negative reports whether more was subtracted than added.
func (u usage) negative() bool { return int64(u.bytes) < 0 || int64(u.blocks) < 0 }
