package tram

import (
	"maps"
	"slices"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// positions are the numbers that a prefix of the group's log implies: how many entries of each input are
// ordered, and how many entries each child has got.
type positions struct {
	clients  map[multicast.ProcessID]uint64
	parent   uint64
	children map[multicast.GroupID]uint64
	sealed   bool // the prefix has a barrier
}

func newPositions() *positions {
	return &positions{clients: map[multicast.ProcessID]uint64{}, children: map[multicast.GroupID]uint64{}}
}

func (p *positions) clone() *positions {
	return &positions{clients: maps.Clone(p.clients), parent: p.parent, children: maps.Clone(p.children), sealed: p.sealed}
}

// ordered returns the number of entries of a source that are ordered.
func (p *positions) ordered(from multicast.ProcessID) uint64 {
	if from == 0 {
		return p.parent
	}
	return p.clients[from]
}

// add moves the positions past an entry.
func (p *positions) add(e *entry) {
	if e.from == 0 {
		p.parent = e.index
	} else {
		p.clients[e.from] = e.index
	}
	for _, c := range e.children {
		p.children[c.group] = c.index
	}
	p.sealed = p.sealed || e.message.Order == Barrier
}

// follows reports whether e can be the next entry after the prefix of p: it is the next entry of its source,
// and has the next slots of exactly the children on the paths to its destinations. An entry that a quorum
// holds always follows the prefix behind which it was ordered.
func (c *site) follows(p *positions, e *entry) bool {
	last := p.ordered(e.from)
	newLife := e.from != 0 && e.index > last && e.index == firstOf(lifeOf(e.index))
	if p.sealed || e.index != last+1 && !newLife || !c.acceptable(e.from, &e.message) {
		return false
	}
	return slices.Equal(e.children, c.childPositions(p, e.message.Dest))
}

// childPositions returns the next slots of the children on the paths to destinations.
func (c *site) childPositions(p *positions, dest []multicast.GroupID) (all []childPosition) {
	for _, child := range c.group.children {
		if c.tree.reaches(child, dest) {
			all = append(all, childPosition{child.ID, p.children[child.ID] + 1})
		}
	}
	return all
}

// acceptable reports whether a message may come from a source: from a client if its lca is this group, else
// from the parent.
func (c *site) acceptable(from multicast.ProcessID, m *multicast.Message) bool {
	lca := c.tree.lca(m.Dest)
	if lca == nil || c.tree.of[m.ID.Sender] == nil || !c.orderable(m) {
		return false
	}
	if from == 0 {
		return lca != c.group && lca.depth < c.group.depth && c.tree.reaches(c.group, m.Dest)
	}
	return lca == c.group && m.ID.Sender == from
}

// ledger is the group's log as this process keeps it: the applied entries that members may lack and, at a
// leader, the ordered entries after them.
type ledger struct {
	base       uint64     // entries up to here are dropped
	first      *positions // positions of the dropped prefix
	lastNeeded uint64     // the last delivery in the dropped prefix that the state machine needs
	most       uint64     // the state machine durably has the deliveries that it needs up to here; lastNeeded is never above
	own        multicast.GroupID
	entries    []*entry
	applied    uint64
	state      *positions // positions of the applied prefix
	tail       *positions // at a leader: positions with all entries
}

// last returns the number of the last entry.
func (l *ledger) last() uint64 { return l.base + uint64(len(l.entries)) }

// at returns the entry with a number.
func (l *ledger) at(n uint64) *entry { return l.entries[n-l.base-1] }

// push appends an entry.
func (l *ledger) push(e *entry) {
	l.entries = append(l.entries, e)
	if l.tail != nil {
		l.tail.add(e)
	}
}

// cut drops the entries that are not applied, when the process stops leading.
func (l *ledger) cut() {
	l.entries = l.entries[:l.applied-l.base]
	l.tail = nil
}

// trim drops the entries up to a number, which are applied.
func (l *ledger) trim(to uint64) {
	if to = min(to, l.applied); to > l.base {
		for i, e := range l.entries[:to-l.base] {
			if l.first.add(e); e.message.To(l.own) {
				l.lastNeeded = l.base + uint64(i) + 1
			}
		}
		l.lastNeeded = min(l.lastNeeded, l.most)
		l.entries = slices.Delete(l.entries, 0, int(to-l.base))
		l.base = to
	}
}
