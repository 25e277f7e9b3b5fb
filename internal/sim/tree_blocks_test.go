package sim

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// TestTreeBlocks: files have blocks, which clients put before they write; some writes fail, come late or
// never. All clients also collect garbage: dropped blocks, and the garbage that a sweep over a store finds.
// Deleted blocks must be dead, and at the end exactly the live blocks are left (tree_blocks_judge_test.go).
func TestTreeBlocks(t *testing.T) {
	reach := treeReach{}
	seeds(t, 90, func(seed uint64) error { return treeRun(seed, treeBlocks(seed)).judge(reach) })
	reach.require(t, blockWritten, blockCollected, blockSwept, copySwept, droppedAway, cameLate, lateRefused, otherSession, readLate, withdrawnDone,
		sessionExpired, movedAway, movedHome, reapedAway, replacedOne, tookOver)
}

const (
	blockWritten   treeMark = "a write of blocks had effect"
	blockCollected treeMark = "a block that was dropped was collected"
	blockSwept     treeMark = "a block whose write never came was found by a sweep"
	copySwept      treeMark = "a copy away from home that nobody needs any more was found by a sweep"
	droppedAway    treeMark = "a block was dropped away from its home"
	cameLate       treeMark = "a write had effect that its client had given up"
	lateRefused    treeMark = "a write was refused that came after its client had given it up and renewed its session"
	otherSession   treeMark = "a write was refused that named blocks of a session that had ended"
	withdrawnDone  treeMark = "a write that its client had given up and withdrawn had effect, or was refused"
	readLate       treeMark = "a reader found a block deleted that it had been told of"
)

// treeBlocks draws the faults: some of all kinds; or long ones, with sessions that expire and little retained
// for absent replicas; or lost disks, too.
func treeBlocks(seed uint64) treeSetup {
	setup := treeSetup{linear: rand.New(rand.NewPCG(seed, 17)).IntN(4) == 0}
	if seed%3 > 0 {
		setup = treeTransfers(seed)
	}
	if seed%3 == 2 {
		setup.losses = 6
	}
	setup.blocks = true
	return setup
}

// treeStores are the blocks in the store of each partition.
type treeStores struct {
	has     []map[posix.BlockID]bool
	missing []missing
}

// missing is an observation that a block is deleted.
type missing struct {
	clock     int
	id        posix.BlockID
	partition uint16
	open      bool // the observer holds the file open: also without a name that keeps the block
}

func newTreeStores() treeStores {
	var s treeStores
	for range treeGroups {
		s.has = append(s.has, map[posix.BlockID]bool{})
	}
	return s
}

// blockText returns the content of a block.
func blockText(id posix.BlockID) string {
	return fmt.Sprintf("<%d.%d.%d>", id.Partition(), id.Session(), id.Counter())
}

// deleteBlock takes a block out of a store.
func (r *tree) deleteBlock(p uint16, id posix.BlockID) {
	delete(r.stores.has[p], id)
	r.stores.missing = append(r.stores.missing, missing{clock: r.history.tick(), id: id, partition: p})
}

// writing is the blocks that a client has put and not given up.
type writing struct {
	partition uint16
	session   uint64
	first     uint64 // counter of the first block; 0: nothing
	blocks    []meta.Block
}

// horizon gives the counter below which all blocks of the session in a partition are decided.
func (c *treeClient) horizon(p uint16) uint64 {
	if w := &c.writing; w.first != 0 && w.partition == p && w.session == c.session[p] {
		return w.first
	}
	return c.lastBlock[p] + 1
}

// put puts blocks for a write in p, unless that is done. If the session has ended since, the client may still
// believe that its blocks are valid: the partition must refuse them.
func (c *treeClient) put(p uint16) {
	for c.writing.first == 0 || c.writing.partition != p || c.writing.session != c.session[p] && c.pick(3) > 0 {
		c.writing = writing{partition: p, session: c.session[p], first: c.lastBlock[p] + 1}
		for range 1 + c.pick(2) {
			c.lastBlock[p]++
			id := posix.MakeBlockID(p, c.session[p], c.lastBlock[p])
			c.writing.blocks = append(c.writing.blocks, meta.Block{ID: id, Length: uint32(len(blockText(id)))})
			c.run.stores.has[p][id] = true
		}
		if c.pick(4) == 0 {
			if c.pick(3) == 0 {
				c.pause(3 * c.run.lease / 2) // it is silent for so long that its session ends
			}
			c.renew() // the blocks must stay
		}
		if c.pick(3) == 0 {
			c.pause(c.run.net.between(0, time.Second))
		}
	}
}

// putLate puts a block that its writer has given up already.
func (c *treeClient) putLate(p uint16) {
	c.lastBlock[p]++
	id := posix.MakeBlockID(p, c.session[p], c.lastBlock[p])
	c.run.net.Schedule(c.run.net.Now()+c.run.net.between(0, 3*time.Second), func() { c.run.stores.has[p][id] = true })
}

// writeBlocks puts blocks and writes them. Now and then it gives up on the way.
func (c *treeClient) writeBlocks() {
	ino := c.file()
	if ino == 0 {
		return
	}
	command := meta.Command{Op: meta.OpWrite, Ino: ino, Flags: meta.Append}
	if c.pick(3) > 0 {
		command.Flags, command.Offset = 0, uint64(c.pick(30))
	}
	hasty := c.pick(2) == 0
	c.persist(func(try int) (meta.Result, bool) {
		if try > 0 {
			if _, ok := c.locate(ino); !ok {
				c.forget(ino)
				return meta.Result{}, false
			}
		}
		p := c.at(ino)
		if c.put(p); c.pick(8) == 0 {
			return meta.Result{}, false // the update is never sent
		}
		c.hasty = hasty // from now on
		command.Blocks, command.Length = c.writing.blocks, 0
		for _, k := range command.Blocks {
			command.Length += uint64(k.Length)
		}
		m := c.update(p, command)
		c.hasty = false
		if m.Code == posix.OK {
			c.run.reach[blockWritten]++
		}
		return m, true
	})
	c.writing = writing{}
	if c.gaveUp && c.pick(4) > 0 {
		c.renew()
		c.sweepSome()
		c.pause(c.run.net.between(0, 3*time.Second)) // the update may take effect now
	}
	c.gaveUp = false
}

// giveUp ends an update that was not answered in time: it may have had effect, or may have effect later.
func (c *treeClient) giveUp(u *change) meta.Result {
	u.doubt, u.gaveUp, u.answered = true, true, noAnswer
	c.gaveUp = true
	return meta.Result{Code: posix.EIO}
}

// overwrite moves a file, and at once overwrites all its content: its blocks are dropped at its new
// partition.
func (c *treeClient) overwrite() {
	ino := c.file()
	if ino == 0 {
		return
	}
	c.moveTo(ino, uint16(c.pick(len(treeGroups))))
	a, ok := c.locate(ino)
	if !ok || !a.Mode.IsRegular() || a.Size == 0 {
		return
	}
	data := make([]byte, min(a.Size, meta.MaxLiteral))
	for i := range data {
		data[i] = 'o'
	}
	c.change(meta.Command{Op: meta.OpWrite, Ino: ino, Data: data, Length: uint64(len(data))})
}

// look records the missing blocks of an answer of p, and copies some to the store of p. It gives the indexes
// of its notes: other clients add notes meanwhile.
func (c *treeClient) look(p uint16, m *meta.Result) (noted []int) {
	s := &c.run.stores
	if len(m.Extents) > 0 && c.run.blocks && c.pick(3) == 0 {
		c.pause(c.run.net.between(0, 4*time.Second)) // the blocks of the answer may be gone
	}
	for _, e := range m.Extents {
		home := e.Block.Partition()
		switch {
		case e.Data != nil:
		case !s.has[p][e.Block] && !s.has[home][e.Block]:
			c.run.reach[readLate]++
			noted = append(noted, len(s.missing))
			s.missing = append(s.missing, missing{clock: c.run.history.tick(), id: e.Block, partition: p})
		case c.pick(3) == 0:
			c.run.net.Schedule(c.run.net.Now()+c.run.net.between(0, time.Second), func() { s.has[p][e.Block] = true })
		}
	}
	return noted
}

// copyTo copies the blocks of a file to the store of the partition to which it moves, as a mover does.
func (c *treeClient) copyTo(ino posix.Ino, target uint16) {
	m := c.contentOf(ino)
	for _, e := range m.Extents {
		if s := &c.run.stores; e.Data == nil && (s.has[c.at(ino)][e.Block] || s.has[e.Block.Partition()][e.Block]) {
			s.has[target][e.Block] = true
		}
	}
}

// collect deletes the blocks that a partition has dropped before a time, and confirms that. It gives the
// number of blocks.
func (c *treeClient) collect(p uint16, before posix.Time) int {
	m := c.query(p, meta.Command{Op: meta.OpQueue, Length: uint64(1 + c.pick(8)), Time: before})
	_, page, err := meta.DecodeQueue(m.Data)
	if err != nil {
		c.stop("queue of partition %d: %v", p, err)
	}
	said := meta.Command{Op: meta.OpCollected}
	for _, d := range page {
		if c.run.reach[blockCollected]++; d.ID.Partition() != p {
			c.run.reach[droppedAway]++
		}
		c.run.deleteBlock(p, d.ID)
		said.Blocks = append(said.Blocks, meta.Block{ID: d.ID})
	}
	if len(page) > 0 && c.pick(5) > 0 { // or it stops before that
		c.update(p, said)
	}
	return len(page)
}

// collectSome collects after a short time of grace since the drop.
func (c *treeClient) collectSome() {
	c.collect(uint16(c.pick(len(treeGroups))), posix.Time(epoch+int64(c.run.net.Now()-100*time.Millisecond)))
}

// sweepSome looks for garbage among some of the blocks in some store.
func (c *treeClient) sweepSome() {
	p := uint16(c.pick(len(treeGroups)))
	found := c.run.stores.list(p)
	if len(found) == 0 {
		return
	}
	home := found[c.pick(len(found))].Partition()
	found = slices.DeleteFunc(found, func(id posix.BlockID) bool { return id.Partition() != home })
	if over := len(found) - 20; over > 0 {
		found = found[c.pick(over+1):][:20]
	}
	c.sweep(p, home, found)
}

// list gives the blocks in the store of a partition.
func (s *treeStores) list(p uint16) []posix.BlockID {
	return slices.SortedFunc(maps.Keys(s.has[p]), func(a, b posix.BlockID) int { return slices.Compare(a[:], b[:]) })
}

// sweep queries the home of some blocks, which were found in the store of p, for the garbage among them. It
// deletes the garbage, and returns the number of deleted blocks.
func (c *treeClient) sweep(p, home uint16, found []posix.BlockID) int {
	garbage := meta.Command{Op: meta.OpGarbage}
	for _, id := range found {
		garbage.Blocks = append(garbage.Blocks, meta.Block{ID: id})
	}
	reply, asked := c.call(home, ask.Request{Kind: ask.Query, Fresh: true, Command: garbage.Append(nil)})
	c.run.history.add(happening{kind: learns, client: c.id, partition: home, count: reply.Vector.Of(home).Count, asked: asked})
	m, err := meta.DecodeResult(reply.Result)
	if err != nil {
		c.stop("garbage of partition %d: %v", home, err)
	}
	is, err := meta.DecodeGarbage(m.Data, len(found))
	if err != nil {
		c.stop("garbage of partition %d: %v", home, err)
	}
	if c.pick(4) == 0 {
		c.pause(c.run.net.between(0, 2*time.Second)) // it stays garbage
	}
	count := 0
	for i, id := range found {
		if !is[i] {
			continue
		}
		if c.run.reach[blockSwept]++; home != p {
			c.run.reach[copySwept]++
		}
		c.run.deleteBlock(p, id)
		count++
	}
	return count
}

// treeBlockOperations are operations of clients beside treeOperations, in runs with blocks.
var treeBlockOperations = []treeOperation{
	{20, (*treeClient).writeBlocks},
	{10, (*treeClient).collectSome},
	{12, (*treeClient).sweepSome},
	{2, func(c *treeClient) { c.putLate(uint16(c.pick(len(treeGroups)))) }},
	{4, (*treeClient).move},
	{4, (*treeClient).overwrite},
	{4, (*treeClient).read},
}

// collectAll deletes all garbage when all clients are done.
func (c *treeClient) collectAll() {
	for slices.ContainsFunc(c.run.clients, func(o *treeClient) bool { return !o.rested }) {
		c.pause(200 * time.Millisecond)
	}
	for range 12 {
		c.move() // so that all partitions exchange messages
	}
	for quiet := 0; quiet < 3; quiet++ {
		c.renew()
		for i := range treeGroups {
			p := uint16(i)
			for home := range treeGroups {
				found := slices.DeleteFunc(c.run.stores.list(p), func(id posix.BlockID) bool { return int(id.Partition()) != home })
				if c.collect(p, noTime)+c.sweep(p, uint16(home), found) > 0 {
					quiet = 0
				}
			}
		}
		c.pause(500 * time.Millisecond)
	}
}

// noTime is after all events.
const noTime posix.Time = 1 << 62
