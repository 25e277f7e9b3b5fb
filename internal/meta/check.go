package meta

import (
	"fmt"
	"slices"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// Check reads all stored metadata of one partition, and describes each place that violates an invariant of
// the package comment; none if the state is sound. It needs memory for every inode, entry and block. CheckAll
// checks the invariants that span several partitions.
func Check(keys Keys) []string {
	c, ok := checkPartition(keys)
	if ok {
		c.totals()
	}
	return c.problems
}

// checkPartition checks each key on its own.
func checkPartition(keys Keys) (*checker, bool) {
	c := &checker{
		inodes:      map[posix.Ino]*checked{},
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
	for _, pass := range []struct {
		prefix byte
		length int // minimum length of the key
		look   func(key, value []byte)
	}{
		{prefixReserved, 9, c.reservation},
		{prefixPeer, peerKeyLength, c.exchange},
		{prefixForwarding, 9, c.forwarding},
		{prefixUndecided, 9, c.undecidedCommand},
		{prefixPost, postKeyLength, c.post},
		{prefixInode, 9, c.inode},
		{prefixDirent, 10, c.dirent},
		{prefixCookie, 17, c.cookie},
		{prefixExtent, 17, c.extent},
		{prefixXattr, 10, c.xattr},
		{prefixOrphan, 9, c.orphan},
		{prefixRule, 9, c.rule},
		{prefixDropped, 9, c.drop},
		{prefixBlock, 17, c.block},
		{prefixLock, lockKeyLength, c.fileLock},
		{prefixShards, 1, c.shardsOf},
	} {
		for key, value := range keys.Scan([]byte{pass.prefix}, []byte{pass.prefix + 1}) {
			if len(key) < pass.length {
				c.report("key %x is too short", key)
				continue
			}
			pass.look(key, value)
		}
	}
	return c, true
}

// checked is an inode with the counts that were made for it.
type checked struct {
	inode
	links   uint64 // number of entries that name it
	entries uint64 // number of names in it
	subdirs uint64
	rooted  bool
	byName  map[string]entry
	bytes   uint64 // bytes in its extents
	end     uint64 // end of its last extent
	names   uint64
	orphan  bool
}

type checker struct {
	partition   uint16
	state       state
	inodes      map[posix.Ino]*checked
	forwardings map[posix.Ino]uint16
	undecided   map[posix.Ino]bool // inodes that undecided commands concern
	reserved    map[uint64]uint64  // bits of the reserved numbers, by the first of each key
	posted      map[uint16]uint64  // numbers of the newest posts, by destination
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
	c.inodes[n.Ino] = &checked{inode: n, byName: map[string]entry{}}
}

func (c *checker) dirent(key, value []byte) {
	dir, name := c.inodes[inoOf(key)], string(key[9:])
	e, err := decodeDirent(name, value)
	if err != nil || dir == nil || !dir.Mode.IsDir() || checkName(name) != posix.OK || isDots(name) {
		c.report("entry %q of %d: it does not decode (%v), or its name or its directory is none", name, inoOf(key), err)
		return
	}
	dir.byName[name] = e
	dir.entries++
	if e.kind == posix.TypeDir {
		dir.subdirs++
	}
	n := c.inodes[e.ino]
	if n == nil && c.isElsewhere(e.ino) {
		return
	}
	if n == nil || n.Mode.Type() != e.kind {
		c.report("entry %q of %d: inode %d of type %o is not there", name, dir.Ino, e.ino, e.kind)
		return
	}
	n.links++
	if n.Mode.IsDir() && n.parent != dir.Ino {
		c.report("directory %d: its parent is %d, but %d names it", n.Ino, n.parent, dir.Ino)
	}
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
	if _, err := DecodeRule(value); err != nil || n == nil || !n.Mode.IsDir() {
		c.report("rule of %d: it does not decode (%v), or there is no such directory", inoOf(key), err)
	}
}

func (c *checker) cookie(key, value []byte) {
	dir := c.inodes[inoOf(key)]
	e, err := decodeCookie(placeOf(key), value)
	if err != nil || dir == nil || dir.byName[e.name] != e {
		c.report("cookie %d of %d: %q has no entry like it", e.cookie, inoOf(key), e.name)
		return
	}
	if e.cookie < firstCookie || e.cookie > dir.cookie {
		c.report("cookie %d of %d was never given", e.cookie, dir.Ino)
	}
	delete(dir.byName, e.name)
}

func (c *checker) extent(key, value []byte) {
	n := c.inodes[inoOf(key)]
	e, err := decodeExtent(placeOf(key), value)
	if err != nil || n == nil || !n.Mode.IsRegular() {
		c.report("extent %x: it does not decode (%v) or is no file's", key, err)
		return
	}
	if e.Offset < n.end || e.end() > n.Size {
		c.report("extent [%d, %d) of %d: the one before ends at %d, the file at %d", e.Offset, e.end(), n.Ino, n.end, n.Size)
	}
	if len(e.Data) > MaxLiteral || uint64(e.Skip)+e.Length > MaxBlock {
		c.report("extent [%d, %d) of %d is too long", e.Offset, e.end(), n.Ino)
	}
	n.end = e.end()
	n.bytes += e.Length
	if e.Data == nil {
		c.holds(n.Ino, e.Block)
	}
}

func (c *checker) xattr(key, _ []byte) {
	n := c.inodes[inoOf(key)]
	if n == nil {
		c.report("xattr %q of %d: there is no such inode", key[9:], inoOf(key))
		return
	}
	n.names += uint64(len(key)) - 9 + 1
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
		bytes += n.Bytes
		c.links(n)
		if n.Bytes != n.bytes || n.inode.names != n.names {
			c.report("inode %d says %d bytes and %d of xattr names: there are %d and %d", ino, n.Bytes, n.inode.names, n.bytes, n.names)
		}
		if n.orphan != (n.Nlink == 0) && !(n.orphan && c.undecided[ino]) {
			c.report("inode %d: %d links, orphan: %t", ino, n.Nlink, n.orphan)
		}
	}
	if uint64(len(inos)) != c.state.inodes || bytes != c.state.bytes {
		c.report("state: %d inodes and %d bytes are counted, %d and %d are there", c.state.inodes, c.state.bytes, len(inos), bytes)
	}
	c.blockTotals()
}

// links checks the entries that name n, as far as they are here, and the entries that n has.
func (c *checker) links(n *checked) {
	if len(n.byName) > 0 {
		c.report("directory %d: %d entries have no cookie", n.Ino, len(n.byName))
	}
	if !n.Mode.IsDir() {
		if n.links > uint64(n.Nlink) {
			c.report("inode %d: %d links, should be %d", n.Ino, n.Nlink, n.links)
		}
		return
	}
	want := 2 + n.subdirs
	if n.Nlink == 0 {
		want = 0
	}
	if uint64(n.Nlink) != want {
		c.report("inode %d: %d links, should be %d", n.Ino, n.Nlink, want)
	}
	names := uint64(0)
	if n.Nlink > 0 && !isRoot(n.Ino) && c.inodes[n.parent] != nil {
		names = 1
	}
	if n.links != names {
		c.report("directory %d: %d entries name it", n.Ino, n.links)
	}
	if n.Size != n.entries || n.Nlink == 0 && n.entries > 0 {
		c.report("directory %d says %d entries with %d links: %d are there", n.Ino, n.Size, n.Nlink, n.entries)
	}
	if n.Nlink > 0 && !c.rooted(n) {
		c.report("directory %d is not below the root", n.Ino)
	}
}

func isRoot(ino posix.Ino) bool { return ino.Counter() == 1 }

// rooted reports whether the parents of n lead to a root or to another partition. It remembers the inodes for
// which they do.
func (c *checker) rooted(n *checked) bool {
	var path []*checked
	for !isRoot(n.Ino) && !n.rooted {
		path = append(path, n)
		parent := c.inodes[n.parent]
		if parent == nil && c.isElsewhere(n.parent) {
			break
		}
		if n = parent; n == nil || len(path) > len(c.inodes) {
			return false
		}
	}
	for _, p := range path {
		p.rooted = true
	}
	return true
}
