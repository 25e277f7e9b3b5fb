package multiring

import (
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// A frame is a sequence of packets: the kind, then its fields. The frame has the sender.
type kind uint8

const (
	kindPropose kind = 1 + iota // to a coordinator: content
	kindValue                   // along a ring: rank, slot, content
	kindSkip                    // along a ring: rank, first slot, number of slots
	kindDecided                 // along a ring: rank, number of slots decided from the start on
)

// maxNumber bounds slots, timestamps and sequence numbers from outside, so that computations with them cannot
// overflow.
const maxNumber = 1 << 60

// packet is any of the above; a kind uses the fields that it names.
type packet struct {
	kind  kind
	rank  uint8 // of the ring: 0 the group's, 1 the global one
	slot  uint64
	count uint64

	// The content: the route is the destination groups, encoded (package routes).
	id      multicast.MessageID
	route   []byte
	after   multicast.Timestamp
	payload []byte
}

// append encodes p.
func (p *packet) append(b []byte) []byte {
	b = append(b, byte(p.kind))
	if p.kind != kindPropose {
		b = varint.AppendUint(append(b, p.rank), p.slot)
	}
	switch p.kind {
	case kindSkip:
		b = varint.AppendUint(b, p.count)
	case kindPropose, kindValue:
		b = varint.AppendUint(varint.AppendUint(b, p.id.Sender), p.id.Seq)
		b = varint.AppendUint(varint.AppendBytes(b, p.route), p.after)
		b = varint.AppendBytes(b, p.payload)
	}
	return b
}

// read decodes the next packet of a frame into p. Route and payload alias the frame. The error is the
// reader's.
func (p *packet) read(r *varint.Reader) {
	*p = packet{kind: kind(r.Uint8())}
	switch p.kind {
	case kindPropose:
		p.readContent(r)
	case kindValue:
		p.readSlot(r)
		p.readContent(r)
	case kindSkip:
		p.readSlot(r)
		p.count = r.Uint(maxNumber)
	case kindDecided:
		p.readSlot(r)
	default:
		r.Fail()
	}
}

func (p *packet) readSlot(r *varint.Reader) {
	p.rank, p.slot = uint8(r.Uint(1)), r.Uint(maxNumber)
}

func (p *packet) readContent(r *varint.Reader) {
	p.id = multicast.MessageID{Sender: multicast.ProcessID(r.Uint32()), Seq: r.Uint(maxNumber)}
	p.route, p.after, p.payload = r.Bytes(), multicast.Timestamp(r.Uint(maxNumber)), r.Bytes()
}
