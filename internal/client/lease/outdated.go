package lease

import "github.com/globalfs/globalfs/internal/posix"

// outdated remembers the places of recent changes, for answers that arrive after the stream has reported a
// change that they do not include (L2).
type outdated struct {
	floor uint64 // changes up to this place may be forgotten
	names map[Name]uint64
	dirs  map[posix.Ino]uint64 // any name
	all   map[posix.Ino]uint64 // all names
	attrs map[posix.Ino]uint64 // the attributes
}

func (o *outdated) reset(floor uint64) {
	*o = outdated{
		floor: floor, names: map[Name]uint64{}, dirs: map[posix.Ino]uint64{}, all: map[posix.Ino]uint64{}, attrs: map[posix.Ino]uint64{},
	}
}

func (o *outdated) note(at Name, place uint64) {
	if len(o.names) >= maxOutdated {
		o.reset(place)
	}
	o.names[at], o.dirs[at.Dir] = max(o.names[at], place), max(o.dirs[at.Dir], place)
}

func (o *outdated) noteAll(dir posix.Ino, place uint64) {
	if len(o.all) >= maxOutdated {
		o.reset(place)
	}
	o.dirs[dir], o.all[dir] = max(o.dirs[dir], place), max(o.all[dir], place)
}

func (o *outdated) noteAttr(ino posix.Ino, place uint64) {
	if len(o.attrs) >= maxOutdated {
		o.reset(place)
	}
	o.attrs[ino] = max(o.attrs[ino], place)
}

// attr returns the place of the last change of the attributes of an inode, or a higher one.
func (o *outdated) attr(ino posix.Ino) uint64 { return max(o.floor, o.attrs[ino]) }

// name returns the place of the last change of a name, or a higher one.
func (o *outdated) name(at Name) uint64 { return max(o.floor, o.names[at], o.all[at.Dir]) }

// any returns the place of the last change of any name in a directory, or a higher one.
func (o *outdated) any(dir posix.Ino) uint64 { return max(o.floor, o.dirs[dir]) }
