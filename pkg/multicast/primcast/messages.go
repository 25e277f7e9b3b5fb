package primcast

import (
	"slices"

	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// A frame is a sequence of packets: the kind, then its fields. Who sends, and so q and h of
// the algorithm's tuples, is the frame's.
type kind uint8

const (
	kindStart   kind = 1 + iota // ⟨START, m⟩: message, prev
	kindAck                     // ⟨ACK, m, h, E, ts, q⟩: id, epoch, ts, index in the T of h
	kindBump                    // ⟨BUMP, E, ts, q⟩: epoch, ts, index of the last entry of T
	kindHave                    // to the sender of m: q needs no START(m); id
	kindFetch                   // q knows m by its ACKs only: send it START(m); id
	kindCovered                 // the state machine of q is durable up to a position
)

// maxNumber bounds timestamps, sequence and epoch numbers and positions from
// outside, so that what is computed from them cannot overflow.
const maxNumber = 1 << 62

// packet is any of the above; a kind uses the fields that it names.
type packet struct {
	kind     kind
	message  multicast.Message // kindStart; others: ID only
	prev     uint64
	epoch    Epoch
	ts       multicast.Timestamp
	index    uint64
	position multicast.Position
}

func appendStart(b []byte, m *multicast.Message, prev uint64) []byte {
	return varint.AppendUint(appendMessage(append(b, byte(kindStart)), m), prev)
}

func appendAck(b []byte, m *message) []byte {
	b = appendEpoch(appendID(append(b, byte(kindAck)), m.ID), m.epoch)
	return varint.AppendUint(varint.AppendUint(b, m.ts), m.index)
}

func appendBump(b []byte, e Epoch, ts multicast.Timestamp, index uint64) []byte {
	b = appendEpoch(append(b, byte(kindBump)), e)
	return varint.AppendUint(varint.AppendUint(b, ts), index)
}

func appendHave(b []byte, id multicast.MessageID) []byte {
	return appendID(append(b, byte(kindHave)), id)
}

func appendFetch(b []byte, id multicast.MessageID) []byte {
	return appendID(append(b, byte(kindFetch)), id)
}

func appendCovered(b []byte, p multicast.Position) []byte {
	return appendPosition(append(b, byte(kindCovered)), p)
}

// decodeFrame appends the packets of a frame to into, or gives an error if any of it
// is malformed. Payloads alias b.
func decodeFrame(b []byte, into []packet) ([]packet, error) {
	r := varint.NewReader(b)
	for r.Len() > 0 {
		into = append(into, readPacket(r))
	}
	return into, r.Done()
}

func readPacket(r *varint.Reader) packet {
	p := packet{kind: kind(r.Uint8())}
	switch p.kind {
	case kindStart:
		p.message, p.prev = readMessage(r), r.Uint(maxNumber)
	case kindAck:
		p.message.ID, p.epoch = readID(r), readEpoch(r)
		p.ts, p.index = readTimestamp(r), r.Uint(maxNumber)
		if p.ts == 0 || p.index == 0 {
			r.Fail()
		}
	case kindBump:
		p.epoch, p.ts, p.index = readEpoch(r), readTimestamp(r), r.Uint(maxNumber)
	case kindHave, kindFetch:
		p.message.ID = readID(r)
	case kindCovered:
		p.position = readPosition(r)
	default:
		r.Fail()
	}
	return p
}

func appendID(b []byte, id multicast.MessageID) []byte {
	return varint.AppendUint(varint.AppendUint(b, id.Sender), id.Seq)
}

func readID(r *varint.Reader) multicast.MessageID {
	return multicast.MessageID{Sender: multicast.ProcessID(r.Uint32()), Seq: r.Uint(maxNumber)}
}

func appendEpoch(b []byte, e Epoch) []byte {
	return varint.AppendUint(varint.AppendUint(b, e.Number), e.Leader)
}

func readEpoch(r *varint.Reader) Epoch {
	return Epoch{Number: r.Uint(maxNumber), Leader: multicast.ProcessID(r.Uint32())}
}

func readTimestamp(r *varint.Reader) multicast.Timestamp {
	return multicast.Timestamp(r.Uint(maxNumber))
}

func appendPosition(b []byte, p multicast.Position) []byte {
	return appendID(varint.AppendUint(b, p.Final), p.ID)
}

func readPosition(r *varint.Reader) multicast.Position {
	return multicast.Position{Final: readTimestamp(r), ID: readID(r)}
}

func appendMessage(b []byte, m *multicast.Message) []byte {
	b = varint.AppendUint(appendID(b, m.ID), uint64(len(m.Dest)))
	for _, g := range m.Dest {
		b = varint.AppendUint(b, g)
	}
	return varint.AppendBytes(varint.AppendUint(b, m.After), m.Payload)
}

func readMessage(r *varint.Reader) multicast.Message {
	m := multicast.Message{ID: readID(r), Dest: make([]multicast.GroupID, r.Count())}
	for i := range m.Dest {
		m.Dest[i] = multicast.GroupID(r.Uint16())
	}
	m.After, m.Payload = readTimestamp(r), r.Bytes()
	if m.Validate() != nil {
		r.Fail()
	}
	return m
}

// packetSize is about how many bytes a message needs in a frame or a record.
func packetSize(m *multicast.Message) int { return len(m.Payload) + 3*len(m.Dest) + 48 }

// grow makes room for a packet that holds m.
func grow(b []byte, m *multicast.Message) []byte { return slices.Grow(b, packetSize(m)) }
