package lease

import (
	"container/list"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/meta"
	"github.com/globalfs/globalfs/internal/posix"
)

// Bounds of a cache.
const (
	maxDirectories = 1 << 10
	maxNames       = 1 << 16 // in all directories
	maxAttrs       = 1 << 15
	maxOutdated    = 1 << 12
	maxOwn         = 1 << 12
	// maxPrecise is the number of directories and attributes up to which a request to watch names them. With
	// more, every change counts as urgent; otherwise the request would have to be repeated for each new
	// inode.
	maxPrecise = 1 << 8
)

// Finding is the cache's knowledge of a name.
type Finding uint8

// The findings.
const (
	Unknown Finding = iota // a replica must be asked
	Absent
	Present
)

// Name is a name in a directory.
type Name struct {
	Dir  posix.Ino
	Name string
}

// Cache is the cache of one partition. It is not safe for concurrent use.
type Cache struct {
	stream
	outdated outdated
	attrs    attrs

	dirs  map[posix.Ino]*list.Element // of order
	order list.List                   // of *directory, the most recently used in front
	names int                         // number of names in all directories
	grown bool                        // directories or attributes were added since the last Watching
	all   bool                        // the last Watching asked for all changes, and named no inodes
}

// directory is the cache's knowledge of the names in a directory.
type directory struct {
	ino      posix.Ino
	names    map[string]entry
	complete bool // the directory has no names that are not cached
	misses   int  // number of absent names for which a replica was asked
	listing  *listing
}

// entry is the cache's knowledge of a name as of a place of the order.
type entry struct {
	finding Finding   // Unknown: the name may have changed at the place
	ino     posix.Ino // of a present name
	asOf    uint64
}

// New returns an empty cache. It answers nothing before the first Take.
func New() *Cache {
	c := &Cache{dirs: map[posix.Ino]*list.Element{}}
	c.reset(false)
	return c
}

// reset removes all names and attributes. The directories remain, because other code may cache names in them.
// attrs means that the stream reports changes of attributes from now on.
func (c *Cache) reset(attrs bool) {
	c.outdated.reset(c.from)
	c.attrs.reset(attrs)
	for e := c.order.Front(); e != nil; e = e.Next() {
		d := e.Value.(*directory)
		*d = directory{ino: d.ino, names: map[string]entry{}}
	}
	c.names = 0
}

// Find returns the cache's knowledge of a name, and the inode of a present name, for a client that has seen
// this state of the partition. It counts as a use of the directory.
func (c *Cache) Find(at Name, seen ask.Seen) (Finding, posix.Ino) {
	if !c.reaches(seen) {
		return Unknown, 0
	}
	d := c.use(at.Dir, false)
	if d == nil {
		return Unknown, 0
	}
	e, ok := d.names[at.Name]
	switch {
	case ok:
		return e.finding, e.ino
	case d.complete:
		return Absent, 0
	}
	return Unknown, 0
}

// Lags reports whether the client has seen more than the stream has reported, so that cached names cannot be
// used.
func (c *Cache) Lags(seen ask.Seen) bool { return c.attached && c.live && !c.reaches(seen) }

// Use makes the cache watch a directory whose names other code caches, such as the kernel.
func (c *Cache) Use(dir posix.Ino) { c.use(dir, true) }

// use returns a directory, and makes it the most recently used one. If the directory is not cached, use
// creates it if made is set, and returns nil otherwise.
func (c *Cache) use(dir posix.Ino, made bool) *directory {
	if e := c.dirs[dir]; e != nil {
		c.order.MoveToFront(e)
		return e.Value.(*directory)
	}
	if !made {
		return nil
	}
	d := &directory{ino: dir, names: map[string]entry{}}
	c.dirs[dir] = c.order.PushFront(d)
	c.grow()
	for c.order.Len() > maxDirectories {
		c.evict()
	}
	return d
}

// grow records that the next Watching names more inodes than the last one.
func (c *Cache) grow() { c.grown = c.grown || !c.all }

// evict forgets the least recently used directory.
func (c *Cache) evict() {
	d := c.order.Remove(c.order.Back()).(*directory)
	c.names -= len(d.names)
	delete(c.dirs, d.ino)
}

func (c *Cache) set(d *directory, name string, e entry) {
	before := len(d.names)
	d.names[name] = e
	c.names += len(d.names) - before
	for c.names > maxNames && c.order.Len() > 0 {
		c.evict()
	}
}

func (c *Cache) unset(d *directory, name string) {
	before := len(d.names)
	delete(d.names, name)
	c.names += len(d.names) - before
}

// Learn stores the answer of a replica to a lookup of a name, as of a place of the order. child is the inode;
// 0: the name is absent. It returns the number of absent names for which a replica was asked in this
// directory; 0 if all names of the directory are cached.
func (c *Cache) Learn(at Name, child posix.Ino, asOf ask.Seen) (misses int) {
	d := c.use(at.Dir, true)
	if asOf.History != c.history || !c.attached || c.outdated.name(at) > asOf.Count {
		return 0
	}
	if e, ok := d.names[at.Name]; !ok || e.asOf <= asOf.Count {
		c.set(d, at.Name, entryOf(child, asOf.Count))
	}
	if child == 0 && !d.complete {
		d.misses++
		return d.misses
	}
	return 0
}

func entryOf(child posix.Ino, asOf uint64) entry {
	if child == 0 {
		return entry{Absent, 0, asOf}
	}
	return entry{Present, child, asOf}
}

// IsOutdated reports whether the stream has reported a change of a name that an answer as of a place does not
// include.
func (c *Cache) IsOutdated(at Name, asOf ask.Seen) bool {
	return c.attached && asOf.History == c.history && c.outdated.name(at) > max(asOf.Count, c.outdated.floor)
}

// List stores all names of a directory as of a place of the order, and the last cookie that the directory has
// given. The caller does not change the entries any more.
func (c *Cache) List(dir posix.Ino, entries []meta.Entry, last uint64, asOf ask.Seen) {
	d := c.use(dir, true)
	if asOf.History != c.history || !c.attached || c.outdated.any(dir) > asOf.Count {
		return
	}
	for name, e := range d.names {
		if e.asOf <= asOf.Count {
			c.unset(d, name)
		}
	}
	d.complete, d.listing = true, &listing{entries: entries, last: last, asOf: asOf.Count}
	for i := range entries {
		e := &entries[i]
		if _, newer := d.names[e.Name]; !newer {
			c.set(d, e.Name, entryOf(e.Attr.Ino, asOf.Count))
		}
	}
}

// change applies a change at a place of the order.
func (c *Cache) change(x *ask.Change) {
	switch x.Kind {
	case meta.ChangedName:
		c.changeName(Name{x.Ino, x.Name}, x.Place)
	case meta.ChangedAttr:
		c.changeAttr(x.Ino, x.Place)
	default:
		c.changeAttr(x.Ino, x.Place)
		c.outdated.noteAll(x.Ino, x.Place)
		if e := c.dirs[x.Ino]; e != nil {
			d := e.Value.(*directory)
			c.names -= len(d.names)
			d.names, d.complete, d.listing = map[string]entry{}, false, nil
		}
	}
}

// changeName applies a change of a name at a place of the order.
func (c *Cache) changeName(at Name, place uint64) {
	c.outdated.note(at, place)
	e := c.dirs[at.Dir]
	if e == nil {
		return
	}
	d := e.Value.(*directory)
	if d.listing != nil && d.listing.asOf < place {
		d.listing = nil
	}
	switch old, ok := d.names[at.Name]; {
	case ok && old.asOf >= place:
	case d.complete:
		c.set(d, at.Name, entry{Unknown, 0, place})
	case ok:
		c.unset(d, at.Name)
	}
}
