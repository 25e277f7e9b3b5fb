package primcast

import (
	"fmt"

	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// What a frame holds: the sender's covered position, then messages.
const (
	kindStart   = 1 + iota // START(m): from the sender of m, in the order of its numbers
	kindPayload            // m as START has it, from the primary of the own group to a member that starts anew
	kindAck                // ACK(m, h, E, ts, q)
	kindBump               // BUMP(E, ts, q)
	kindDone               // to a sender outside m.dest: all destinations have m for ever
)

// ack is the ACK tuple of line 39; h and q are the link's. Position is that of
// m in the T of the group that acknowledges.
type ack struct {
	id       multicast.MessageID
	dest     []multicast.GroupID
	epoch    Epoch
	ts       multicast.Timestamp
	position uint64
}

func appendID(b []byte, id multicast.MessageID) []byte {
	return varint.AppendUint(varint.AppendUint(b, id.Sender), id.Seq)
}

func readID(r *varint.Reader) multicast.MessageID {
	return multicast.MessageID{Sender: multicast.ProcessID(r.Uint32()), Seq: r.Uint64()}
}

func appendPosition(b []byte, p multicast.Position) []byte {
	return appendID(varint.AppendUint(b, p.Final), p.ID)
}

func readPosition(r *varint.Reader) multicast.Position {
	return multicast.Position{Final: multicast.Timestamp(r.Uint64()), ID: readID(r)}
}

func appendEpoch(b []byte, e Epoch) []byte {
	return varint.AppendUint(varint.AppendUint(b, e.Number), e.Leader)
}

func readEpoch(r *varint.Reader) Epoch {
	return Epoch{Number: r.Uint64(), Leader: multicast.ProcessID(r.Uint32())}
}

func appendDest(b []byte, dest []multicast.GroupID) []byte {
	b = varint.AppendUint(b, uint64(len(dest)))
	for _, g := range dest {
		b = varint.AppendUint(b, g)
	}
	return b
}

func readDest(r *varint.Reader) []multicast.GroupID {
	n := r.Count()
	if r.Err() != nil {
		return nil
	}
	dest := make([]multicast.GroupID, n)
	for i := range dest {
		dest[i] = multicast.GroupID(r.Uint16())
	}
	return dest
}

func appendMessage(b []byte, m *multicast.Message) []byte {
	b = appendDest(appendID(b, m.ID), m.Dest)
	return varint.AppendBytes(varint.AppendUint(b, m.After), m.Payload)
}

func readMessage(r *varint.Reader) multicast.Message {
	m := multicast.Message{ID: readID(r), Dest: readDest(r)}
	m.After, m.Payload = multicast.Timestamp(r.Uint64()), r.Bytes()
	if r.Err() == nil && m.Validate() != nil {
		r.Fail()
	}
	return m
}

func appendAck(b []byte, a *ack) []byte {
	b = appendEpoch(appendDest(appendID(b, a.id), a.dest), a.epoch)
	return varint.AppendUint(varint.AppendUint(b, a.ts), a.position)
}

func readAck(r *varint.Reader) ack {
	a := ack{id: readID(r), dest: readDest(r), epoch: readEpoch(r)}
	a.ts, a.position = multicast.Timestamp(r.Uint64()), r.Uint64()
	m := multicast.Message{ID: a.id, Dest: a.dest}
	if r.Err() == nil && m.Validate() != nil {
		r.Fail()
	}
	return a
}

// handlers are what a frame's messages are given to, in order.
type handlers interface {
	onCovered(from multicast.ProcessID, p multicast.Position)
	onStart(from multicast.ProcessID, m multicast.Message)
	onPayload(from multicast.ProcessID, m multicast.Message)
	onAck(from multicast.ProcessID, a ack)
	onBump(from multicast.ProcessID, e Epoch, ts multicast.Timestamp)
	onDone(from multicast.ProcessID, id multicast.MessageID)
}

// decodeFrame gives the messages of a frame to h. What stands before a malformed one
// was handled.
func decodeFrame(from multicast.ProcessID, b []byte, h handlers) error {
	r := varint.NewReader(b)
	covered := readPosition(r)
	if r.Err() == nil {
		h.onCovered(from, covered)
	}
	for r.Len() > 0 && r.Err() == nil {
		switch kind := r.Uint8(); kind {
		case kindStart:
			if m := readMessage(r); r.Err() == nil {
				h.onStart(from, m)
			}
		case kindPayload:
			if m := readMessage(r); r.Err() == nil {
				h.onPayload(from, m)
			}
		case kindAck:
			if a := readAck(r); r.Err() == nil {
				h.onAck(from, a)
			}
		case kindBump:
			if e, ts := readEpoch(r), multicast.Timestamp(r.Uint64()); r.Err() == nil {
				h.onBump(from, e, ts)
			}
		case kindDone:
			if id := readID(r); r.Err() == nil {
				h.onDone(from, id)
			}
		default:
			return fmt.Errorf("primcast: message of unknown kind %d from process %d", kind, from)
		}
	}
	return r.Err()
}
