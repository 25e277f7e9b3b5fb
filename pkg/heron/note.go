package heron

import (
	"hash/crc32"
	"time"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/lane"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// maxAsk is the maximum number of addresses that a note asks for.
const maxAsk = 16

// meeting is the state of a process in the latest common request of two groups: an entry of the paper's
// coordination memory.
type meeting struct {
	count    uint64 // of common requests up to this one
	place    uint64 // of this one in the log of the writer's group
	executed bool   // state 2 of the paper
}

// note has all information that a process sends to another one. A new note overwrites the last one. Each
// field only grows, or belongs to a number that only grows.
type note struct {
	meeting
	ask      uint64 // number of the question
	wanted   [maxAsk]ObjectID
	answered uint64 // number of the peer's question
	slots    [maxAsk]uint32
	attempt  uint64 // of the state transfer that this process needs; a lagger's entry of the paper's statesync
	need     uint64 // the place that the state must cover; 0: no transfer is needed
	taken    uint64 // chunks of the peer that this process has taken, of attempt
}

const noteSize = 8 + 4*8 + maxAsk*8 + maxAsk*4 + 4*8

func (n *note) encode() []byte {
	b := make([]byte, 8, noteSize)
	state := n.count << 1
	if n.executed {
		state |= 1
	}
	for _, x := range []uint64{state, n.place, n.ask, n.answered, n.attempt, n.need, n.taken, 0} {
		b = le.AppendUint64(b, x)
	}
	for _, id := range n.wanted {
		b = le.AppendUint64(b, uint64(id))
	}
	for _, slot := range n.slots {
		b = le.AppendUint32(b, slot)
	}
	le.PutUint32(b, crc32.Checksum(b[8:], castagnoli))
	le.PutUint32(b[4:], 1) // a note of zeros is not valid
	return b
}

func decodeNote(b []byte) (n note, ok bool) {
	if le.Uint32(b[4:]) != 1 || crc32.Checksum(b[8:noteSize], castagnoli) != le.Uint32(b) {
		return note{}, false
	}
	state := le.Uint64(b[8:])
	n.count, n.executed, n.place = state>>1, state&1 == 1, le.Uint64(b[16:])
	n.ask, n.answered = le.Uint64(b[24:]), le.Uint64(b[32:])
	n.attempt, n.need, n.taken = le.Uint64(b[40:]), le.Uint64(b[48:]), le.Uint64(b[56:])
	for i := range n.wanted {
		n.wanted[i] = ObjectID(le.Uint64(b[72+8*i:]))
	}
	for i := range n.slots {
		n.slots[i] = le.Uint32(b[72+8*maxAsk+4*i:])
	}
	return n, true
}

// peer is another process, or this one.
type peer struct {
	id       multicast.ProcessID
	group    multicast.GroupID
	received note // the latest note from the peer
	landed   note // the latest note to the peer that has landed
	next     note // the note to the peer that is under way
	want     note // the note that must be written next
	notes    *lane.Lane
	reads    *lane.Lane // of its objects
	// Of a member of the own group:
	chunks *lane.Lane // to its buffer
	help   helping
	past   intake
}

// Landed implements lane.Owner, for notes.
func (p *peer) Landed(lane.Flight, *fabric.Completion) { p.landed = p.next }

// Failed implements lane.Owner.
func (p *peer) Failed(lane.Flight) {}

// readNotes reads the notes of all processes. A note that was written in part is read again later.
func (c *Core) readNotes() {
	var b [noteSize]byte
	for _, p := range c.list {
		c.memory[regionOf(noteRegion, p.id)].Load(0, b[:])
		n, ok := decodeNote(b[:])
		if !ok || n == p.received {
			continue
		}
		if n.count < p.received.count || n.ask < p.received.ask || n.attempt < p.received.attempt {
			c.stats.Malformed++
			continue
		}
		if n.attempt != p.received.attempt || n.need != p.received.need {
			p.help = helping{since: c.now}
		}
		p.received = n
		c.answer(p)
	}
}

// writeNotes writes the changed notes.
func (c *Core) writeNotes() {
	for _, p := range c.list {
		if p.id == c.cfg.Self {
			continue
		}
		p.want.meeting = c.meetings[p.group]
		if p.want != p.landed && !p.notes.Busy() && p.notes.Ready() {
			p.next = p.want
			p.notes.Post(fabric.Op{Data: p.next.encode(), Notify: true}, 0, 0)
		}
	}
}

// reached counts the members of a group that have reached or executed a request, and reports whether they are
// a quorum, and whether they are all.
func (c *Core) reached(g *multicast.Group, count uint64, executed bool) (quorum, all bool) {
	n := 0
	for _, id := range g.Members {
		if m := c.meetingOf(c.peers[id]); m.count > count || m.count == count && (m.executed || !executed) {
			n++
		}
	}
	return n >= g.Quorum(), n == len(g.Members)
}

// meetingOf returns the latest common request with a process, according to its last note.
func (c *Core) meetingOf(p *peer) meeting {
	if p.id == c.cfg.Self {
		return c.meetings[p.group]
	}
	return p.received.meeting
}

// wakeAfter requests a step after a time since an event, and reports whether the time has passed.
func (c *Core) wakeAfter(since, after time.Duration) bool {
	if c.now >= since+after {
		return true
	}
	c.lanes.WakeAt(since + after)
	return false
}
