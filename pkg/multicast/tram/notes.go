package tram

import (
	"time"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/lane"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// peer is another process, or this one, as the writer and the reader of notes.
type peer struct {
	id       multicast.ProcessID
	node     fabric.NodeID // the node on which it runs
	life     uint32        // its present life, as far as this process knows
	received note          // its latest note
	written  note          // the latest note to it that was written
	lane     *lane.Lane
	next     note // the note that is being written
	due      time.Duration
	deferred bool          // some news may wait until due
	poke     time.Duration // time at which the note is written again; 0: never
}

func (c *site) newPeer(p multicast.ProcessID) *peer {
	x := &peer{id: p, node: fabric.NodeID(p)}
	for _, s := range c.cfg.Seats {
		if s.Process == p && s.Life > x.life {
			x.life, x.node = s.Life, s.Node
		}
	}
	if p == c.cfg.Self {
		x.life = c.cfg.Life
	}
	x.lane = c.lanes.New(x.node, regionOf(noteRegion, c.cfg.Self), x)
	return x
}

func (p *peer) Landed(lane.Flight, *fabric.Completion) { p.written = p.next }

func (p *peer) Failed(lane.Flight) {}

// readNotes reads the notes of all processes. A note that was written in part is read again later.
func (c *Core) readNotes() {
	var b [noteSize]byte
	for _, id := range c.ids {
		c.memory[regionOf(noteRegion, id)].Load(0, b[:])
		n, ok := decodeNote(b[:])
		p := c.peers[id]
		if !ok || n == p.received || n.life < p.life || n.life > maxLife {
			continue
		}
		if n.life > p.life {
			c.reborn(p, n.life)
		}
		p.received = n
		of := c.tree.of[id]
		if of == c.group {
			c.learnLosses(&n)
		}
		if f := c.clients[of.ID]; f != nil {
			if f.credit(n.taken, c.now); n.sealed {
				c.giveBack(f)
			}
		}
		for _, f := range c.children {
			if f.to == of {
				f.credit(n.fromUp, c.now)
			}
		}
	}
}

// writeNotes writes the news to each process that needs it. News that enables progress is urgent. Credits and
// reports of progress wait until they concern a quarter of a ring, or for NoteEvery.
func (c *Core) writeNotes() {
	for _, id := range c.ids {
		p := c.peers[id]
		want, urgent := c.wanted(p)
		c.poke(p)
		if want == p.written {
			p.deferred = false
			continue
		}
		if p.lane.Busy() {
			continue // the completion causes a step
		}
		if !urgent && !p.deferred {
			p.deferred, p.due = true, c.now+c.cfg.NoteEvery
		}
		if !urgent && c.now < p.due {
			c.lanes.WakeAt(p.due)
			continue
		}
		if p.lane.Ready() {
			p.next, p.deferred = want, false
			p.lane.Post(fabric.Op{Data: want.encode(), Notify: true}, 0, 0)
		}
	}
}

// wanted returns the note that a peer needs, and whether it is urgent.
func (c *Core) wanted(p *peer) (n note, urgent bool) {
	n = p.written
	quarter := uint64(c.cfg.Slots / 4)
	if m := c.memberOf(p.id); m != nil {
		n.ask, n.askFor, n.losses, n.lost = m.requested, m.loss, c.losses, c.lost
		n.applied, n.covered = c.ledger.applied, c.covered
		if c.promised != timestamp(1, 0) { // all know the first timestamp
			n.promised, n.promisedTo = c.promised, c.promisedTo
		}
		if c.cfg.Sync && p.id == c.holder(c.promised) {
			n.stored = c.stored
		}
		urgent = n.ask != p.written.ask || n.promised != p.written.promised || n.stored != p.written.stored || n.losses != p.written.losses ||
			n.lost != p.written.lost || n.applied >= p.written.applied+quarter || n.covered >= p.written.covered+quarter
	}
	taken, fromUp := c.ledger.state.clients[p.id], c.ledger.state.parent
	up := c.group.parent != nil && c.tree.of[p.id] == c.group.parent
	if c.role == leader || p.received.wait > 0 && taken >= p.received.wait {
		n.taken = max(n.taken, taken)
	}
	if c.ledger.state.sealed && (taken > 0 || p.received.wait > 0) {
		n.sealed, n.taken = true, max(n.taken, taken)
		urgent = urgent || !p.written.sealed
	}
	if up && (c.role == leader || p.received.waitUp > 0 && fromUp >= p.received.waitUp) {
		n.fromUp = max(n.fromUp, fromUp)
	}
	to := c.tree.of[p.id]
	n.wait = c.overdue(c.clients[to.ID], n.wait)
	if to.parent == c.group {
		n.waitUp = c.overdue(c.child(to.ID), n.waitUp)
	}
	if n != p.written || c.concerns(p) {
		n.life = c.cfg.Life
		urgent = urgent || n.life != p.written.life
	}
	return n, urgent || n.taken >= p.written.taken+quarter || n.fromUp >= p.written.fromUp+quarter
}

// overdue returns the index of the first entry of a flow that the other group should have ordered long ago;
// before if there is none that is later.
func (c *site) overdue(f *flow, before uint64) uint64 {
	switch {
	case f == nil || len(f.entries) == 0:
		return before
	case c.now < f.since+c.cfg.SuspectAfter:
		c.lanes.WakeAt(f.since + c.cfg.SuspectAfter)
		return before
	}
	return f.taken + 1
}

// pokeEvery, in multiples of SuspectAfter, is the time after which a note that says that this process waits
// is written again: its receiver may have restarted since, and know nothing of this process.
const pokeEvery = 4

// poke writes the note to a peer again while its group leaves entries of this process unordered.
func (c *Core) poke(p *peer) {
	at := c.tree.of[p.id]
	waits := func(f *flow, noted uint64) bool { return f != nil && len(f.entries) > 0 && noted > 0 }
	if !waits(c.clients[at.ID], p.written.wait) && !(at.parent == c.group && waits(c.child(at.ID), p.written.waitUp)) {
		p.poke = 0
		return
	}
	switch every := pokeEvery * c.cfg.SuspectAfter; {
	case p.poke == 0:
		p.poke = c.now + every
	case p.poke <= c.now && !p.lane.Busy():
		p.written, p.poke = note{}, c.now+every
		return
	}
	c.lanes.WakeAt(p.poke)
}
