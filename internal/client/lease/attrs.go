package lease

import (
	"container/list"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/posix"
)

// attrs are the cached attributes of inodes.
type attrs struct {
	reported bool // the stream reports changes of attributes; otherwise none are cached
	known    map[posix.Ino]*list.Element
	order    list.List // of *attr, the most recently used in front
}

// attr is the attributes of an inode as of a place of the order.
type attr struct {
	posix.Attr
	asOf uint64
	own  bool // the attributes are the result of an own update
}

func (a *attrs) reset(reported bool) {
	a.reported, a.known = reported, map[posix.Ino]*list.Element{}
	a.order.Init()
}

// get returns the attributes of an inode and marks them as used last.
func (a *attrs) get(ino posix.Ino) (posix.Attr, bool) {
	e := a.known[ino]
	if e == nil {
		return posix.Attr{}, false
	}
	a.order.MoveToFront(e)
	return e.Value.(*attr).Attr, true
}

// set stores attributes, unless newer ones are known. It reports whether the inode was not known before.
func (a *attrs) set(now attr) (added bool) {
	if e := a.known[now.Ino]; e != nil {
		if known := e.Value.(*attr); known.asOf <= now.asOf {
			now.own = now.own || known.own && known.Attr == now.Attr
			*known = now
			a.order.MoveToFront(e)
		}
		return false
	}
	a.known[now.Ino] = a.order.PushFront(&now)
	for a.order.Len() > maxAttrs {
		delete(a.known, a.order.Remove(a.order.Back()).(*attr).Ino)
	}
	return true
}

// drop removes attributes that are older than a place.
func (a *attrs) drop(ino posix.Ino, place uint64) {
	if e := a.known[ino]; e != nil && e.Value.(*attr).asOf < place {
		a.order.Remove(e)
		delete(a.known, ino)
	}
}

// Attr returns the cached attributes of an inode, if they are not older than the state of the partition that
// the client has seen (L1).
func (c *Cache) Attr(ino posix.Ino, seen ask.Seen) (posix.Attr, bool) {
	if !c.reaches(seen) {
		return posix.Attr{}, false
	}
	return c.attrs.get(ino)
}

// Holds reports whether the attributes of are the newest ones of their inode, as far as the cache knows. Take
// reports each later change.
func (c *Cache) Holds(of *posix.Attr) bool {
	e := c.attrs.known[of.Ino]
	return c.attached && c.live && e != nil && e.Value.(*attr).Attr == *of
}

// HasChanged reports whether the attributes of are not the newest ones of their inode, as far as the cache
// knows: it has others, or the stream has reported a change of the inode. The cache keeps no attributes of an
// inode without a name, and HasChanged is false for it.
func (c *Cache) HasChanged(of *posix.Attr) bool {
	return c.attached && c.live && of.Nlink > 0 && !c.Holds(of) && (c.attrs.known[of.Ino] != nil || c.outdated.attrs[of.Ino] > 0)
}

// IsOwn reports whether of are the newest attributes of the inode in the cache, and the result of an own
// update.
func (c *Cache) IsOwn(of *posix.Attr) bool {
	return c.Holds(of) && c.attrs.known[of.Ino].Value.(*attr).own
}

// LearnAttr stores the attributes of an inode in the answer of a replica, as of a place of the order. It
// ignores inodes without a name, because the partition may remove them at any time.
func (c *Cache) LearnAttr(of *posix.Attr, asOf ask.Seen) { c.learnAttr(of, asOf, false) }

func (c *Cache) learnAttr(of *posix.Attr, asOf ask.Seen, own bool) {
	if of.Nlink == 0 || !c.attrs.reported || asOf.History != c.history || !c.attached || c.outdated.attr(of.Ino) > asOf.Count {
		return
	}
	if c.attrs.set(attr{*of, asOf.Count, own}) {
		c.grow()
	}
}

// IsAttrOutdated reports whether the stream has reported a change of attributes that an answer as of a place
// does not include.
func (c *Cache) IsAttrOutdated(ino posix.Ino, asOf ask.Seen) bool {
	return c.attached && asOf.History == c.history && c.outdated.attr(ino) > max(asOf.Count, c.outdated.floor)
}

// changeAttr applies a change of the attributes of an inode at a place of the order.
func (c *Cache) changeAttr(ino posix.Ino, place uint64) {
	if c.attrs.reported {
		c.outdated.noteAttr(ino, place)
		c.attrs.drop(ino, place)
	}
}
