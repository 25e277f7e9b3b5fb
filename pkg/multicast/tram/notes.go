package tram

import (
	"time"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/lane"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// peer is another process, or this one, as a writer and reader of notes.
type peer struct {
	id    multicast.ProcessID
	heard note // the latest from it
	said  note // the latest to it that has landed
	lane  *lane.Lane
	next  note // under way
	due   time.Duration
	late  bool // something may wait until due
}

func (c *Core) newPeer(p multicast.ProcessID) *peer {
	x := &peer{id: p}
	x.lane = c.lanes.New(fabric.NodeID(p), regionOf(noteRegion, c.cfg.Self), x)
	return x
}

func (p *peer) Landed(lane.Flight, *fabric.Completion) { p.said = p.next }

func (p *peer) Failed(lane.Flight) {}

// hear takes in the notes of all processes. One that has landed in part is read again later.
func (c *Core) hear() {
	var b [noteSize]byte
	for _, id := range c.ids {
		c.memory[regionOf(noteRegion, id)].Load(0, b[:])
		n, ok := decodeNote(b[:])
		p := c.peers[id]
		if !ok || n == p.heard {
			continue
		}
		p.heard = n
		of := c.tree.of[id]
		if f := c.clients[of.ID]; f != nil {
			f.credit(n.taken, c.now)
		}
		for _, f := range c.children {
			if f.to == of {
				f.credit(n.fromUp, c.now)
			}
		}
	}
}

// say tells every process the news that it needs. News that lets others go on is urgent; credits and progress
// wait until a quarter of a ring has gathered, or for NoteEvery.
func (c *Core) say() {
	for _, id := range c.ids {
		p := c.peers[id]
		want, urgent := c.wanted(p)
		if want == p.said {
			p.late = false
			continue
		}
		if p.lane.Busy() {
			continue // its end makes a step
		}
		if !urgent && !p.late {
			p.late, p.due = true, c.now+c.cfg.NoteEvery
		}
		if !urgent && c.now < p.due {
			c.lanes.WakeAt(p.due)
			continue
		}
		if p.lane.Ready() {
			p.next, p.late = want, false
			p.lane.Post(fabric.Op{Data: want.encode(), Notify: true}, 0, 0)
		}
	}
}

// wanted gives the news that a peer needs.
func (c *Core) wanted(p *peer) (n note, urgent bool) {
	n = p.said
	quarter := uint64(c.cfg.Slots / 4)
	if m := c.memberOf(p.id); m != nil {
		n.ask, n.promised, n.applied = m.asked, c.promised, c.ledger.applied
		if c.promised == timestamp(1, 0) {
			n.promised = p.said.promised // all know it
		}
		urgent = n.ask != p.said.ask || n.promised != p.said.promised || n.applied >= p.said.applied+quarter
	}
	taken, fromUp := c.ledger.state.clients[p.id], c.ledger.state.parent
	up := c.group.parent != nil && c.tree.of[p.id] == c.group.parent
	if c.role == leader || p.heard.wait > 0 && taken >= p.heard.wait {
		n.taken = max(n.taken, taken)
	}
	if up && (c.role == leader || p.heard.waitUp > 0 && fromUp >= p.heard.waitUp) {
		n.fromUp = max(n.fromUp, fromUp)
	}
	to := c.tree.of[p.id]
	n.wait = c.overdue(c.clients[to.ID], n.wait)
	if to.parent == c.group {
		n.waitUp = c.overdue(c.child(to.ID), n.waitUp)
	}
	return n, urgent || n.taken >= p.said.taken+quarter || n.fromUp >= p.said.fromUp+quarter
}

// overdue is the first entry of a flow that the other group should have taken long ago, or the one before.
func (c *Core) overdue(f *flow, before uint64) uint64 {
	switch {
	case f == nil || len(f.entries) == 0:
		return before
	case c.now < f.since+c.cfg.SuspectAfter:
		c.lanes.WakeAt(f.since + c.cfg.SuspectAfter)
		return before
	}
	return f.taken + 1
}
