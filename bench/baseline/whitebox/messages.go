package whitebox

import (
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// A frame is a sequence of packets: the kind, then its fields. The frame has the sender.
type kind uint8

const (
	kindMulticast kind = 1 + iota // to leaders: id, route, after, payload
	kindAccept                    // by leaders: the same, and the local timestamp
	kindAck                       // ACCEPT_ACK, to leaders: id
	kindDeliver                   // by leaders, to their followers: id, final timestamp
	kindDelivered                 // to leaders: all up to a position is delivered
	kindForget                    // by leaders, to their followers: all up to a position is delivered everywhere
)

// maxNumber bounds timestamps and sequence numbers from outside, so that computations with them cannot
// overflow.
const maxNumber = 1 << 62

// packet is any of the above; a kind uses the fields that it names.
type packet struct {
	kind    kind
	id      multicast.MessageID
	ts      multicast.Timestamp // local or final; of a position
	route   []byte              // the destination groups, encoded (package routes)
	after   multicast.Timestamp
	payload []byte
}

// append encodes p.
func (p *packet) append(b []byte) []byte {
	b = varint.AppendUint(append(b, byte(p.kind)), p.id.Sender)
	b = varint.AppendUint(b, p.id.Seq)
	switch p.kind {
	case kindMulticast, kindAccept:
		b = varint.AppendUint(varint.AppendBytes(b, p.route), p.after)
		b = varint.AppendBytes(b, p.payload)
		if p.kind == kindMulticast {
			return b
		}
	case kindAck:
		return b
	}
	return varint.AppendUint(b, p.ts)
}

// read decodes the next packet of a frame into p. Route and payload alias the frame. The error is the
// reader's.
func (p *packet) read(r *varint.Reader) {
	*p = packet{kind: kind(r.Uint8())}
	p.id = multicast.MessageID{Sender: multicast.ProcessID(r.Uint32()), Seq: r.Uint(maxNumber)}
	switch p.kind {
	case kindMulticast:
		p.readContent(r)
	case kindAccept:
		p.readContent(r)
		p.readTimestamp(r)
	case kindAck:
	case kindDeliver, kindDelivered, kindForget:
		p.readTimestamp(r)
	default:
		r.Fail()
	}
}

func (p *packet) readContent(r *varint.Reader) {
	p.route, p.after, p.payload = r.Bytes(), multicast.Timestamp(r.Uint(maxNumber)), r.Bytes()
}

// readTimestamp reads a timestamp that a clock has given: it is not 0.
func (p *packet) readTimestamp(r *varint.Reader) {
	if p.ts = multicast.Timestamp(r.Uint(maxNumber)); p.ts == 0 {
		r.Fail()
	}
}

func (p *packet) position() multicast.Position {
	return multicast.Position{Final: p.ts, ID: p.id}
}
