package meta

import (
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// Check reads all stored metadata of one partition, and describes each place that violates an invariant of
// the package comment; none if the state is sound. It needs about 100 bytes of memory for each inode, and
// more for each block, and for each entry of one directory at a time. CheckAll checks the invariants that
// span several partitions.
func Check(keys Reader) []string {
	c, ok := checkPartition(keys)
	if ok {
		c.totals()
	}
	return c.problems
}

// checkPartition checks each key on its own.
func checkPartition(keys Reader) (*checker, bool) {
	c := &checker{
		inodes:      map[posix.Ino]*checked{},
		entries:     entryChecks{names: map[string]entry{}},
		forwardings: map[posix.Ino]uint16{},
		undecided:   map[posix.Ino]bool{},
		reserved:    map[uint64]uint64{},
		posted:      map[uint16]uint64{},
		lockChecks:  lockChecks{locks: map[string]bool{}},
		blockChecks: newBlockChecks(),
	}
	b := keys.Get(stateKey)
	if b == nil {
		c.report("there is no state")
		return c, false
	}
	var err error
	if c.partition, c.state, err = decodeState(b); err != nil {
		c.report("%v", err)
		return c, false
	}
	c.read(keys, []pass{
		{prefixReserved, 9, c.reservation},
		{prefixPeer, peerKeyLength, c.exchange},
		{prefixForwarding, 9, c.forwarding},
		{prefixUndecided, 9, c.undecidedCommand},
		{prefixPost, postKeyLength, c.post},
		{prefixInode, 9, c.inode},
	})
	c.readEntries(keys)
	c.read(keys, []pass{
		{prefixExtent, 17, c.extent},
		{prefixXattr, 10, c.xattr},
		{prefixOrphan, 9, c.orphan},
		{prefixRule, 9, c.rule},
		{prefixDropped, 9, c.drop},
		{prefixBlock, 17, c.block},
		{prefixLock, lockKeyLength, c.fileLock},
		{prefixShards, 1, c.shardsOf},
	})
	return c, true
}

// pass is the check of all keys of a kind.
type pass struct {
	prefix byte
	length int // minimum length of the key
	look   func(key, value []byte)
}

func (c *checker) read(keys Reader, passes []pass) {
	for _, pass := range passes {
		for key, value := range keys.Scan([]byte{pass.prefix}, []byte{pass.prefix + 1}) {
			if len(key) < pass.length {
				c.report("key %x is too short", key)
				continue
			}
			pass.look(key, value)
		}
	}
}

// checked is an inode with the counts that were made for it. There is one for each inode of the partition, so
// it is small.
type checked struct {
	mode          posix.Mode
	nlink         uint32
	size          uint64
	stated, found amounts     // according to the inode, and in the store
	end           uint64      // end of its last extent
	links         uint64      // number of entries that name it
	dir           *checkedDir // nil: it is no directory
	orphan        bool
}

// amounts are the bytes in the extents of an inode, and the bytes of the names of its xattrs.
type amounts struct{ bytes, names uint64 }

// checkedDir has the facts about an inode that is a directory.
type checkedDir struct {
	parent  posix.Ino
	cookie  uint64 // the highest cookie given so far
	entries uint64 // number of names in it
	subdirs uint64
	rooted  bool
}

type checker struct {
	partition   uint16
	state       state
	inodes      map[posix.Ino]*checked
	forwardings map[posix.Ino]uint16
	undecided   map[posix.Ino]bool // inodes that undecided commands concern
	reserved    map[uint64]uint64  // bits of the reserved numbers, by the first of each key
	posted      map[uint16]uint64  // numbers of the newest posts, by destination
	entries     entryChecks
	lockChecks
	blockChecks
	problems []string
}

func (c *checker) report(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

func (c *checker) inode(key, value []byte) {
	n, err := decodeInode(inoOf(key), value)
	if err != nil {
		c.report("%v", err)
		return
	}
	if n.Ino.Partition() == c.partition && (n.Ino.Counter() == 0 || n.Ino.Counter() > c.state.last) {
		c.report("inode %d was never made: the newest of partition %d is %d", n.Ino, c.partition, c.state.last)
	}
	if c.isReserved(n.Ino) {
		c.report("number %d is reserved and in use", n.Ino)
	}
	if at, forwarded := c.forwardings[n.Ino]; forwarded {
		c.report("inode %d is here and forwarded to partition %d", n.Ino, at)
	}
	x := &checked{mode: n.Mode, nlink: n.Nlink, size: n.Size, stated: amounts{n.Bytes, n.names}}
	if n.Mode.IsDir() {
		x.dir = &checkedDir{parent: n.parent, cookie: n.cookie}
	}
	c.inodes[n.Ino] = x
}

// isElsewhere reports whether an inode that is not here may be in another partition.
func (c *checker) isElsewhere(ino posix.Ino) bool {
	_, forwarded := c.forwardings[ino]
	return forwarded || ino.Partition() != c.partition || c.isReserved(ino)
}

func (c *checker) forwarding(key, value []byte) {
	ino := inoOf(key)
	at, err := decodeForwarding(value)
	if err != nil || ino.Partition() != c.partition || at == c.partition || isRoot(ino) {
		c.report("forwarding of %d to partition %d (%v)", ino, at, err)
	}
	if c.isReserved(ino) {
		c.report("number %d is reserved and in use, in partition %d", ino, at)
	}
	c.forwardings[ino] = at
}

func (c *checker) undecidedCommand(key, value []byte) {
	u, err := decodeUndecided(uint64(inoOf(key)), value)
	if err != nil {
		c.report("undecided command %d: %v", inoOf(key), err)
		return
	}
	for _, ino := range u.command.names() {
		c.undecided[ino] = true
	}
}

func (c *checker) post(key, value []byte) {
	to := partitionOf(key)
	if p, err := decodePost(key, value); err != nil || p.Number > c.posted[to] {
		c.report("post %d to partition %d, of %d: %v", p.Number, to, c.posted[to], err)
	}
}

func (c *checker) rule(key, value []byte) {
	n := c.inodes[inoOf(key)]
	if _, err := DecodeRule(value); err != nil || n == nil || n.dir == nil {
		c.report("rule of %d: it does not decode (%v), or there is no such directory", inoOf(key), err)
	}
}

func (c *checker) extent(key, value []byte) {
	ino := inoOf(key)
	n := c.inodes[ino]
	e, err := decodeExtent(placeOf(key), value)
	if err != nil || n == nil || !n.mode.IsRegular() {
		c.report("extent %x: it does not decode (%v) or is no file's", key, err)
		return
	}
	if e.Offset < n.end || e.end() > n.size {
		c.report("extent [%d, %d) of %d: the one before ends at %d, the file at %d", e.Offset, e.end(), ino, n.end, n.size)
	}
	if len(e.Data) > MaxLiteral || uint64(e.Skip)+e.Length > MaxBlock {
		c.report("extent [%d, %d) of %d is too long", e.Offset, e.end(), ino)
	}
	n.end = e.end()
	n.found.bytes += e.Length
	if e.Data == nil {
		c.holds(ino, e.Block)
	}
}

func (c *checker) xattr(key, _ []byte) {
	n := c.inodes[inoOf(key)]
	if n == nil {
		c.report("xattr %q of %d: there is no such inode", key[9:], inoOf(key))
		return
	}
	n.found.names += uint64(len(key)) - 9 + 1
}

func (c *checker) orphan(key, value []byte) {
	ino := inoOf(key)
	n := c.inodes[ino]
	_, forwarded := c.forwardings[ino]
	r := varint.NewReader(value)
	if r.Uint64(); n == nil && !forwarded || r.Done() != nil {
		c.report("orphan %d: there is no such inode, or its record does not decode", ino)
		return
	}
	if n != nil {
		n.orphan = true
	}
}

// totals runs the checks that need all keys to be read.
func (c *checker) totals() {
	c.fileLockTotals()
	var bytes uint64
	inos := make([]posix.Ino, 0, len(c.inodes))
	for ino := range c.inodes {
		inos = append(inos, ino)
	}
	slices.Sort(inos)
	for _, ino := range inos {
		n := c.inodes[ino]
		bytes += n.stated.bytes
		c.links(ino, n)
		if n.stated != n.found {
			c.report("inode %d says %d bytes and %d of xattr names: there are %d and %d", ino, n.stated.bytes, n.stated.names, n.found.bytes, n.found.names)
		}
		if n.orphan != (n.nlink == 0) && !(n.orphan && c.undecided[ino]) {
			c.report("inode %d: %d links, orphan: %t", ino, n.nlink, n.orphan)
		}
	}
	if uint64(len(inos)) != c.state.inodes || bytes != c.state.bytes {
		c.report("state: %d inodes and %d bytes are counted, %d and %d are there", c.state.inodes, c.state.bytes, len(inos), bytes)
	}
	c.blockTotals()
}

// links checks the entries that name n, as far as they are here, and the entries that n has.
func (c *checker) links(ino posix.Ino, n *checked) {
	dir := n.dir
	if dir == nil {
		if n.links > uint64(n.nlink) {
			c.report("inode %d: %d links, should be %d", ino, n.nlink, n.links)
		}
		return
	}
	want := 2 + dir.subdirs
	if n.nlink == 0 {
		want = 0
	}
	if uint64(n.nlink) != want {
		c.report("inode %d: %d links, should be %d", ino, n.nlink, want)
	}
	names := uint64(0)
	if n.nlink > 0 && !isRoot(ino) && c.inodes[dir.parent] != nil {
		names = 1
	}
	if n.links != names {
		c.report("directory %d: %d entries name it", ino, n.links)
	}
	if n.size != dir.entries || n.nlink == 0 && dir.entries > 0 {
		c.report("directory %d says %d entries with %d links: %d are there", ino, n.size, n.nlink, dir.entries)
	}
	if n.nlink > 0 && !c.rooted(ino, dir) {
		c.report("directory %d is not below the root", ino)
	}
}

func isRoot(ino posix.Ino) bool { return ino.Counter() == 1 }

// rooted reports whether the parents of a directory lead to a root or to another partition. It remembers the
// directories for which they do.
func (c *checker) rooted(ino posix.Ino, dir *checkedDir) bool {
	var path []*checkedDir
	for !isRoot(ino) && !dir.rooted {
		path = append(path, dir)
		ino = dir.parent
		if c.inodes[ino] == nil && c.isElsewhere(ino) {
			break
		}
		if dir = c.directory(ino); dir == nil || len(path) > len(c.inodes) {
			return false
		}
	}
	for _, p := range path {
		p.rooted = true
	}
	return true
}

// directory returns the facts about a directory; nil: the inode is none.
func (c *checker) directory(ino posix.Ino) *checkedDir {
	if n := c.inodes[ino]; n != nil {
		return n.dir
	}
	return nil
}
