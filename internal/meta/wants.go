package meta

import (
	"strings"

	"github.com/globalfs/globalfs/internal/posix"
)

// An update of one partition needs no holds, since it is executed at one place of the order. It must not be
// executed while an undecided command has an incompatible hold: it would read state that the command changes,
// or change state on which a vote depends.

// Blocked reports whether an update of this partition alone meets a hold now. Then Apply returns EHELD and
// changes nothing.
func (m *Machine) Blocked(c *Command) bool {
	return len(m.undecided.about) > 0 && m.undecided.held(m.wanted(c)) || m.lacksNumbers(c)
}

// inNames has the facets of a directory that a change of a name in it reads or changes.
const inNames = facetPlace | facetContent

// wanted returns the state that a command of one partition reads and changes, in the form of holds.
func (m *Machine) wanted(c *Command) (w holdSet) {
	switch c.Op {
	case OpLock, OpTask, OpCollected:
	case OpMknod:
		w.facets(c.Ino, inNames|facetRule, 0)
		w.name(c.Ino, c.Name)
		if e, found := m.entry(c.Ino, c.Name); found && c.Flags&Truncate != 0 {
			m.wantsContent(&w, c, e.ino)
		}
	case OpLink:
		w.facets(c.Ino, facetPlace, facetLinks)
		w.facets(c.NewParent, inNames, 0)
		w.name(c.NewParent, c.NewName)
	case OpUnlink, OpRmdir:
		m.wantsName(&w, c.Ino, c.Name)
	case OpRename:
		m.wantsRename(&w, c)
	case OpPlace:
		w.facets(c.Ino, inNames, facetRule)
	case OpMove:
		w.facets(c.Child, 0, allFacets)
	case OpSetAttr:
		m.wantsAttr(&w, c)
	case OpSetXattr, OpRemoveXattr:
		w.facets(c.Ino, facetPlace, facetContent)
		if strings.HasPrefix(c.Name, aclXattr) {
			w.facets(c.Ino, 0, facetAccess)
		}
	default:
		m.wantsContent(&w, c, c.Ino)
	}
	return w
}

// aclXattr is the prefix of the names of xattrs that are ACLs.
const aclXattr = "system.posix_acl_"

// wantsName adds the state of a command that removes a name.
func (m *Machine) wantsName(w *holdSet, dir posix.Ino, name string) {
	w.facets(dir, inNames, 0)
	w.name(dir, name)
	e, found := m.entry(dir, name)
	if !found {
		return
	}
	w.facets(e.ino, facetPlace, facetLinks)
	if e.kind == posix.TypeDir {
		w.facets(e.ino, 0, facetContent) // a removed directory must be empty
	}
}

// wantsRename adds the state of a rename: both names, and the ways up if directories get other parents.
func (m *Machine) wantsRename(w *holdSet, c *Command) {
	moves := false
	for _, x := range []struct {
		dir  posix.Ino
		name string
	}{{c.Ino, c.Name}, {c.NewParent, c.NewName}} {
		w.facets(x.dir, inNames, 0)
		w.name(x.dir, x.name)
		e, found := m.entry(x.dir, x.name)
		if !found {
			continue
		}
		w.facets(e.ino, facetPlace, facetLinks)
		if e.kind != posix.TypeDir {
			continue
		}
		if c.Ino != c.NewParent {
			w.facets(e.ino, 0, facetParent)
			moves = true
		}
		if x.dir == c.NewParent && c.Flags&RenameExchange == 0 {
			w.facets(e.ino, 0, facetContent)
		}
	}
	if moves {
		*w = m.pinWays(*w, []posix.Ino{c.NewParent}, []posix.Ino{c.Ino})
	}
}

// wantsAttr adds the state of a SetAttr.
func (m *Machine) wantsAttr(w *holdSet, c *Command) {
	exclusive := facet(0)
	if c.Set&(SetMode|SetUID|SetGID) != 0 {
		exclusive |= facetAccess
	}
	if c.Set&(setTimes|setNow) != 0 {
		exclusive |= facetTimes
	}
	w.facets(c.Ino, facetPlace, exclusive)
	if c.Set&setContent != 0 {
		m.wantsContent(w, c, c.Ino)
	}
}

// wantsContent adds the state of a change of the content of a file, which may clear the set-id bits.
func (m *Machine) wantsContent(w *holdSet, c *Command, ino posix.Ino) {
	exclusive := facetContent
	kills := c.Authority != nil || c.Op == OpSetAttr && c.Set&KillSetID != 0
	if n, code := m.inode(ino); kills && code == posix.OK && n.Mode&(posix.SetUID|posix.SetGID) != 0 {
		exclusive |= facetAccess
	}
	w.facets(ino, facetPlace, exclusive)
}
