package meta

import (
	"slices"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// An undecided command holds all state of this partition that its outcome reads or its effects write. So its
// vote stays true until Decide. An update that meets an incompatible hold has no effect and returns EHELD.
// Queries ignore holds.
//
// A hold is either on a name, and then exclusive, or on facets of an inode, shared or exclusive. Changes that
// commute share a facet: changes of entries add to or subtract from the links and the size of a directory,
// and times that are not set explicitly merge (inode.modified).
//
// This table lists the state that each check of an outcome reads, and the hold that keeps it. s = shared, x =
// exclusive.
//
//	check                           reads                                       held
//	sight.directory (scene.go)      the directory is here, has a name           s place, s links of it
//	sight.finds, enters (permit.go) mode, owner, group of a directory           s access of the directory
//	checkLink, checkRemove,
//	checkRename                     the entry of the name                       x the name
//	the client: Target of a rename  rule of the directory                       s rule of the directory
//	checkLink                       links of the inode                          x links
//	mayLink                         mode, owner, group of the inode             s access, if c has an Authority
//	mayTake                         sticky bit, owners of directory and inode   s access of both
//	checkMoves                      a directory that moves can be written to    s access
//	checkRemove, checkTypes         a directory is empty                        x content
//	checkLoops (way.go)             parents up to where both ways meet          s parent, s place of these
//	mayMove (ballot.go), move       where the inode is, its links               x all facets
//	take (combine.go)               all that the inode holds (export)           x all facets
//	where an inode arrives          its number is not in use, its forwarding    x all facets of the number
//	place, owns                     owner of the directory                      s access
//	actRename: task                 the moved directory has a rule              s rule
//	placeTable (place.go)           the row of the directory                    x rule of its number, at 0
//
// Effects write names (x the name), links and parent of an inode that gets, changes or loses a name (x links,
// and x parent of a directory that gets another one), and rules (x rule). Times of directories merge. Merging
// commutes with every command that does not set times: s times.
//
// Two things are not held. The number of links of a directory, which checkTypes compares with MaxLinks:
// undecided commands may exceed that bound by their number, and the field of 32 bits has room for them.
// Attributes in the answer that no check reads, such as the size of a file that is linked: they are those of
// the vote.

// facet is a part of an inode that can be held separately.
type facet uint8

const (
	facetPlace   facet = 1 << iota // the partition where it lives
	facetParent                    // of a directory: its parent
	facetAccess                    // mode, owner, group and ACLs
	facetTimes                     // times that a command sets
	facetRule                      // of a directory: its rule
	facetLinks                     // its names and their number
	facetContent                   // data and xattrs; of a directory: whether it is empty
	facetsEnd

	allFacets = facetsEnd - 1
	// pinned has the facets that are held, shared, of a directory in which a name is held.
	pinned = facetPlace | facetAccess | facetTimes | facetRule | facetLinks
	// onWay has the facets that are held, shared, of a directory on a way up.
	onWay = facetPlace | facetParent
)

// hold is on the name in directory ino if name is not empty, else on facets of ino.
type hold struct {
	ino       posix.Ino
	name      string
	shared    facet
	exclusive facet
}

// meets reports whether two commands cannot have h and other at the same time.
func (h *hold) meets(other *hold) bool {
	if h.ino != other.ino || h.name != other.name {
		return false
	}
	return h.name != "" || h.exclusive&(other.exclusive|other.shared) != 0 || h.shared&other.exclusive != 0
}

// holdSet has the holds of one command, or the holds that it wishes to have.
type holdSet []hold

func (s *holdSet) name(dir posix.Ino, name string) {
	if name != "" && !slices.ContainsFunc(*s, func(h hold) bool { return h.ino == dir && h.name == name }) {
		*s = append(*s, hold{ino: dir, name: name})
	}
}

func (s *holdSet) facets(ino posix.Ino, shared, exclusive facet) {
	for i := range *s {
		if h := &(*s)[i]; h.ino == ino && h.name == "" {
			h.shared |= shared
			h.exclusive |= exclusive
			return
		}
	}
	if shared|exclusive != 0 {
		*s = append(*s, hold{ino: ino, shared: shared, exclusive: exclusive})
	}
}

// meets reports whether a hold of s is incompatible with h.
func (s holdSet) meets(h *hold) bool {
	return slices.ContainsFunc(s, func(own hold) bool { return own.meets(h) })
}

func (s holdSet) append(b []byte) []byte {
	b = varint.AppendUint(b, uint64(len(s)))
	for i := range s {
		h := &s[i]
		b = varint.AppendUint(b, h.ino)
		b = varint.AppendBytes(b, h.name)
		b = varint.AppendUint(varint.AppendUint(b, uint8(h.shared)), uint8(h.exclusive))
	}
	return b
}

func readHolds(r *varint.Reader) (s holdSet) {
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		h := hold{ino: posix.Ino(r.Uint64()), name: r.String()}
		h.shared, h.exclusive = facet(r.Uint(uint64(allFacets))), facet(r.Uint(uint64(allFacets)))
		s = append(s, h)
	}
	return s
}
