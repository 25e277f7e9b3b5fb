package skeen

import (
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// packet is one message of the protocol: START if start is set, else ACK or LOCAL-TS.
type packet struct {
	id    multicast.MessageID
	start *multicast.Message
	ack   bool
	ts    multicast.Timestamp // of LOCAL-TS
}

const (
	kindStart   = 1
	kindLocalTS = 2
	kindAck     = 3
)

func (pkt packet) append(b []byte) []byte {
	kind := byte(kindLocalTS)
	if pkt.start != nil {
		kind = kindStart
	} else if pkt.ack {
		kind = kindAck
	}
	b = varint.AppendUint(append(b, kind), pkt.id.Sender)
	b = varint.AppendUint(b, pkt.id.Seq)
	switch kind {
	case kindStart:
		return appendStart(b, pkt.start)
	case kindLocalTS:
		return varint.AppendUint(b, pkt.ts)
	}
	return b
}

func appendStart(b []byte, m *multicast.Message) []byte {
	b = varint.AppendUint(b, uint64(len(m.Dest)))
	for _, g := range m.Dest {
		b = varint.AppendUint(b, g)
	}
	b = append(varint.AppendUint(b, m.After), byte(m.Order))
	return varint.AppendBytes(b, m.Payload)
}

// decode returns the messages of a frame, one at a time, up to the first that is malformed.
func decode(frame []byte, handle func(packet)) error {
	r := varint.NewReader(frame)
	for r.Len() > 0 {
		kind := r.Uint8()
		pkt := packet{id: multicast.MessageID{Sender: multicast.ProcessID(r.Uint32()), Seq: r.Uint64()}}
		switch kind {
		case kindStart:
			pkt.start = readStart(pkt.id, r)
		case kindLocalTS:
			pkt.ts = multicast.Timestamp(r.Uint64())
		case kindAck:
			pkt.ack = true
		default:
			r.Fail()
		}
		if r.Err() != nil {
			return r.Err()
		}
		handle(pkt)
	}
	return r.Err()
}

func readStart(id multicast.MessageID, r *varint.Reader) *multicast.Message {
	m := &multicast.Message{ID: id}
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		m.Dest = append(m.Dest, multicast.GroupID(r.Uint16()))
	}
	m.After, m.Order = multicast.Timestamp(r.Uint64()), multicast.Order(r.Uint8())
	m.Payload = r.Bytes()
	if m.Validate() != nil {
		r.Fail()
	}
	return m
}

// outbox packs all packets of one step to a peer into one frame.
type outbox struct {
	frames map[multicast.ProcessID][]byte
	peers  []multicast.ProcessID // in the order of first use
}

func (o *outbox) add(to multicast.ProcessID, pkt packet) {
	if o.frames == nil {
		o.frames = map[multicast.ProcessID][]byte{}
	}
	if _, ok := o.frames[to]; !ok {
		o.peers = append(o.peers, to)
	}
	o.frames[to] = pkt.append(o.frames[to])
}

// flush appends the frames to into and forgets them.
func (o *outbox) flush(into []multicast.Frame) []multicast.Frame {
	for _, p := range o.peers {
		into = append(into, multicast.Frame{Peer: p, Data: o.frames[p]})
	}
	o.peers = o.peers[:0]
	clear(o.frames)
	return into
}
