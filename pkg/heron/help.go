package heron

import (
	"maps"
	"slices"
	"time"

	"github.com/globalfs/globalfs/pkg/fabric"
	"github.com/globalfs/globalfs/pkg/fabric/lane"
)

// helping is the help that a lagger of the group gets from this process.
type helping struct {
	since  time.Duration // when the lagger's request was received
	state  []byte        // the state to send; nil: not collected yet
	chunks uint64        // number of chunks of state
	posted uint64
	landed uint64 // number of chunks that have landed
}

// chunkWriter is a peer as the owner of the lane to its chunks.
type chunkWriter peer

// Landed implements lane.Owner. The mark is the attempt, the term the chunk.
func (w *chunkWriter) Landed(f lane.Flight, _ *fabric.Completion) {
	if f.Mark == w.received.attempt {
		w.help.landed = max(w.help.landed, uint64(f.Term)+1)
	}
}

// Failed implements lane.Owner.
func (w *chunkWriter) Failed(f lane.Flight) {
	if f.Mark == w.received.attempt {
		w.help.posted = w.help.landed
	}
}

// serve helps the laggers of the group: the next member after a lagger first, another one after each timeout
// (Algorithm 3, lines 8 to 22).
func (c *Core) serve() {
	members := c.group.Members
	self := slices.Index(members, c.cfg.Self)
	for i, id := range members {
		p := c.peers[id]
		if id == c.cfg.Self || p.received.need == 0 || c.last < p.received.need {
			continue
		}
		rank := (self - i - 1 + len(members)) % len(members)
		if !c.wakeAfter(p.help.since, time.Duration(rank)*c.cfg.HelpAfter) {
			continue
		}
		if p.help.state == nil {
			c.stats.Helped++
			p.help.state = c.collect(p.received.need)
			size := c.cfg.ChunkSize - chunkHeader
			p.help.chunks = uint64((len(p.help.state) + size - 1) / size)
		}
		c.send(p)
	}
}

// collect returns the state of this process before the request that it has not executed, with the objects
// that were written with a tag or a higher one (line 12; T2, T3).
func (c *Core) collect(need uint64) []byte {
	s := state{last: c.last, meetings: maps.Clone(c.meetings)}
	if c.current != nil && c.current.phase != leaving {
		maps.Copy(s.meetings, c.current.before)
	}
	for _, slot := range c.objects.since(need) {
		id := c.objects.ids[slot]
		s.records = append(s.records, record{slot: slot, id: id, version: c.objects.newest(id)})
	}
	return s.encode(c.cfg.Groups)
}

// send writes chunks into the buffer of a lagger, as far as it has room (lines 13 to 15).
func (c *Core) send(p *peer) {
	h := &p.help
	for h.posted < h.chunks && h.posted < p.received.taken+chunkWindow && p.chunks.Ready() {
		size := c.cfg.ChunkSize - chunkHeader
		part := h.state[int(h.posted)*size : min(len(h.state), int(h.posted+1)*size)]
		last := uint64(0)
		if h.posted == h.chunks-1 {
			last = 1
		}
		b := encodeChunk(p.received.attempt, h.posted, last, part)
		p.chunks.Post(fabric.Op{At: int(h.posted%chunkWindow) * c.cfg.ChunkSize, Data: b, Notify: true}, p.received.attempt, uint32(h.posted))
		h.posted++
	}
}
