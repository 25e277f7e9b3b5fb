package meta

import (
	"cmp"
	"slices"

	"github.com/globalfs/globalfs/internal/posix"
)

// blockChecks has the counts that Check makes of blocks.
type blockChecks struct {
	blocks  map[posix.BlockID]*holder
	dropped map[uint64]posix.BlockID // the queue, by place
	counted BlockUsage
}

// holder is an inode with extents that hold parts of a block, and the number of these extents.
type holder struct {
	ino     posix.Ino
	extents uint64
}

func newBlockChecks() blockChecks {
	return blockChecks{blocks: map[posix.BlockID]*holder{}, dropped: map[uint64]posix.BlockID{}}
}

// holds counts an extent.
func (c *checker) holds(ino posix.Ino, id posix.BlockID) {
	h := c.blocks[id]
	if h == nil {
		h = &holder{ino: ino}
		c.blocks[id] = h
	}
	if h.ino != ino {
		c.report("block %v is held by inode %d and by inode %d", id, h.ino, ino)
	}
	h.extents++
}

func (c *checker) drop(key, value []byte) {
	place := uint64(inoOf(key))
	id, at, err := decodeQueued(value)
	if err != nil || place > c.state.queued || at > c.state.droppedAt {
		c.report("place %d in the queue of dropped blocks, of %d: %x (%v)", place, c.state.queued, value, err)
	}
	c.dropped[place] = id
}

func (c *checker) block(key, value []byte) {
	id := posix.BlockID(key[1:])
	k, err := decodeBlock(value)
	if err != nil {
		c.report("block %v: %v", id, err)
		return
	}
	h := c.blocks[id]
	if h == nil {
		h = &holder{}
	}
	delete(c.blocks, id)
	if k.held() != (h.extents > 0) || k.held() && k.number != h.extents {
		c.report("block %v: its record says %v, %d extents hold it", id, k, h.extents)
	}
	home := id.Partition() == c.partition
	if !home && (k.state == blockAway || k.state == blockGoing || k.length > 0) || home && (k.length == 0 || k.length > MaxBlock) {
		c.report("block %v of partition %d: its record, in partition %d, says %v and %d bytes", id, id.Partition(), c.partition, k, k.length)
	}
	if k.state == blockGoing && !c.undecided[h.ino] {
		c.report("block %v: inode %d is to take it to another partition, but stays", id, h.ino)
	}
	if k.state != blockQueued {
		if home {
			c.counted.Blocks++
			c.counted.Bytes += k.length
		}
		return
	}
	c.counted.Dropped++
	c.counted.DroppedBytes += k.length
	if c.dropped[k.number] != id {
		c.report("block %v: nothing holds it, and it is not in the queue", id)
	}
	delete(c.dropped, k.number)
}

// blockTotals makes the checks that need all keys to have been seen.
func (c *checker) blockTotals() {
	if len(c.blocks) > 0 || len(c.dropped) > 0 {
		c.report("%d blocks in extents and %d in the queue have no record", len(c.blocks), len(c.dropped))
	}
	s := &c.state
	if stored := (BlockUsage{s.blocks, s.blockBytes, s.dropped, s.droppedBytes}); stored != c.counted {
		c.report("state: %+v are counted, %+v are there", stored, c.counted)
	}
}

// blockRecords has the records that the partitions have of one block that is, or was, in another partition
// than its home.
type blockRecords struct {
	home   blockRecord
	atHome bool  // home has a record
	held   []int // partitions, home included
	queued []int
	posted bool // a post that the block was dropped is on its way home
}

// checkBlocks compares the records that partitions have of blocks with the records of the blocks' homes (I9).
func (c *forestChecker) checkBlocks() {
	all := map[posix.BlockID]*blockRecords{}
	of := func(id posix.BlockID) *blockRecords {
		if all[id] == nil {
			all[id] = &blockRecords{}
		}
		return all[id]
	}
	for p := range c.stores {
		for key, value := range c.kind(p, prefixBlock, 17) {
			id := posix.BlockID(key[1:])
			k, err := decodeBlock(value)
			if err != nil || int(id.Partition()) == p && k.state != blockAway {
				continue
			}
			switch r := of(id); {
			case k.state == blockQueued:
				r.queued = append(r.queued, p)
			case k.held():
				r.held = append(r.held, p)
			}
		}
	}
	for id := range c.forsaken {
		of(id).posted = true
	}
	for id, r := range all {
		c.readHome(id, r)
		c.checkBlock(id, r)
	}
}

// readHome reads the record that the home of a block has.
func (c *forestChecker) readHome(id posix.BlockID, r *blockRecords) {
	home := int(id.Partition())
	if home >= len(c.stores) {
		return
	}
	if b := c.stores[home].Get(blockKey(id)); b != nil {
		k, err := decodeBlock(b)
		r.home, r.atHome = k, err == nil
	}
}

func (c *forestChecker) checkBlock(id posix.BlockID, r *blockRecords) {
	home := id.Partition()
	slices.SortFunc(r.held, cmp.Compare)
	for _, p := range r.held {
		if !r.atHome || r.home.state != blockAway {
			c.report("block %v is held in partition %d: its home, partition %d, says: %s", id, p, home, r.homeText())
		}
		for _, q := range r.queued {
			c.report("block %v is held in partition %d, but partition %d has dropped it", id, p, q)
		}
	}
	if len(r.held) > 1 {
		c.report("block %v is held in partitions %v", id, r.held)
	}
	if r.posted && len(r.held) > 0 {
		c.report("block %v is held in partition %v, but a post says that it was dropped", id, r.held)
	}
	if len(r.held) > 0 || !r.atHome {
		return
	}
	switch {
	case r.home.held() && len(r.queued) > 0:
		c.report("block %v is held in its home, partition %d, but partition %d has dropped it", id, home, r.queued[0])
	case r.home.state == blockAway && !r.posted:
		c.report("block %v is away, says its home, partition %d: no partition holds it, and none is about to say so", id, home)
	}
}

// homeText describes the record of the home.
func (r *blockRecords) homeText() string {
	if !r.atHome {
		return "nothing"
	}
	return r.home.String()
}
