package meta

import (
	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// A block's record says how many extents hold a part of it. The last one gone puts the block into the
// queue of dropped blocks; a write that brings it back (a client that repeats what it is
// not sure of) takes it out again. So a block is in use or in the queue, never both.

type blockRecord struct {
	references uint64
	queued     uint64 // its number in the queue if references is 0
}

func decodeBlock(b []byte) (blockRecord, error) {
	r := varint.NewReader(b)
	k := blockRecord{r.Uint64(), r.Uint64()}
	return k, r.Done()
}

func (k blockRecord) encode() []byte {
	return varint.AppendUint(varint.AppendUint(nil, k.references), k.queued)
}

// reference counts delta extents more, or less, that hold a part of a block.
func (m *Machine) reference(id posix.BlockID, delta int) {
	if delta == 0 {
		return
	}
	key := blockKey(id)
	var k blockRecord
	if b := m.keys.Get(key); b != nil {
		var err error
		k, err = decodeBlock(b)
		invariant.Check(err == nil, "stored block %v: %v", id, err)
		if k.references == 0 {
			m.keys.Delete(numberKey(prefixDropped, k.queued))
			m.state.dropped--
			k.queued = 0
		}
	}
	k.references += uint64(delta)
	if k.references == 0 {
		m.state.queued++
		m.state.dropped++
		k.queued = m.state.queued
		m.keys.Set(numberKey(prefixDropped, k.queued), id[:])
	}
	m.keys.Set(key, k.encode())
}
