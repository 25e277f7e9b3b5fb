package meta

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// writeInodes gives each inode the links that its names demand, and its parent.
func (r *reconciler) writeInodes() {
	for _, ino := range r.order {
		for _, x := range r.inodes[ino].names {
			dir := r.inodes[x.dir]
			dir.entries++
			if x.kind == posix.TypeDir {
				dir.subdirs++
			}
		}
	}
	for _, ino := range r.order {
		n := r.inodes[ino]
		n.Nlink = uint32(len(n.names))
		if n.Mode.IsDir() {
			n.Nlink, n.Size = uint32(2+n.subdirs), n.entries
			if len(n.names) > 0 {
				n.parent = n.names[0].dir
			}
		}
		r.machines[n.partition].save(&n.inode)
	}
}

// writeHomes makes the keys anew in which the home of an inode records it. No number is reserved afterwards.
func (r *reconciler) writeHomes() {
	r.endRows()
	for p, m := range r.machines {
		for _, prefix := range []byte{prefixForwarding, prefixOrphan, prefixReserved, prefixLock} {
			for key := range m.keys.Scan([]byte{prefix}, []byte{prefix + 1}) {
				m.keys.Delete(key)
			}
		}
		clear(m.reserved)
		m.state.last = max(m.state.last, r.newest[p])
	}
	for _, ino := range r.order {
		if home := int(ino.Partition()); home < len(r.machines) {
			r.machines[home].forward(ino, r.inodes[ino].partition)
		}
	}
}

// sawRows records the numbers in rows and tasks, so that they are not used again.
func (r *reconciler) sawRows() {
	for _, m := range r.machines {
		for _, prefix := range []byte{prefixPlacement, prefixTask} {
			for key := range m.keys.Scan([]byte{prefix}, []byte{prefix + 1}) {
				r.noteUsed(inoOf(key))
			}
		}
	}
}

// endRows removes the rows and tasks of directories that do not exist any more. A short partition may have
// lost the directory, and would otherwise use its number again.
func (r *reconciler) endRows() {
	for _, m := range r.machines {
		for _, prefix := range []byte{prefixPlacement, prefixTask} {
			for key := range m.keys.Scan([]byte{prefix}, []byte{prefix + 1}) {
				if r.inodes[inoOf(key)] == nil {
					m.keys.Delete(key)
				}
			}
		}
	}
}

// writeRules makes the rules beside directories and the table agree. The rule in a partition that is not
// short is the newer one.
func (r *reconciler) writeRules() {
	table := r.machines[tablePartition]
	for _, ino := range r.order {
		n := r.inodes[ino]
		if !n.Mode.IsDir() {
			continue
		}
		m := r.machines[n.partition]
		rule := m.keys.Get(ruleKey(ino))
		row := Placement{Dir: ino, Target: n.partition}
		var tabled []byte
		if b := table.keys.Get(placementKey(ino)); b != nil {
			if known, err := decodePlacement(ino, b); err == nil {
				row, tabled = known, known.Rule.Append(nil)
			}
		}
		switch {
		case bytes.Equal(rule, tabled):
			continue
		case r.short[n.partition] && !r.short[tablePartition]:
			m.setRule(ino, &row.Rule)
		default:
			kept, _ := m.rule(ino)
			table.placeTable(&Command{Ino: ino, Target: row.Target, Data: kept.Append(nil)})
		}
		r.changes = append(r.changes, change{ino, "", "its placement rule differed from the table: the newer one of both is kept"})
	}
}

// held is a block with the inode that holds it.
type heldBlock struct {
	at      uint16
	ino     posix.Ino
	extents uint64
	length  uint64 // minimum length in bytes
}

// writeBlocks makes the records of blocks anew (J6), with empty queues: the caller stores only blocks that
// are held.
func (r *reconciler) writeBlocks() error {
	lengths := map[posix.BlockID]uint64{}
	for p, m := range r.machines {
		for key, value := range m.keys.Scan([]byte{prefixBlock}, []byte{prefixBlock + 1}) {
			k, err := decodeBlock(value)
			if err != nil || len(key) != 17 {
				return fmt.Errorf("partition %d: block %x: %w", p, key[1:], varint.ErrMalformed)
			}
			if k.length > 0 {
				lengths[posix.BlockID(key[1:])] = k.length
			}
			m.keys.Delete(key)
		}
		for key := range m.keys.Scan([]byte{prefixDropped}, []byte{prefixDropped + 1}) {
			m.keys.Delete(key)
		}
		s := &m.state
		s.blocks, s.blockBytes, s.dropped, s.droppedBytes = 0, 0, 0, 0
	}
	all, err := r.holders()
	if err != nil {
		return err
	}
	ids := slices.SortedFunc(maps.Keys(all), func(a, b posix.BlockID) int { return bytes.Compare(a[:], b[:]) })
	for _, id := range ids {
		b, home := all[id], int(id.Partition())
		record := blockRecord{state: blockHeld, number: b.extents}
		if home >= len(r.machines) {
			return fmt.Errorf("block %v is of partition %d, which does not exist", id, home)
		}
		length := max(lengths[id], b.length)
		r.machines[home].state.blocks++
		r.machines[home].state.blockBytes += length
		if int(b.at) == home {
			record.length = length
		} else {
			r.machines[home].setBlock(id, blockRecord{state: blockAway, length: length})
		}
		r.machines[b.at].setBlock(id, record)
	}
	return nil
}

// holders finds the inode that holds each block. It removes extents of other inodes: such an inode was made
// by a lost entry, and another one got its number.
func (r *reconciler) holders() (map[posix.BlockID]*heldBlock, error) {
	all := map[posix.BlockID]*heldBlock{}
	for p, m := range r.machines {
		for key, value := range m.keys.Scan([]byte{prefixExtent}, []byte{prefixExtent + 1}) {
			ino := inoOf(key)
			e, err := decodeExtent(placeOf(key), value)
			if err != nil {
				return nil, fmt.Errorf("partition %d: extent of %d: %w", p, ino, err)
			}
			if e.Data != nil {
				continue
			}
			b := all[e.Block]
			if b == nil {
				b = &heldBlock{at: uint16(p), ino: ino}
				all[e.Block] = b
			}
			if n := r.inodes[ino]; b.ino != ino {
				m.keys.Delete(key)
				n.Bytes -= e.Length
				m.save(&n.inode)
				if len(n.names) > 0 {
					r.note(n.names[0], "%d bytes from %d on belong to another file, and are zeros now", e.Length, e.Offset)
				}
				continue
			}
			b.extents++
			b.length = max(b.length, uint64(e.Skip)+e.Length)
		}
	}
	return all, nil
}

// count counts the inodes and bytes of each partition, and saves the counters.
func (r *reconciler) count() {
	for _, m := range r.machines {
		m.state.inodes, m.state.bytes = 0, 0
	}
	for _, ino := range r.order {
		n := r.inodes[ino]
		m := r.machines[n.partition]
		m.state.inodes++
		m.state.bytes += n.Bytes
	}
	for _, m := range r.machines {
		m.dropped = m.dropped[:0]
		m.saveState()
	}
}
