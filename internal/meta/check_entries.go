package meta

import (
	"iter"

	"github.com/globalfs/globalfs/internal/posix"
)

// entryChecks compare the two keys of each entry, which are in two ranges of the store. Both ranges are in
// the order of the directories. They are read side by side, so that the names of one directory at a time
// are in memory.
type entryChecks struct {
	dir   posix.Ino        // the directory whose names are read
	names map[string]entry // the entries that were read by name, and not by cookie

	next       func() (key, value []byte, more bool) // reads the entries by cookie
	key, value []byte                                // the next entry by cookie
	more       bool                                  // there is one
}

// cookieKeyLength is the length of the key of an entry by cookie.
const cookieKeyLength = 17

// readEntries checks all entries.
func (c *checker) readEntries(keys Reader) {
	var end func()
	c.entries.next, end = iter.Pull2(keys.Scan([]byte{prefixCookie}, []byte{prefixCookie + 1}))
	defer end()
	c.nextCookie()
	c.read(keys, []pass{{prefixDirent, 10, c.dirent}})
	c.endDirectory()
	for ; c.entries.more; c.nextCookie() {
		c.cookie(c.entries.key, c.entries.value)
	}
}

// dirent checks an entry by name.
func (c *checker) dirent(key, value []byte) {
	ino, name := inoOf(key), string(key[9:])
	if ino != c.entries.dir {
		c.endDirectory()
		c.entries.dir = ino
	}
	dir := c.directory(ino)
	e, err := decodeDirent(name, value)
	if err != nil || dir == nil || checkName(name) != posix.OK || isDots(name) {
		c.report("entry %q of %d: it does not decode (%v), or its name or its directory is none", name, ino, err)
		return
	}
	c.entries.names[name] = e
	dir.entries++
	if e.kind == posix.TypeDir {
		dir.subdirs++
	}
	n := c.inodes[e.ino]
	if n == nil && c.isElsewhere(e.ino) {
		return
	}
	if n == nil || n.mode.Type() != e.kind {
		c.report("entry %q of %d: inode %d of type %o is not there", name, ino, e.ino, e.kind)
		return
	}
	n.links++
	if n.dir != nil && n.dir.parent != ino {
		c.report("directory %d: its parent is %d, but %d names it", e.ino, n.dir.parent, ino)
	}
}

// endDirectory compares the names of a directory with its cookies, and reports the cookies of all directories
// before it that have no names.
func (c *checker) endDirectory() {
	x := &c.entries
	for ; x.more && inoOf(x.key) <= x.dir; c.nextCookie() {
		c.cookie(x.key, x.value)
	}
	if len(x.names) > 0 {
		c.report("directory %d: %d entries have no cookie", x.dir, len(x.names))
		clear(x.names)
	}
}

// nextCookie reads the next entry by cookie.
func (c *checker) nextCookie() {
	x := &c.entries
	for {
		if x.key, x.value, x.more = x.next(); !x.more || len(x.key) >= cookieKeyLength {
			return
		}
		c.report("key %x is too short", x.key)
	}
}

// cookie checks an entry by cookie, after all names of its directory were read.
func (c *checker) cookie(key, value []byte) {
	ino := inoOf(key)
	dir := c.directory(ino)
	e, err := decodeCookie(placeOf(key), value)
	if err != nil || dir == nil || ino != c.entries.dir || c.entries.names[e.name] != e {
		c.report("cookie %d of %d: %q has no entry like it", e.cookie, ino, e.name)
		return
	}
	if e.cookie < firstCookie || e.cookie > dir.cookie {
		c.report("cookie %d of %d was never given", e.cookie, ino)
	}
	delete(c.entries.names, e.name)
}
