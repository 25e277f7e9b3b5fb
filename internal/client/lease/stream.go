package lease

import (
	"maps"
	"time"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/posix"
)

// stream is the position of the cache in the changes of a partition.
type stream struct {
	attached   bool // Take was called
	live       bool // the stream was not interrupted since the last Take
	history    uint64
	from, mark uint64          // place and mark up to which the replica has reported
	upTo       uint64          // at least from; own updates may have moved it further
	own        map[uint64]bool // places of own updates after from; true: the stream must report a change there
}

// reaches reports whether a client that has seen this state may use cached names (L1).
func (s *stream) reaches(seen ask.Seen) bool {
	return s.attached && s.live && seen.History == s.history && seen.Count <= s.upTo && seen.LastOpen() == 0
}

// HasReached reports whether the stream has reported all changes of a state, apart from its open places.
func (s *stream) HasReached(seen ask.Seen) bool {
	return s.attached && s.live && seen.History == s.history && seen.Count <= s.upTo
}

// UpTo returns the place as of which the cached names are the state of the partition.
func (s *stream) UpTo() uint64 { return s.upTo }

// IsLive reports whether the stream exists and was not interrupted.
func (s *stream) IsLive() bool { return s.attached && s.live }

// Cut records that the replica does not answer. Cached names are not used until the next Take.
func (s *stream) Cut() { s.live = false }

// Resume continues the stream of another cache from a place that it has reached. The cache knows nothing of
// earlier states.
func (c *Cache) Resume(history, from, mark uint64) {
	c.attached, c.history, c.from, c.mark, c.upTo = true, history, from, mark, from
	c.own = map[uint64]bool{}
	c.reset(true)
}

// Place returns the place up to which the stream was reported, with its history and mark; ok is false before
// the first Take.
func (c *Cache) Place() (history, from, mark uint64, ok bool) {
	return c.history, c.from, c.mark, c.attached && c.attrs.reported
}

// advance moves upTo over own updates that come directly after it (L3).
func (s *stream) advance() {
	for place := s.upTo + 1; ; place++ {
		if _, ok := s.own[place]; !ok {
			return
		}
		s.upTo = place
	}
}

// Watching returns the next request to watch, with all directories and attributes of the cache as its
// interest. It resets Grown. The answer to the first request must not wait: nothing is cached before.
func (c *Cache) Watching(linger time.Duration) ask.Watching {
	w := ask.Watching{History: c.history, From: c.from, Mark: c.mark, Linger: linger, Attrs: true}
	if !c.attached {
		w.Linger = 0
	}
	n := len(c.dirs) + len(c.attrs.known)
	if c.all, c.grown = n > maxPrecise, false; c.all {
		w.Interest = ask.AllInterest()
		return w
	}
	w.Interest = ask.NewInterest(n)
	for dir := range c.dirs {
		w.Interest.Add(dir)
	}
	for ino := range c.attrs.known {
		w.Interest.Add(ino)
	}
	return w
}

// Grown reports whether directories or attributes were added since the last Watching.
func (c *Cache) Grown() bool { return c.grown }

// Effects are the names and the attributes that an own update may have changed.
type Effects struct {
	Names   []Name
	Attrs   []posix.Ino
	Certain bool // it has changed some of them
}

// Executed applies an own update that a partition has executed alone at a place. Its outcome may be stored
// afterwards (Learn, LearnAttr).
func (c *Cache) Executed(place ask.Seen, e Effects) {
	if !c.attached || place.History != c.history || place.Count <= c.from {
		return
	}
	for _, at := range e.Names {
		c.changeName(at, place.Count)
	}
	for _, ino := range e.Attrs {
		c.changeAttr(ino, place.Count)
	}
	if len(c.own) < maxOwn {
		c.own[place.Count] = e.Certain && (len(e.Names) > 0 || c.attrs.reported)
		c.advance()
	}
}

// Take applies an answer to Watching. It returns the changes by others; all means that every name and
// attribute may have changed.
func (c *Cache) Take(x *ask.Changes) (foreign []ask.Change, all bool) {
	switch {
	case x.Lost || !c.attached || x.History != c.history || c.isMissing(x):
		return nil, c.restart(x)
	case x.From == c.from && x.Attrs != c.attrs.reported: // a replica of another version
		return nil, c.restart(x)
	case x.From != c.from:
		return nil, false // of an older request
	case x.To < x.From: // the replica is behind: it does not know of newer changes
		c.live = false
		return nil, false
	}
	for i := range x.List {
		ch := &x.List[i]
		if !ch.Own {
			foreign = append(foreign, *ch)
		}
		c.change(ch)
	}
	c.live, c.from, c.mark = true, x.To, x.Mark
	c.upTo = max(c.upTo, x.To)
	maps.DeleteFunc(c.own, func(place uint64, _ bool) bool { return place <= x.To })
	c.advance()
	return foreign, false
}

// isMissing reports whether own changes of names are missing in an answer: the partition has lost them (L4).
func (c *Cache) isMissing(x *ask.Changes) bool {
	if x.From != c.from {
		return false
	}
	reported := map[uint64]bool{}
	for i := range x.List {
		if x.List[i].Own {
			reported[x.List[i].Place] = true
		}
	}
	for place, named := range c.own {
		if named && place <= x.To && !reported[place] {
			return true
		}
	}
	return false
}

// restart forgets all names and attributes, and continues from the end of an answer.
func (c *Cache) restart(x *ask.Changes) (all bool) {
	all = c.attached
	c.attached, c.live, c.history, c.from, c.mark, c.upTo = true, true, x.History, x.To, x.Mark, x.To
	c.own = map[uint64]bool{}
	c.reset(x.Attrs)
	return all
}
