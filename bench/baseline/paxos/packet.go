package paxos

import (
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Kind is the kind of a packet or a command. A Member handles the unexported ones by itself.
type Kind uint8

const (
	kindStart     Kind = 1 + iota // to all destinations: id, route, after, payload
	kindAccept                    // by leaders, to their followers: instance, commands
	kindAccepted                  // to all members: instance
	kindDelivered                 // to leaders: all up to a position is delivered
	kindForget                    // by leaders, to their followers: all up to a position is delivered everywhere

	Soft     // packet by leaders: the local timestamp of a message before it is decided
	Hard     // packet: the local timestamp of a message as it was decided
	Assign   // command: give a message a local timestamp, above its After
	SyncSoft // command: the optimistic final timestamp of a message
	Final    // command: the final timestamp of a message
)

// maxNumber bounds timestamps and sequence numbers from outside, so that computations with them cannot
// overflow.
const maxNumber = 1 << 62

// packet is any packet, or a command; a kind uses the fields that it names.
type packet struct {
	kind    Kind
	id      multicast.MessageID
	ts      multicast.Timestamp // or after
	number  uint64              // of an instance
	route   []byte              // the destination groups, encoded (package routes)
	payload []byte              // or commands
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
	b = varint.AppendUint(b, p.ts)
	if p.kind == kindStart {
		b = varint.AppendBytes(varint.AppendBytes(b, p.route), p.payload)
	}
	return b
}

// read decodes the next packet of a frame, or the next command of an instance. The result aliases the frame
// or the instance. The error is the reader's.
func (p *packet) read(r *varint.Reader) {
	*p = packet{kind: Kind(r.Uint8())}
	switch p.kind {
	case kindAccept:
		p.number, p.payload = r.Uint(maxNumber), r.Bytes()
		return
	case kindAccepted:
		p.number = r.Uint(maxNumber)
		return
	case kindStart, kindDelivered, kindForget, Soft, Hard, Assign, SyncSoft, Final:
	default:
		r.Fail()
		return
	}
	p.id = multicast.MessageID{Sender: multicast.ProcessID(r.Uint32()), Seq: r.Uint(maxNumber)}
	p.ts = multicast.Timestamp(r.Uint(maxNumber))
	switch p.kind {
	case kindStart:
		p.route, p.payload = r.Bytes(), r.Bytes()
	case Assign:
	default:
		if p.ts == 0 {
			r.Fail() // no clock gives it
		}
	}
}

func (p *packet) position() multicast.Position { return multicast.Position{Final: p.ts, ID: p.id} }

func told(kind Kind, at multicast.Position) packet {
	return packet{kind: kind, id: at.ID, ts: at.Final}
}
