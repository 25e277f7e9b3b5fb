package primcast

import "github.com/globalfs/globalfs/pkg/multicast"

// A T of any length comes in parts of about a frame (stream). This process has one request for a part on the
// way, and requests the next part when that one has ended. A second request would be answered with the same
// entries, and each of its frames with another request: the answers would multiply, and overflow a link.
// A part begins with the entry after the requested index. It ends with an ACK, BUMP or SILENT of the sender,
// which follows each answer. The frames of a part arrive in order, since links are FIFO. The first part comes
// with NEW-STATE. If there are two requests on the way nevertheless, the answer to the older one is not the
// part that was requested last, and causes no further request.
//
// When the link restarts, the request or the part may be lost. Then the source promises again (askAgain), or
// this process promises again and gets another NEW-STATE. The entries that have arrived are kept (continued);
// otherwise a long T would never arrive over a link that restarts from time to time.

// incoming is a T on its way to this process: T_max to a candidate, or T' to a process that has promised.
type incoming struct {
	source    *peer // the process that sends T; nil: no T is on its way
	epoch     Epoch
	from      uint64 // the own T and the incoming T have the same entries up to here
	known     uint64
	requested uint64 // the part that was requested last begins after this entry
	begun     bool   // the part has begun to arrive
	length    uint64 // length of T; all its entries must become known
	clock     multicast.Timestamp
	staged    []staged

	roster roster // of the new epoch
}

type staged struct {
	index uint64
	ts    multicast.Timestamp
	id    multicast.MessageID
}

func (in *incoming) takes(q *peer, e Epoch) bool { return in.source == q && in.epoch == e }

// continued returns the incoming T with which to continue. If next is the T of in after a restart of the
// link, the entries that have arrived are kept, because T only grows within an epoch (Lemma 2).
func (in *incoming) continued(next incoming) incoming {
	if in.takes(next.source, next.epoch) && in.from <= next.from && next.from <= in.known && in.known <= next.length {
		next.from, next.known, next.staged = in.from, in.known, in.staged
	}
	return next
}

// stage stores an entry of the incoming T.
func (c *Core) stage(p *entryPacket) {
	in := &c.incoming
	in.begun = in.begun || p.prev == in.requested
	switch {
	case p.index <= in.known:
		return // a repeated entry, which answers another request
	case p.index != in.known+1:
		c.stats.Gaps++ // the link restarts, or the other has forgotten the missing entries
		return
	}
	c.oracle.progressed(c.now)
	in.staged = append(in.staged, staged{index: p.index, ts: p.ts, id: p.id})
	in.known = p.index
	c.install()
}

// more requests the next part of T from q, if packet p ends the present part.
func (c *change) more(q *peer, p anyPacket) {
	switch p.(type) {
	case *ackPacket, *bumpPacket, *silentPacket:
	default:
		return
	}
	if in := &c.incoming; in.source == q && in.begun && in.known < in.length && in.known > in.requested {
		c.askPart()
	}
}

// askPart requests the part of the incoming T that follows the known entries.
func (c *change) askPart() {
	in := &c.incoming
	in.requested, in.begun = in.known, false
	in.source.frame = (&fetchLogPacket{epoch: in.epoch, known: in.known, decided: in.known}).append(in.source.frame)
}

// askAgain handles another promise of the source of T_max: the link to it has restarted, and the request may
// be lost. If the source has taken over the state of another member since, or has lost power, it does not
// have that T any more, and the candidate begins again.
func (c *Core) askAgain(q *peer, p *promise) {
	in := &c.incoming
	switch {
	case in.source != q || q == c.self:
	case in.epoch != p.current || in.length > p.length:
		c.incoming = incoming{}
	default:
		c.askPart()
	}
}
