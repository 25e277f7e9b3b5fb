package onesided

import (
	"slices"

	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// The kinds of payloads of TRAM's messages.
const (
	kindProbe   = 1 + iota // nothing: see package documentation, idle groups
	kindPiece              // sender, number, index, count, bytes
	kindDurable            // a piece of a durable message
)

// pieceHeader is the most bytes of a piece before its content.
const pieceHeader = 1 + 5 + 10 + 4 + 4

// part is a message of which some pieces are delivered.
type part struct {
	id    multicast.MessageID
	first uint64 // the place of the first piece
	next  uint64 // the index of the next one
	count uint64
	bytes []byte
}

// span is the places of the pieces of a message.
type span struct{ first, last uint64 }

// pieces assembles messages from their pieces. All of its state is a function of the log, except for void and
// own.
type pieces struct {
	expireAfter uint64
	at          uint64                                    // the place of the last delivery
	last        uint64                                    // the place of the last message
	covered     uint64                                    // places up to here are durable in the state machine
	parts       map[multicast.ProcessID]*part             // by sender
	spans       []span                                    // of messages in several pieces that end behind covered
	own         map[multicast.MessageID]multicast.Message // messages of this process in several pieces that are not delivered
	void        []multicast.Message                       // of them, those that must be multicast again
}

func newPieces(covered, expireAfter uint64) pieces {
	return pieces{
		expireAfter: expireAfter, covered: covered,
		parts: map[multicast.ProcessID]*part{}, own: map[multicast.MessageID]multicast.Message{},
	}
}

// split returns the pieces of a message, each of which has room bytes at most.
func (p *pieces) split(m *multicast.Message, room int) (all [][]byte) {
	size := room - pieceHeader
	count := max(1, (len(m.Payload)+size-1)/size)
	if count > 1 {
		p.own[m.ID] = *m
	}
	for i := range count {
		b := make([]byte, 1, room)
		if b[0] = kindPiece; m.Durable {
			b[0] = kindDurable
		}
		b = varint.AppendUint(varint.AppendUint(b, m.ID.Sender), m.ID.Seq)
		b = varint.AppendUint(varint.AppendUint(b, uint64(i)), uint64(count))
		all = append(all, append(b, m.Payload[i*size:min(len(m.Payload), (i+1)*size)]...))
	}
	return all
}

// take processes the next delivery. It returns the message that is complete with it, if there is one.
func (p *pieces) take(d *multicast.Delivery) (m multicast.Message, complete bool) {
	p.at = uint64(d.Final)
	p.expire()
	from := d.ID.Sender
	r := varint.NewReader(d.Payload)
	kind := r.Uint8()
	id := multicast.MessageID{Sender: multicast.ProcessID(r.Uint64()), Seq: r.Uint64()}
	index, count := r.Uint64(), r.Uint64()
	if kind != kindPiece && kind != kindDurable || r.Err() != nil || index >= count {
		p.drop(from) // its sender has begun another message
		return m, false
	}
	if index == 0 {
		p.drop(from)
		p.parts[from] = &part{id: id, first: p.at, count: count}
	}
	x := p.parts[from]
	if x == nil || x.id != id || x.next != index || x.count != count || len(x.bytes)+r.Len() > multicast.MaxPayload {
		p.drop(from)
		return m, false
	}
	x.bytes = append(x.bytes, r.Rest()...)
	if x.next++; x.next < x.count {
		return m, false
	}
	delete(p.parts, from)
	if p.last = p.at; x.count > 1 {
		p.spans = append(p.spans, span{x.first, p.at})
	}
	return multicast.Message{ID: id, Payload: x.bytes, Durable: kind == kindDurable}, true
}

// expire drops the messages that have been incomplete for too long (P1).
func (p *pieces) expire() {
	for from, x := range p.parts {
		if p.at-x.first > p.expireAfter {
			p.drop(from)
		}
	}
	slices.SortFunc(p.void, func(a, b multicast.Message) int { return a.ID.Compare(b.ID) })
}

// drop makes the incomplete message of a sender void.
func (p *pieces) drop(from multicast.ProcessID) {
	x := p.parts[from]
	if x == nil {
		return
	}
	delete(p.parts, from)
	if m, ok := p.own[x.id]; ok {
		p.void = append(p.void, m)
	}
}

// delivered records that a message is complete.
func (p *pieces) delivered(id multicast.MessageID) { delete(p.own, id) }

// takeVoid returns the messages that must be multicast again.
func (p *pieces) takeVoid() []multicast.Message {
	all := p.void
	p.void = nil
	return all
}

// cover records the place up to which the state machine is durable. It returns the place up to which the
// log is not needed (P2). The latter may be higher: deliveries that complete no message do not reach the
// state machine.
func (p *pieces) cover(to uint64) uint64 {
	p.covered = max(p.covered, to)
	p.spans = slices.DeleteFunc(p.spans, func(s span) bool { return s.last <= p.covered })
	if to = p.covered; p.last <= to {
		to = max(to, p.at)
	}
	for _, s := range p.spans {
		to = min(to, s.first-1)
	}
	for _, x := range p.parts {
		to = min(to, x.first-1)
	}
	return to
}
