package meta

import (
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// fileLock checks one key of a lock. It expects all keys by inode before the keys by session.
func (c *checker) fileLock(key, value []byte) {
	if len(key) != lockKeyLength || key[1] > lockBySession {
		c.report("key %x is not that of a lock", key)
		return
	}
	if key[1] == lockBySession {
		other := string(swapLockKey(key))
		if !c.locks[other] {
			c.report("lock %x is stored by session only", key)
		}
		delete(c.locks, other)
		return
	}
	c.locks[string(key)] = true
	r := varint.NewReader(value)
	l := readFileLock(key, r)
	if err := r.Done(); err != nil || l.Start > l.End || l.End > lastByte {
		c.report("lock %x: %x is no range", key, value)
		return
	}
	ino := inoOf(key[1:])
	if ino == c.lockedIno && l.Flock == c.lockedBy.Flock && l.sameOwner(&c.lockedBy) && l.Start <= c.lockedBy.End {
		c.report("inode %d: two locks of one owner at %d", ino, l.Start)
	}
	c.lockedIno, c.lockedBy = ino, l
}

// fileLockTotals reports the locks without a key by session, after all keys.
func (c *checker) fileLockTotals() {
	if len(c.locks) > 0 {
		c.report("%d locks are stored by inode only", len(c.locks))
	}
}

// lockChecks has the locks seen so far.
type lockChecks struct {
	locks     map[string]bool // keys by inode without their other key
	lockedIno posix.Ino
	lockedBy  FileLock // the last one
}
