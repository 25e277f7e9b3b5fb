package primcast

import (
	"slices"

	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// kind is the kind of a packet. A frame is a sequence of packets, each a kind and its fields (packets.go).
// The link identifies the sender of a frame: packets omit q and h of the algorithm's tuples.
type kind uint8

const (
	kindStart kind = 1 + iota
	kindEntry
	kindUpTo
	kindAck
	kindBump
	kindHave
	kindFetch
	kindFetchLog
	kindCovered
	kindNewEpoch
	kindPromise
	_ // NEW-STATE without E_cur of the PROMISE
	kindAccept
	kindPing
	kindRoster
	kindReplace
	kindBehind
	kindSilent
	kindNewState
)

// maxNumber bounds received timestamps, positions, sequence numbers and epoch numbers, so that sums of them
// do not overflow.
const maxNumber = 1 << 62

// appendAck appends an acknowledgement of T and the clock to the frame of q. If q is in another group, and
// some message has requested atomic global order, the packet also has the front that q may wait for
// (order.go).
func (c *delivery) appendAck(q *peer) []byte {
	p := ackPacket{epoch: c.current, length: c.t.last(), last: c.t.last(), ts: c.clock}
	if q.group != c.own {
		p.last, p.hasFront, p.front = q.group.lastOwn, c.ordered, q.group.frontSent
	}
	return p.append(q.frame)
}

func appendRoster(b []byte, r roster) []byte {
	return appendIDs(appendIDs(appendEpoch(appendEpoch(b, r.since), r.latest), r.ids), r.before)
}

func readRoster(r *varint.Reader) roster {
	return roster{since: readEpoch(r), latest: readEpoch(r), ids: readIDs(r), before: readIDs(r)}
}

func appendBool(b []byte, is bool) []byte {
	if is {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendIDs(b []byte, ids []multicast.ProcessID) []byte {
	b = varint.AppendUint(b, uint64(len(ids)))
	for _, id := range ids {
		b = varint.AppendUint(b, id)
	}
	return b
}

func readIDs(r *varint.Reader) []multicast.ProcessID {
	n := r.Count()
	if n == 0 {
		return nil
	}
	ids := make([]multicast.ProcessID, n)
	for i := range ids {
		ids[i] = multicast.ProcessID(r.Uint32())
	}
	return ids
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

func appendClassPosition(b []byte, at multicast.ClassPosition) []byte {
	return appendPosition(varint.AppendBytes(b, at.Class), at.Position)
}

func readClassPosition(r *varint.Reader) multicast.ClassPosition {
	return multicast.ClassPosition{Class: readClass(r), Position: readPosition(r)}
}

func readClass(r *varint.Reader) multicast.Class {
	name := multicast.Class(r.Bytes())
	if groups := name.Groups(); name != multicast.ClassOf(groups) || !slices.IsSorted(groups) || len(slices.Compact(groups)) != len(name)/2 {
		r.Fail()
	}
	return name
}

func appendProgress(b []byte, p multicast.Progress) []byte {
	return varint.AppendBytes(b, p.Append(nil))
}

func readProgress(r *varint.Reader) multicast.Progress {
	p, err := multicast.DecodeProgress(r.Bytes())
	if err != nil {
		r.Fail()
	}
	return p
}

func appendMessage(b []byte, m *multicast.Message) []byte {
	b = varint.AppendUint(appendID(b, m.ID), uint64(len(m.Dest)))
	for _, g := range m.Dest {
		b = varint.AppendUint(b, g)
	}
	return varint.AppendBytes(varint.AppendUint(varint.AppendUint(b, m.After), m.Order|durableBit(m)), m.Payload)
}

// durable encodes Message.Durable as a bit of the byte that holds Message.Order.
const durable multicast.Order = 2

func durableBit(m *multicast.Message) multicast.Order {
	if m.Durable {
		return durable
	}
	return 0
}

func readMessage(r *varint.Reader) multicast.Message {
	m := multicast.Message{ID: readID(r), Dest: make([]multicast.GroupID, r.Count())}
	for i := range m.Dest {
		m.Dest[i] = multicast.GroupID(r.Uint16())
	}
	m.After, m.Order, m.Payload = readTimestamp(r), multicast.Order(r.Uint8()), r.Bytes()
	m.Durable, m.Order = m.Order&durable != 0, m.Order&^durable
	if m.Validate() != nil {
		r.Fail()
	}
	return m
}

// packetSize returns the approximate size in bytes of a message in a frame or a record.
func packetSize(m *multicast.Message) int { return len(m.Payload) + 3*len(m.Dest) + 48 }

// grow makes room in b for a packet with m.
func grow(b []byte, m *multicast.Message) []byte { return slices.Grow(b, packetSize(m)) }
