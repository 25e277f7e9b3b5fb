package meta

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/globalfs/globalfs/internal/invariant"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// The rule of a directory is stored beside the directory and moves with it, because a command that makes an
// entry needs it. Partition 0 has a second copy of all rules, each with the partition to which its directory
// was to be moved. This is the table that operators read.

// Limits of a Rule.
const (
	MaxSpread = 256 // partitions of one directory
	MaxRegion = 255 // bytes of a region's name
)

// MaxRows bounds the rows in the answer to one OpRules or OpTasks.
const MaxRows = 256

// tablePartition is the partition with the table of placements.
const tablePartition = 0

func ruleKey(ino posix.Ino) []byte      { return numberKey(prefixRule, uint64(ino)) }
func placementKey(ino posix.Ino) []byte { return numberKey(prefixPlacement, uint64(ino)) }

// IsZero reports whether r is empty. An empty rule removes the rule of a directory.
func (r *Rule) IsZero() bool { return len(r.Spread) == 0 && r.Region == "" }

// check refuses a rule that cannot be followed.
func (r *Rule) check() posix.Code {
	if len(r.Spread) > MaxSpread || len(r.Region) > MaxRegion || !utf8.ValidString(r.Region) {
		return posix.EINVAL
	}
	if strings.ContainsFunc(r.Region, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return posix.EINVAL
	}
	seen := make(map[uint16]bool, len(r.Spread))
	for _, p := range r.Spread {
		if seen[p] {
			return posix.EINVAL
		}
		seen[p] = true
	}
	return posix.OK
}

// rule returns the rule of a directory, if it has one.
func (m *Machine) rule(dir posix.Ino) (Rule, bool) {
	b := m.keys.Get(ruleKey(dir))
	if b == nil {
		return Rule{}, false
	}
	r, err := DecodeRule(b)
	invariant.Check(err == nil, "stored rule of %d: %v", dir, err)
	return r, true
}

// setRule stores the rule of a directory; an empty rule removes it.
func (m *Machine) setRule(dir posix.Ino, r *Rule) {
	if r.IsZero() {
		m.keys.Delete(ruleKey(dir))
		return
	}
	m.keys.Set(ruleKey(dir), r.Append(nil))
}

// wantedRule decodes the rule in an OpPlace. No data means an empty rule.
func (c *Command) wantedRule() (Rule, posix.Code) {
	if len(c.Data) == 0 {
		return Rule{}, posix.OK
	}
	r, err := DecodeRule(c.Data)
	if err != nil {
		return Rule{}, posix.EINVAL
	}
	return r, r.check()
}

// place executes an OpPlace whose directory and the table are both in this partition.
func (m *Machine) place(c *Command) Result {
	s := m.look(c)
	switch code := s.checkPlace(c); {
	case code != posix.OK:
		return failed(code)
	case m.cfg.Partition != tablePartition:
		return Result{Code: posix.EREMOTE, Number: uint64(m.cfg.Partition), Attr: posix.Attr{Ino: c.Ino}}
	}
	m.placeHere(c)
	m.placeTable(c)
	return Result{Attr: s.from.Attr}
}

// placeHere stores the rule of c beside the directory. checkPlace has accepted c.
func (m *Machine) placeHere(c *Command) {
	r, code := c.wantedRule()
	invariant.Check(code == posix.OK, "rule of %d: %v", c.Ino, code)
	m.setRule(c.Ino, &r)
	m.fillFor(&r)
	if c.Flags&PlaceMove == 0 {
		return
	}
	// If the directory stays here, there is something to move only if it was being moved elsewhere before:
	// the inodes that were moved already must come back.
	if _, underway := m.task(c.Ino); underway || c.Target != m.cfg.Partition {
		m.addTask(c.Ino, c.Target)
	}
}

// placeTable stores the rule of c in the table. checkPlace has accepted c at the partition of the directory.
func (m *Machine) placeTable(c *Command) {
	r, code := c.wantedRule()
	invariant.Check(code == posix.OK, "rule of %d: %v", c.Ino, code)
	if r.IsZero() {
		m.keys.Delete(placementKey(c.Ino))
		return
	}
	m.keys.Set(placementKey(c.Ino), r.Append(varint.AppendUint(nil, c.Target)))
}

func decodePlacement(dir posix.Ino, b []byte) (Placement, error) {
	r := varint.NewReader(b)
	p := Placement{Dir: dir, Target: r.Uint16(), Rule: readRule(r)}
	return p, r.Done()
}

func (m *Machine) ruleOf(c *Command) Result {
	n, code := m.inode(c.Ino)
	switch {
	case code != posix.OK:
		return failed(code)
	case !n.Mode.IsDir():
		return failed(posix.ENOTDIR)
	}
	r, _ := m.rule(c.Ino)
	return Result{Attr: n.Attr, Data: r.Append(nil)}
}

// rules returns a page of the table.
func (m *Machine) rules(c *Command) Result {
	var page []Placement
	for key, value := range m.rowsAfter(prefixPlacement, c) {
		p, err := decodePlacement(inoOf(key), value)
		invariant.Check(err == nil, "stored placement of %d: %v", inoOf(key), err)
		page = append(page, p)
	}
	return Result{Data: AppendPlacements(nil, page), Number: uint64(len(page))}
}
