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
	kindStart    kind = 1 + iota // ⟨START, m⟩: message, prev
	kindEntry                    // an entry of the T of h, which concerns the receiver: epoch, index, prev (the one before), ts, id
	kindUpTo                     // the answer to kindFetchLog ends: no entry between prev and index concerns the receiver; epoch
	kindAck                      // ⟨ACK, …, q⟩ for all of T: epoch, length, last (that concerns the receiver), clock as ts; and its front
	kindBump                     // ⟨BUMP, E, ts, q⟩ of a process that follows no primary: epoch, ts, last
	kindHave                     // to the sender of m: q needs no START(m); id
	kindFetch                    // q knows m by its timestamps only: send it START(m); id
	kindFetchLog                 // send q the entries of T after index if you are in epoch, else after length
	kindCovered                  // the state machine of q is durable up to a position of a class
	kindNewEpoch                 // ⟨NEW-EPOCH, E⟩, and the roster that q knows
	kindPromise                  // ⟨PROMISE, E, p, clock, E_cur, length of T⟩, what q knows to be decided, and the roster that it knows
	kindNewState                 // ⟨NEW-STATE, E, T', ts⟩: T' is the T of q up to index, then entries up to length, which follow; the roster of E
	kindAccept                   // ⟨ACCEPT, E, p⟩
	kindPing                     // q waits for the primary
	kindRoster                   // the roster of a group: group, roster, and whether a quorum of it knows it
	kindReplace                  // to the primary: a replacement is asked for
	kindBehind                   // q may have forgotten what the receiver needs up to a position of a class
	kindSilent                   // q hears nothing of the primary of the epoch it has promised to
)

// maxNumber bounds timestamps, sequence and epoch numbers and positions from
// outside, so that what is computed from them cannot overflow.
const maxNumber = 1 << 62

// packet is any of the above; a kind uses the fields that it names.
type packet struct {
	kind     kind
	hasFront bool
	message  multicast.Message // kindStart; others: ID only
	prev     uint64
	epoch    Epoch
	ts       multicast.Timestamp
	index    uint64
	length   uint64
	last     uint64
	frontTS  multicast.Timestamp
	class    multicast.Class
	position multicast.Position
	promise  *promise

	group       multicast.GroupID
	roster      roster
	known       bool // to a quorum of the roster
	replacement multicast.Replacement
}

func appendStart(b []byte, m *multicast.Message, prev uint64) []byte {
	return varint.AppendUint(appendMessage(append(b, byte(kindStart)), m), prev)
}

func appendEntry(b []byte, e Epoch, prev uint64, m *message) []byte {
	b = appendEpoch(append(b, byte(kindEntry)), e)
	b = varint.AppendUint(varint.AppendUint(b, m.index), m.index-prev)
	return appendID(varint.AppendUint(b, m.ts), m.ID)
}

func appendUpTo(b []byte, e Epoch, prev, index uint64) []byte {
	b = appendEpoch(append(b, byte(kindUpTo)), e)
	return varint.AppendUint(varint.AppendUint(b, index), index-prev)
}

// appendAck acknowledges T to q, says the clock, and for a primary what it has not delivered.
func (c *Core) appendAck(q *peer) []byte {
	last := q.group.lastOwn
	if q.group == c.own {
		last = c.t.last()
	}
	b := appendEpoch(append(q.frame, byte(kindAck)), c.current)
	b = varint.AppendUint(varint.AppendUint(b, c.t.last()), c.t.last()-last)
	b = varint.AppendUint(b, c.clock)
	if !c.ordered || q.group == c.own {
		return append(b, 0)
	}
	return appendPosition(varint.AppendUint(append(b, 1), q.group.frontSent.ts), q.group.frontSent.position)
}

func appendBump(b []byte, e Epoch, ts multicast.Timestamp, last uint64) []byte {
	b = appendEpoch(append(b, byte(kindBump)), e)
	return varint.AppendUint(varint.AppendUint(b, ts), last)
}

func appendFetchLog(b []byte, e Epoch, known, decided uint64) []byte {
	b = appendEpoch(append(b, byte(kindFetchLog)), e)
	return varint.AppendUint(varint.AppendUint(b, known), decided)
}

func appendNewEpoch(b []byte, e Epoch, r roster) []byte {
	return appendRoster(appendEpochPacket(b, kindNewEpoch, e), r)
}

func appendAccept(b []byte, e Epoch) []byte { return appendEpochPacket(b, kindAccept, e) }

func appendEpochPacket(b []byte, k kind, e Epoch) []byte { return appendEpoch(append(b, byte(k)), e) }

func appendPromise(b []byte, e Epoch, p *promise) []byte {
	b = appendEpoch(appendEpochPacket(b, kindPromise, e), p.current)
	b = varint.AppendUint(varint.AppendUint(varint.AppendUint(b, p.clock), p.length), p.decided)
	return appendRoster(b, p.roster)
}

// appendNewState begins the T' of c's epoch for q, whose T is the same up to from.
func (c *Core) appendNewState(q *peer, from uint64) []byte {
	b := varint.AppendUint(appendEpochPacket(q.frame, kindNewState, c.current), c.clock)
	b = varint.AppendUint(varint.AppendUint(b, from), c.t.last())
	return appendRoster(b, c.own.roster())
}

func appendMembers(b []byte, g *group) []byte {
	b = appendRoster(varint.AppendUint(append(b, byte(kindRoster)), g.id), g.roster())
	return appendBool(b, g.isKnown())
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

func appendReplace(b []byte, r multicast.Replacement) []byte {
	return varint.AppendUint(varint.AppendUint(append(b, byte(kindReplace)), r.Old), r.New)
}

func appendBehind(b []byte, at multicast.ClassPosition) []byte {
	return appendClassPosition(append(b, byte(kindBehind)), at)
}

func appendHave(b []byte, id multicast.MessageID) []byte {
	return appendID(append(b, byte(kindHave)), id)
}

func appendFetch(b []byte, id multicast.MessageID) []byte {
	return appendID(append(b, byte(kindFetch)), id)
}

func appendCovered(b []byte, at multicast.ClassPosition) []byte {
	return appendClassPosition(append(b, byte(kindCovered)), at)
}

// decodeFrame appends the packets of a frame to into, or gives an error if any of it
// is malformed. Payloads alias b.
func decodeFrame(b []byte, into []packet) ([]packet, error) {
	r := varint.NewReader(b)
	for r.Len() > 0 {
		into = append(into, packet{})
		readPacket(r, &into[len(into)-1])
	}
	return into, r.Done()
}

func readPacket(r *varint.Reader, p *packet) {
	p.kind = kind(r.Uint8())
	switch p.kind {
	case kindStart:
		p.message, p.prev = readMessage(r), r.Uint(maxNumber)
	case kindEntry:
		p.epoch, p.index = readEpoch(r), r.Uint(maxNumber)
		p.prev, p.ts, p.message.ID = p.index-r.Uint(p.index), readTimestamp(r), readID(r)
		if p.ts == 0 || p.prev >= p.index {
			r.Fail()
		}
	case kindUpTo:
		p.epoch, p.index = readEpoch(r), r.Uint(maxNumber)
		p.prev = p.index - r.Uint(p.index)
	case kindAck:
		p.epoch, p.length = readEpoch(r), r.Uint(maxNumber)
		p.last, p.ts = p.length-r.Uint(p.length), readTimestamp(r)
		if p.hasFront = r.Uint(1) == 1; p.hasFront {
			p.frontTS, p.position = readTimestamp(r), readPosition(r)
		}
	case kindBump:
		p.epoch, p.ts, p.last = readEpoch(r), readTimestamp(r), r.Uint(maxNumber)
	case kindHave, kindFetch:
		p.message.ID = readID(r)
	case kindFetchLog:
		p.epoch, p.index, p.length = readEpoch(r), r.Uint(maxNumber), r.Uint(maxNumber)
	case kindNewEpoch:
		p.epoch, p.roster = readEpoch(r), readRoster(r)
	case kindAccept, kindSilent:
		p.epoch = readEpoch(r)
	case kindPromise:
		p.epoch = readEpoch(r)
		p.promise = &promise{current: readEpoch(r), clock: readTimestamp(r), length: r.Uint(maxNumber)}
		p.promise.decided = r.Uint(p.promise.length)
		p.promise.roster = readRoster(r)
	case kindNewState:
		p.epoch, p.ts, p.index = readEpoch(r), readTimestamp(r), r.Uint(maxNumber)
		if p.length = r.Uint(maxNumber); p.length < p.index {
			r.Fail()
		}
		p.roster = readRoster(r)
	case kindRoster:
		p.group = multicast.GroupID(r.Uint16())
		p.roster, p.known = readRoster(r), r.Uint(1) == 1
	case kindReplace:
		p.replacement = multicast.Replacement{Old: multicast.ProcessID(r.Uint32()), New: multicast.ProcessID(r.Uint32())}
	case kindCovered, kindBehind:
		p.class, p.position = readClass(r), readPosition(r)
	case kindPing:
	default:
		r.Fail()
	}
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

// durable is the bit of Message.Durable, beside Message.Order.
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

// packetSize is about how many bytes a message needs in a frame or a record.
func packetSize(m *multicast.Message) int { return len(m.Payload) + 3*len(m.Dest) + 48 }

// grow makes room for a packet that holds m.
func grow(b []byte, m *multicast.Message) []byte { return slices.Grow(b, packetSize(m)) }
