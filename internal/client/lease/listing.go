package lease

import (
	"slices"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// listing is the entries of a whole directory as of a place of the order. A later change of a name in the
// directory ends it. The attributes of its entries may be old.
type listing struct {
	entries []meta.Entry
	last    uint64 // the last cookie that the directory has given
	asOf    uint64
}

// Listing returns the entries of a directory with fewer than limit entries, if a client that has seen this
// state of the partition may use them, and the cache knows the attributes of all its inodes in this
// partition. last is the last cookie that the directory has given. It counts as a use of the directory and of
// the attributes.
func (c *Cache) Listing(dir posix.Ino, limit uint64, seen ask.Seen) (entries []meta.Entry, last uint64, ok bool) {
	if !c.reaches(seen) {
		return nil, 0, false
	}
	d := c.use(dir, false)
	if d == nil || d.listing == nil || uint64(len(d.listing.entries)) >= limit {
		return nil, 0, false
	}
	entries = slices.Clone(d.listing.entries)
	for i := range entries {
		e := &entries[i]
		if e.Attr.Nlink == 0 { // it is in another partition
			continue
		}
		if e.Attr, ok = c.attrs.get(e.Attr.Ino); !ok {
			return nil, 0, false
		}
	}
	return entries, d.listing.last, true
}
