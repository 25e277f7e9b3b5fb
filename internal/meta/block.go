package meta

import (
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// A block belongs to one inode: the one to which it was written. A write names only new blocks, with the
// executing partition as their home. So a block ends with its last reference: no entry names it again,
// wherever that reference was and however late the home learns of its end.
//
// The home has a record of a block from the write until its collection is ordered. Another partition has a
// record while it holds the block, and then until its own copies are collected. When its last reference ends,
// it informs the home by a post. A block without a record at its home is not needed if it cannot be written
// any more (package replica, garbage.go, has the condition and the proof).

type blockState uint8

const (
	blockHeld blockState = iota // extents of this partition contain parts of it
	// blockGoing is blockHeld at the home of a block whose file is leaving: the home has not executed the
	// decision of the move. The post that the new partition has dropped the block has come before it.
	blockGoing
	// blockAway is only at the home: another partition holds the block, or it is on its way between two
	// partitions, or the post that it was dropped is on its way home.
	blockAway
	blockQueued // no extent refers to it: it waits for its collection
	blockStates
)

type blockRecord struct {
	state  blockState
	number uint64 // in state blockHeld the number of references; in blockQueued the place in the queue
	length uint64 // bytes written; 0 in other partitions than the home, which counts the bytes
}

func decodeBlock(b []byte) (blockRecord, error) {
	r := varint.NewReader(b)
	k := blockRecord{blockState(r.Uint(uint64(blockStates - 1))), r.Uint64(), r.Uint64()}
	return k, r.Done()
}

func (k *blockRecord) encode() []byte {
	b := varint.AppendUint(make([]byte, 0, 12), uint8(k.state))
	return varint.AppendUint(varint.AppendUint(b, k.number), k.length)
}

// held reports whether extents of this partition contain parts of the block.
func (k *blockRecord) held() bool { return k.state == blockHeld || k.state == blockGoing }

// isHome reports whether this partition is the home of a block.
func (m *Machine) isHome(id posix.BlockID) bool { return id.Partition() == m.cfg.Partition }

// blockOf returns the record of a block, if there is one.
func (m *Machine) blockOf(id posix.BlockID) (k blockRecord, found bool) {
	b := m.keys.Get(blockKey(id))
	if b == nil {
		return k, false
	}
	k, err := decodeBlock(b)
	invariant.Check(err == nil, "stored block %v: %v", id, err)
	return k, true
}

func (m *Machine) setBlock(id posix.BlockID, k blockRecord) { m.keys.Set(blockKey(id), k.encode()) }

// mayName reports whether a write may name its blocks: their home is this partition, they belong to the
// session that orders the write, they were not named before, and no renewal has given them up.
func (m *Machine) mayName(c *Command) bool {
	for i, k := range c.Blocks {
		known := m.keys.Get(blockKey(k.ID)) != nil
		twice := slices.ContainsFunc(c.Blocks[:i], func(other Block) bool { return other.ID == k.ID })
		if known || twice || !m.isHome(k.ID) || k.ID.Session() != c.Session || k.ID.Counter() < c.Horizon {
			return false
		}
	}
	return true
}

// wrote makes the record of a block that a write names.
func (m *Machine) wrote(k Block) {
	m.state.blocks++
	m.state.blockBytes += uint64(k.Length)
	m.setBlock(k.ID, blockRecord{blockHeld, 1, uint64(k.Length)})
}

// reference changes the number of extents that contain a part of a block by delta.
func (m *Machine) reference(id posix.BlockID, delta int) {
	if delta == 0 {
		return
	}
	k, found := m.blockOf(id)
	invariant.Check(found && k.state == blockHeld, "block %v, of which extents change: %+v", id, k)
	if k.number += uint64(delta); k.number == 0 {
		m.drop(id, k)
		return
	}
	m.setBlock(id, k)
}

// drop queues a block whose last reference has ended. If the home is another partition, it is informed by a
// post.
func (m *Machine) drop(id posix.BlockID, k blockRecord) {
	if m.isHome(id) {
		m.state.blocks--
		m.state.blockBytes -= k.length
	} else {
		m.dropped = append(m.dropped, id)
	}
	m.enqueue(id, k)
}

// leaves ends the reference of an extent that moves with its file to another partition.
func (m *Machine) leaves(id posix.BlockID) {
	k, found := m.blockOf(id)
	invariant.Check(found && k.held(), "block %v, which is to leave: %+v", id, k)
	k.number--
	switch {
	case k.number > 0:
		m.setBlock(id, k)
	case !m.isHome(id):
		m.keys.Delete(blockKey(id))
	case k.state == blockGoing:
		m.drop(id, k)
	default:
		k.state = blockAway
		m.setBlock(id, k)
	}
}

// comes counts the reference of an extent that has moved here with its file, from another partition.
func (m *Machine) comes(id posix.BlockID) {
	k, found := m.blockOf(id)
	switch {
	case found && k.state == blockAway:
		k.state, k.number = blockHeld, 0
	case found || m.isHome(id):
		invariant.Check(found && k.state == blockHeld, "block %v, which comes with its file: record %t, %+v", id, found, k)
	}
	k.number++
	m.setBlock(id, k)
}

// postDropped informs the homes of the blocks that this command has dropped.
func (m *Machine) postDropped() {
	if len(m.dropped) == 0 {
		return
	}
	slices.SortStableFunc(m.dropped, func(a, b posix.BlockID) int { return int(a.Partition()) - int(b.Partition()) })
	for left := m.dropped; len(left) > 0; {
		home, c := left[0].Partition(), Command{Op: OpDropped}
		for len(left) > 0 && left[0].Partition() == home && len(c.Blocks) < MaxIDs {
			c.Blocks = append(c.Blocks, Block{ID: left[0]})
			left = left[1:]
		}
		m.post(home, &c)
	}
	m.dropped = m.dropped[:0]
}

// droppedAway executes OpDropped at the home of the blocks. A block may be named twice, even after its
// collection, and also before this partition has decided the command that moved the block to the partition
// where it was dropped.
func (m *Machine) droppedAway(c *Command) {
	for _, b := range c.Blocks {
		k, found := m.blockOf(b.ID)
		switch {
		case !found || !m.isHome(b.ID):
		case k.state == blockAway:
			m.drop(b.ID, k)
		case k.state == blockHeld:
			k.state = blockGoing
			m.setBlock(b.ID, k)
		}
	}
}

// String describes the record for the analysis of an error.
func (k blockRecord) String() string {
	switch k.state {
	case blockHeld:
		return fmt.Sprintf("held by %d extents", k.number)
	case blockGoing:
		return fmt.Sprintf("held by %d extents, which are leaving", k.number)
	case blockAway:
		return "away"
	}
	return fmt.Sprintf("dropped, %d in the queue", k.number)
}
