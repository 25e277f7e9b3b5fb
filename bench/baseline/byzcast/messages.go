package byzcast

import (
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// A frame is a sequence of packets: the kind, then its fields. The frame has the sender.
type kind uint8

const (
	kindStart    kind = 1 + iota // to the leader of the lca: content
	kindForward                  // to the leader of a child, and in an instance: content
	kindAccept                   // to followers: instance, FORWARDs
	kindAccepted                 // to members: the instance up to which all are accepted
)

// maxNumber bounds numbers from outside, so that computations with them cannot overflow.
const maxNumber = 1 << 60

// packet is any of the above; a kind uses the fields that it names.
type packet struct {
	kind   kind
	number uint64 // of an instance

	// The content: the route is the destination groups, encoded (package routes).
	id      multicast.MessageID
	route   []byte
	payload []byte // or the FORWARDs of an instance
}

// append encodes p.
func (p *packet) append(b []byte) []byte {
	b = append(b, byte(p.kind))
	switch p.kind {
	case kindAccept:
		return varint.AppendBytes(varint.AppendUint(b, p.number), p.payload)
	case kindAccepted:
		return varint.AppendUint(b, p.number)
	}
	b = varint.AppendUint(varint.AppendUint(b, p.id.Sender), p.id.Seq)
	return varint.AppendBytes(varint.AppendBytes(b, p.route), p.payload)
}

// read decodes the next packet of a frame into p. Route and payload alias the frame. The error is the
// reader's.
func (p *packet) read(r *varint.Reader) {
	*p = packet{kind: kind(r.Uint8())}
	switch p.kind {
	case kindAccept:
		p.number, p.payload = r.Uint(maxNumber), r.Bytes()
	case kindAccepted:
		p.number = r.Uint(maxNumber)
	case kindStart, kindForward:
		p.id = multicast.MessageID{Sender: multicast.ProcessID(r.Uint32()), Seq: r.Uint(maxNumber)}
		p.route, p.payload = r.Bytes(), r.Bytes()
	default:
		r.Fail()
	}
}
