package meta

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/globalfs/globalfs/internal/posix"
)

// CheckAll describes the contradictions between partitions; none if they make one sound tree. stores[i] has
// the metadata of partition i. They must be from a moment at which no command of several partitions is
// undecided, or executed in only some of its partitions. Keys and values that cannot be decoded are reported
// by Check. CheckAll reads each store once for each kind of key. It needs memory for every inode, and for
// every block that is in another partition than its home.
//
// If the stores were read while the file system was in use, CheckAll also reports transient states. A problem
// that is reported for two successive readings is real.
func CheckAll[K Reader](stores []K) []string {
	c := &forestChecker{
		inodes:    map[posix.Ino]*placed{},
		forwarded: map[posix.Ino]bool{},
		orphans:   map[posix.Ino]bool{},
		unnamed:   map[posix.Ino]bool{},
		released:  map[posix.Ino]bool{},
		promised:  map[posix.Ino]bool{},
		pooled:    map[posix.Ino]int{},
		forsaken:  map[posix.BlockID]bool{},
	}
	for _, keys := range stores {
		c.stores = append(c.stores, keys)
	}
	if c.states(); len(c.problems) > 0 {
		return c.problems // the other problems would follow from these
	}
	for p := range stores {
		c.readInodes(p)
		c.readPosts(p)
	}
	for p := range stores {
		c.readForwardings(p)
		c.readOrphans(p)
		c.readPools(p)
	}
	for p := range stores {
		c.readEntries(p)
	}
	inos := slices.Sorted(maps.Keys(c.inodes))
	for _, ino := range inos {
		c.home(c.inodes[ino])
		c.links(c.inodes[ino])
	}
	for _, ino := range inos {
		c.climb(c.inodes[ino])
	}
	c.checkRules()
	c.checkBlocks()
	slices.Sort(c.problems)
	return slices.Compact(c.problems)
}

// Undecided counts the commands of several partitions that are prepared and not decided in a partition.
// CheckAll needs a moment without any.
func Undecided(keys Reader) (count int) {
	for range keys.Scan([]byte{prefixUndecided}, []byte{prefixUndecided + 1}) {
		count++
	}
	return count
}

// placed is an inode with the facts about it in all partitions.
type placed struct {
	ino    posix.Ino
	at     uint16
	kind   posix.Mode
	nlink  uint32
	links  uint32    // number of entries that name it
	parent posix.Ino // of a directory
	climb  climb
}

// climb is the progress of the check that the parents of a directory lead to the root.
type climb uint8

const (
	unclimbed climb = iota // not checked
	climbing               // its parents are being followed
	climbed                // they lead to the root, or a problem was reported
)

type forestChecker struct {
	stores    []Reader
	newest    []uint64 // counter of the newest inode of each partition
	inodes    map[posix.Ino]*placed
	forwarded map[posix.Ino]bool     // inodes for which their homes have a forwarding
	orphans   map[posix.Ino]bool     // orphans that their homes have recorded
	unnamed   map[posix.Ino]bool     // a post is on its way home: the inode has no name any more
	released  map[posix.Ino]bool     // a post is on its way from home: no session holds the inode
	promised  map[posix.Ino]bool     // a post is on its way: the inode must be made
	pooled    map[posix.Ino]int      // numbers in the pool of this partition
	forsaken  map[posix.BlockID]bool // a post is on its way home: no extent holds the block
	problems  []string
}

func (c *forestChecker) report(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

// kind yields the keys of a kind in partition p that are long enough to be read.
func (c *forestChecker) kind(p int, prefix byte, length int) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		for key, value := range c.stores[p].Scan([]byte{prefix}, []byte{prefix + 1}) {
			if len(key) >= length && !yield(key, value) {
				return
			}
		}
	}
}

// states checks that each store is of the partition that it is taken for.
func (c *forestChecker) states() {
	c.newest = make([]uint64, len(c.stores))
	for p, keys := range c.stores {
		b := keys.Get(stateKey)
		if b == nil {
			c.report("partition %d: there is no state", p)
			continue
		}
		partition, s, err := decodeState(b)
		switch {
		case err != nil:
			c.report("partition %d: %v", p, err)
		case int(partition) != p:
			c.report("partition %d: what is stored for it is partition %d", p, partition)
		}
		c.newest[p] = s.last
	}
}

func (c *forestChecker) readInodes(p int) {
	for key, value := range c.kind(p, prefixInode, 9) {
		n, err := decodeInode(inoOf(key), value)
		if err != nil {
			continue
		}
		if other := c.inodes[n.Ino]; other != nil {
			c.report("inode %d is in partition %d and in partition %d", n.Ino, other.at, p)
			continue
		}
		c.inodes[n.Ino] = &placed{ino: n.Ino, at: uint16(p), kind: n.Mode.Type(), nlink: n.Nlink, parent: n.parent}
	}
}

// readPosts records the inodes and blocks that undelivered posts concern.
func (c *forestChecker) readPosts(p int) {
	for key, value := range c.kind(p, prefixPost, postKeyLength) {
		post, err := decodePost(key, value)
		if err != nil {
			c.report("post %d of partition %d to partition %d does not decode: %v", post.Number, p, partitionOf(key), err)
			continue
		}
		switch post.Command.Op {
		case OpGone:
			c.unnamed[post.Command.Child] = true
		case OpReleased:
			c.released[post.Command.Child] = true
		case OpMake:
			c.promised[post.Command.Child] = true
		case OpDropped:
			for _, b := range post.Command.Blocks {
				c.forsaken[b.ID] = true
			}
		}
	}
}

// readPools checks that the numbers in the pool of a partition are reserved for that partition only.
func (c *forestChecker) readPools(p int) {
	for key, value := range c.kind(p, prefixPeer, peerKeyLength) {
		exchange, err := decodePeer(value)
		of := int(partitionOf(key))
		if err != nil || of >= len(c.stores) {
			continue
		}
		for _, s := range exchange.pool {
			for i := range min(s.count, poolChunk) {
				c.checkPooled(p, s.first+posix.Ino(i))
			}
		}
	}
}

// checkPooled checks one number of the pool of partition p: no other pool has it, and its own partition has
// reserved it.
func (c *forestChecker) checkPooled(p int, ino posix.Ino) {
	if other, ok := c.pooled[ino]; ok {
		c.report("number %d is in the pools of partition %d and of partition %d", ino, other, p)
		return
	}
	c.pooled[ino] = p
	left, err := decodeReservations(c.stores[ino.Partition()].Get(reservationKey(ino.Counter())))
	if err != nil || left&(1<<(ino.Counter()%perReservation)) == 0 {
		c.report("number %d is in the pool of partition %d: its own partition has not reserved it", ino, p)
	}
}

func (c *forestChecker) readForwardings(p int) {
	for key, value := range c.kind(p, prefixForwarding, 9) {
		ino, n := inoOf(key), c.inodes[inoOf(key)]
		at, err := decodeForwarding(value)
		switch {
		case err != nil:
			continue
		case int(ino.Partition()) != p:
			c.report("inode %d: partition %d has a forwarding for it, but is not its home", ino, p)
			continue
		case n == nil:
			c.report("inode %d: its home, partition %d, says that it is in partition %d, but it is nowhere", ino, p, at)
		case int(n.at) == p:
			c.report("inode %d is at home, in partition %d, which says that it is in partition %d", ino, p, at)
		case n.at != at:
			c.report("inode %d is in partition %d: its home, partition %d, says that it is in partition %d", ino, n.at, p, at)
		}
		c.forwarded[ino] = true
	}
}

func (c *forestChecker) readOrphans(p int) {
	for key := range c.kind(p, prefixOrphan, 9) {
		ino := inoOf(key)
		if int(ino.Partition()) != p {
			continue // home has one too, which counts
		}
		c.orphans[ino] = true
		if n := c.inodes[ino]; n != nil && n.nlink > 0 {
			c.report("inode %d in partition %d has %d links: its home, partition %d, takes it for an orphan", ino, n.at, n.nlink, p)
		}
	}
}

func (c *forestChecker) readEntries(p int) {
	for key, value := range c.kind(p, prefixDirent, 10) {
		dir, name := inoOf(key), string(key[9:])
		e, err := decodeDirent(name, value)
		if err != nil {
			continue
		}
		n := c.inodes[e.ino]
		if n == nil && c.promised[e.ino] {
			continue
		}
		if n == nil {
			c.report("entry %q of directory %d in partition %d names inode %d, which is nowhere", name, dir, p, e.ino)
			continue
		}
		n.links++
		switch {
		case n.kind != e.kind:
			c.report("entry %q of directory %d in partition %d names inode %d as %s: in partition %d it is %s",
				name, dir, p, e.ino, kindName(e.kind), n.at, kindName(n.kind))
		case n.kind == posix.TypeDir && n.parent != dir:
			c.report("directory %d in partition %d says that it is in directory %d, but it is entry %q of directory %d in partition %d",
				n.ino, n.at, n.parent, name, dir, p)
		}
	}
}

// home checks that the home of n knows where it is, and that it has no name.
func (c *forestChecker) home(n *placed) {
	home := n.ino.Partition()
	if int(home) >= len(c.newest) || n.ino.Counter() == 0 || n.ino.Counter() > c.newest[home] {
		c.report("inode %d in partition %d was never made by its home, partition %d", n.ino, n.at, home)
		return
	}
	if n.at == home {
		return
	}
	if !c.forwarded[n.ino] && !c.released[n.ino] {
		c.report("inode %d is in partition %d: its home, partition %d, does not say so", n.ino, n.at, home)
	}
	if n.nlink == 0 && !c.orphans[n.ino] && !c.unnamed[n.ino] && !c.released[n.ino] {
		c.report("inode %d in partition %d has no links: its home, partition %d, does not know, and nobody tells it", n.ino, n.at, home)
	}
}

// links checks the number of entries that name n. Check checks the other links of directories, which depend
// on the names in them.
func (c *forestChecker) links(n *placed) {
	switch {
	case n.kind != posix.TypeDir:
		if n.links != n.nlink {
			c.report("inode %d in partition %d has %d links: %d entries name it", n.ino, n.at, n.nlink, n.links)
		}
	case isRoot(n.ino) && n.links <= 1: // that of partition 0 has no name, the others may have one
	case n.nlink > 0 && n.links != 1, n.nlink == 0 && n.links != 0:
		c.report("directory %d in partition %d has %d links: %d entries name it", n.ino, n.at, n.nlink, n.links)
	}
}

// climb follows the parents of a directory to one that is known to be below the root.
func (c *forestChecker) climb(n *placed) {
	var path []*placed
	for n.kind == posix.TypeDir && n.nlink > 0 && !isRoot(n.ino) && n.climb == unclimbed {
		n.climb = climbing
		path = append(path, n)
		up := c.inodes[n.parent]
		switch {
		case up == nil:
			c.report("directory %d in partition %d: directory %d, where it should be, is nowhere", n.ino, n.at, n.parent)
		case up.kind != posix.TypeDir || up.nlink == 0:
			c.report("directory %d in partition %d: inode %d, where it should be, is no directory any more in partition %d", n.ino, n.at, up.ino, up.at)
		case up.climb == climbing:
			c.reportCycle(path[slices.Index(path, up):])
		default:
			n = up
		}
	}
	for _, p := range path {
		p.climb = climbed
	}
}

// reportCycle reports directories each of which is in the next one.
func (c *forestChecker) reportCycle(cycle []*placed) {
	slices.SortFunc(cycle, func(a, b *placed) int { return cmp.Compare(a.ino, b.ino) })
	var b strings.Builder
	for i, n := range cycle {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%d in partition %d", n.ino, n.at)
	}
	c.report("directories that are inside each other, cut off from the root: %s", b.String())
}

// checkRules compares the rules beside the directories with the table of partition 0. A row of a directory
// that does not exist any more is harmless.
func (c *forestChecker) checkRules() {
	table := c.readTable()
	for p := range c.stores {
		for key, value := range c.kind(p, prefixRule, 9) {
			dir := inoOf(key)
			if c.checkRule(p, dir, value, table[dir]) {
				delete(table, dir)
			}
		}
		for key, value := range c.kind(p, prefixTask, 9) {
			if _, err := decodeTask(inoOf(key), value); err != nil {
				c.report("task of directory %d in partition %d does not decode: %v", inoOf(key), p, err)
			}
		}
	}
	for dir := range table {
		if n := c.inodes[dir]; n != nil && n.nlink > 0 {
			c.report("directory %d in partition %d does not have the rule that is in the table of partition %d", dir, n.at, tablePartition)
		}
	}
}

// readTable returns the encoded rules of the table.
func (c *forestChecker) readTable() map[posix.Ino][]byte {
	table := map[posix.Ino][]byte{}
	for p := range c.stores {
		for key, value := range c.kind(p, prefixPlacement, 9) {
			row, err := decodePlacement(inoOf(key), value)
			switch {
			case err != nil:
				c.report("placement of directory %d in partition %d does not decode: %v", inoOf(key), p, err)
			case p != tablePartition:
				c.report("placement of directory %d is in partition %d, not in the table of partition %d", row.Dir, p, tablePartition)
			default:
				table[row.Dir] = row.Rule.Append(nil)
			}
		}
	}
	return table
}

// checkRule checks the rule beside dir in partition p. row is the rule in the table; nil: there is none. It
// reports whether dir is in p.
func (c *forestChecker) checkRule(p int, dir posix.Ino, rule, row []byte) bool {
	n := c.inodes[dir]
	switch _, err := DecodeRule(rule); {
	case err != nil:
		c.report("rule of directory %d in partition %d does not decode: %v", dir, p, err)
	case n == nil || int(n.at) != p || n.kind != posix.TypeDir:
		c.report("partition %d has a rule for directory %d, which is not there", p, dir)
		return false
	case n.nlink == 0: // nothing is made in it any more
	case row == nil:
		c.report("directory %d in partition %d has a rule that is not in the table of partition %d", dir, p, tablePartition)
	case !bytes.Equal(row, rule):
		c.report("directory %d in partition %d has another rule than the table of partition %d", dir, p, tablePartition)
	}
	return true
}

func kindName(kind posix.Mode) string {
	switch kind {
	case posix.TypeDir:
		return "a directory"
	case posix.TypeRegular:
		return "a file"
	case posix.TypeSymlink:
		return "a symbolic link"
	}
	return fmt.Sprintf("a special file (%o)", kind)
}
