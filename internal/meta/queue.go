package meta

import (
	"bytes"
	"fmt"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// The queue of dropped blocks has an entry for each block whose last reference has ended, in the order in
// which they were dropped, with the time of each drop. Times never descend along the queue, even if the
// clocks of proposers differ. A collector deletes the blocks that have waited long enough, and then reports
// them by OpCollected. A queued block stays garbage for ever, so an old answer to OpQueue does no harm, and a
// collector that was interrupted begins again.

// Dropped is a block in the queue.
type Dropped struct {
	Place  uint64 // position in the queue, ascending from 1
	ID     posix.BlockID
	Time   posix.Time // when it was dropped
	Length uint64     // bytes; 0 in other partitions than the home
}

// BlockUsage counts the blocks that were written for a partition, wherever they are held. Dropped also counts
// queued blocks of other homes.
type BlockUsage struct {
	Blocks       uint64 // in use
	Bytes        uint64 // of these
	Dropped      uint64 // blocks in the queue
	DroppedBytes uint64 // bytes of the queued blocks that were written for this partition
}

// enqueue appends a block to the queue.
func (m *Machine) enqueue(id posix.BlockID, k blockRecord) {
	s := &m.state
	s.queued++
	s.dropped++
	s.droppedBytes += k.length
	s.droppedAt = max(s.droppedAt, m.now)
	k.state, k.number = blockQueued, s.queued
	m.keys.Set(numberKey(prefixDropped, k.number), varint.AppendInt(append(make([]byte, 0, 26), id[:]...), int64(s.droppedAt)))
	m.setBlock(id, k)
}

func decodeQueued(b []byte) (id posix.BlockID, at posix.Time, err error) {
	r := varint.NewReader(b)
	r.Fixed(id[:])
	at = posix.Time(r.Int())
	return id, at, r.Done()
}

// collected executes OpCollected: it removes the records of deleted blocks. It ignores blocks that are not
// queued.
func (m *Machine) collected(c *Command) Result {
	var r Result
	for _, b := range c.Blocks {
		k, found := m.blockOf(b.ID)
		if !found || k.state != blockQueued {
			continue
		}
		m.keys.Delete(numberKey(prefixDropped, k.number))
		m.keys.Delete(blockKey(b.ID))
		m.state.dropped--
		m.state.droppedBytes -= k.length
		r.Number++
	}
	return r
}

// queue answers OpQueue.
func (m *Machine) queue(c *Command) Result {
	s := &m.state
	r := Result{Data: appendUsage(nil, &BlockUsage{s.blocks, s.blockBytes, s.dropped, s.droppedBytes})}
	for key, value := range m.keys.Scan(numberKey(prefixDropped, c.Offset+1), []byte{prefixDropped + 1}) {
		id, at, err := decodeQueued(value)
		invariant.Check(err == nil, "stored block in the queue %x: %v", key, err)
		if at >= c.Time || r.Number == min(c.Length, MaxIDs) {
			break
		}
		k, _ := m.blockOf(id)
		r.Number++
		r.Data = append(varint.AppendUint(r.Data, inoOf(key)), value...)
		r.Data = varint.AppendUint(r.Data, k.length)
	}
	return r
}

func appendUsage(b []byte, u *BlockUsage) []byte {
	b = varint.AppendUint(varint.AppendUint(b, u.Blocks), u.Bytes)
	return varint.AppendUint(varint.AppendUint(b, u.Dropped), u.DroppedBytes)
}

// DecodeQueue decodes the Result.Data of OpQueue.
func DecodeQueue(b []byte) (u BlockUsage, page []Dropped, err error) {
	r := varint.NewReader(b)
	u = BlockUsage{Blocks: r.Uint64(), Bytes: r.Uint64(), Dropped: r.Uint64(), DroppedBytes: r.Uint64()}
	for r.Len() > 0 && r.Err() == nil {
		d := Dropped{Place: r.Uint64()}
		r.Fixed(d.ID[:])
		d.Time, d.Length = posix.Time(r.Int()), r.Uint64()
		page = append(page, d)
	}
	if err := r.Done(); err != nil {
		return BlockUsage{}, nil, fmt.Errorf("queue of dropped blocks: %w", err)
	}
	return u, page, nil
}

// unknown answers OpGarbage as far as the metadata can: one byte for each block, 1 for a block whose home is
// this partition and that has no record.
func (m *Machine) unknown(c *Command) Result {
	r := Result{Data: make([]byte, len(c.Blocks))}
	for i, b := range c.Blocks {
		if m.isHome(b.ID) && m.keys.Get(blockKey(b.ID)) == nil {
			r.Data[i] = 1
		}
	}
	return r
}

// DecodeGarbage decodes the Result.Data of OpGarbage for count blocks.
func DecodeGarbage(b []byte, count int) ([]bool, error) {
	if len(b) != count || len(bytes.Trim(b, "\x00\x01")) > 0 {
		return nil, fmt.Errorf("garbage among %d blocks: %x: %w", count, b, varint.ErrMalformed)
	}
	is := make([]bool, count)
	for i := range b {
		is[i] = b[i] == 1
	}
	return is, nil
}
