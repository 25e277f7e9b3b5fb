package transport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/internal/wire"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// framedProtocol is the ALPN name of the framed protocol. Both ends offer it beside HTTP/2. The format has no
// version of its own: an incompatible format gets another name.
const framedProtocol = "globalfs/1"

// greeting begins a connection without TLS, in both directions: without ALPN it distinguishes the framed
// protocol from HTTP/2.
const greeting = framedProtocol + "\n"

// A message is a head and a body. The head has 4 bytes for the length of the body, little-endian, one for the
// kind, and 8 for the number of the call.
const headSize = 13

// kind is the type of a message.
type kind byte

const (
	kindHello   kind = iota + 1 // to the caller, first: the maximum number of calls under way, as a varint; the name of the server for peers of its host
	kindCall                    // the process, the time in microseconds that the caller waits (0: no limit), the request
	kindReply                   // the reply of the handler
	kindFailed                  // the text of the handler's error
	kindRefused                 // no handler answered: the reason
	kindLate                    // the deadline of the call passed at the server
	kindCancel                  // the caller does not wait any more
	kindPackets                 // packets of links
	kindPing
	kindPong
	kindBye    // the connection ends: the reason
	kindStream // two processes: the connection is a stream of bytes between them from now on
)

// maxTime is the longest time limit that a call carries. A caller that waits longer has no limit.
const maxTime = 1000 * time.Hour

// maxBody returns the longest body of a message of a kind; negative: there is no such kind.
func (k kind) maxBody() int {
	switch k {
	case kindHello:
		return 64
	case kindCall, kindReply:
		return MaxCall + 2*binary.MaxVarintLen64
	case kindFailed, kindRefused, kindBye:
		return maxErrorText
	case kindLate, kindCancel, kindPing, kindPong:
		return 0
	case kindPackets:
		return maxMessage
	case kindStream:
		return 2 * binary.MaxVarintLen32
	}
	return -1
}

// head is the beginning of a message.
type head struct {
	length int
	kind   kind
	call   uint64
}

func appendHead(b []byte, k kind, call uint64, length int) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(length))
	b = append(b, byte(k))
	return binary.LittleEndian.AppendUint64(b, call)
}

// errFormat is the error of a peer that violates the framed protocol. The connection ends.
var errFormat = errors.New("the peer does not keep to the protocol " + framedProtocol)

// parseHead decodes a head.
func parseHead(b *[headSize]byte) (head, error) {
	h := head{length: int(binary.LittleEndian.Uint32(b[:])), kind: kind(b[4]), call: binary.LittleEndian.Uint64(b[5:])}
	switch most := h.kind.maxBody(); {
	case most < 0:
		return head{}, fmt.Errorf("%w: it sends a message of the unknown kind %d", errFormat, h.kind)
	case h.length > most:
		return head{}, fmt.Errorf("%w: it sends %d bytes of kind %d, the longest message has %d", errFormat, h.length, h.kind, most)
	}
	return h, nil
}

// textMessage encodes a message with a text as its body.
func textMessage(k kind, call uint64, text string) []byte {
	text = text[:min(len(text), maxErrorText)]
	return append(appendHead(nil, k, call, len(text)), text...)
}

// callStart appends the head and the bytes before the request of a call.
func callStart(b []byte, call uint64, to multicast.ProcessID, limit time.Duration, request []byte) []byte {
	micros := uint64(0)
	if limit > 0 && limit <= maxTime {
		micros = uint64(max(limit.Microseconds(), 1))
	}
	at := len(b)
	b = appendHead(b, kindCall, call, 0)
	b = varint.AppendUint(varint.AppendUint(b, to), micros)
	binary.LittleEndian.PutUint32(b[at:], uint32(len(b)-at-headSize+len(request)))
	return b
}

// parseCall decodes the body of a call. The request aliases it.
func parseCall(body []byte) (to multicast.ProcessID, limit time.Duration, request []byte, err error) {
	process, n := binary.Uvarint(body)
	micros, m := binary.Uvarint(body[max(n, 0):])
	if n <= 0 || m <= 0 || process > 1<<32-1 || micros > uint64(maxTime.Microseconds()) || len(body)-n-m > MaxCall {
		return 0, 0, nil, fmt.Errorf("%w: a call cannot be read", errFormat)
	}
	return multicast.ProcessID(process), time.Duration(micros) * time.Microsecond, body[n+m:], nil
}

// appendPackets encodes packets as one message.
func appendPackets(b []byte, batch *wire.Batch) []byte {
	at := len(b)
	b = appendHead(b, kindPackets, 0, 0)
	for _, p := range batch.GetPackets() {
		for _, v := range [...]uint64{
			uint64(p.From), uint64(p.To), p.Source.GetIncarnation(), p.Source.GetRestarts(), p.Target.GetIncarnation(),
			p.Target.GetRestarts(), p.Taken, p.First, uint64(len(p.Frames)),
		} {
			b = binary.AppendUvarint(b, v)
		}
		for _, f := range p.Frames {
			b = varint.AppendBytes(b, f)
		}
	}
	binary.LittleEndian.PutUint32(b[at:], uint32(len(b)-at-headSize))
	return b
}

// packetHeap is a packet in one allocation.
type packetHeap struct {
	packet         wire.Packet
	source, target wire.Generation
}

// parsePackets decodes the body of a message of packets. Long frames alias it; others are copied, so that one
// short frame that is kept does not keep the whole message.
func parsePackets(body []byte) (*wire.Batch, error) {
	batch := &wire.Batch{}
	for r := varint.NewReader(body); r.Len() > 0; {
		p := &packetHeap{}
		p.packet.From, p.packet.To = r.Uint32(), r.Uint32()
		p.source.Incarnation, p.source.Restarts = r.Uint64(), r.Uint64()
		p.target.Incarnation, p.target.Restarts = r.Uint64(), r.Uint64()
		p.packet.Taken, p.packet.First = r.Uint64(), r.Uint64()
		p.packet.Source, p.packet.Target = &p.source, &p.target
		for n := r.Count(); n > 0 && r.Err() == nil; n-- {
			f := r.Bytes()
			if len(f) < len(body)/4 && len(body) > smallMessage {
				f = bytes.Clone(f)
			}
			p.packet.Frames = append(p.packet.Frames, f)
		}
		if r.Err() != nil {
			return nil, fmt.Errorf("%w: packets cannot be read", errFormat)
		}
		batch.Packets = append(batch.Packets, &p.packet)
	}
	return batch, nil
}
