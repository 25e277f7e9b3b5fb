package replica

import (
	"fmt"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// envelope is the payload of a multicast message: a client's request, or what
// a replica itself wants ordered, with the time at which it was proposed.
type envelope struct {
	Time posix.Time
	Kind envelopeKind

	Request []byte      // a client's
	Client  *ask.Client // whose it is; it is not in the encoding if it is nil
	Expire  expiry      // end a session that was silent
	Relay   relay       // what the order between partitions has delivered
	At      place       // of a decision
	Votes   [][]byte    // of a decision: of all parties
	Forget  []place
	From    uint16     // of a request or post between partitions: the one that answers or posts
	Number  uint64     // of a post
	Vector  ask.Vector // of a post: what its sender has seen
	Command []byte     // of a post
}

// place is a position in the order between partitions: it names a command of several.
type place = multicast.Position

type envelopeKind uint8

// The kinds, numbered for ever.
const (
	envelopeRequest envelopeKind = 1 + iota
	envelopeExpire
	envelopeReap    // go on reaping
	envelopeRelay   // local
	envelopeDecide  // local
	envelopeForget  // local
	envelopeBarrier // local: what was ordered before is seen by those who wait for this
	envelopeCommand // between partitions: a client's request
	envelopePost    // between partitions: a post of meta's outbox

	// In encodings only: envelopeRequest and envelopeCommand with a Client.
	envelopeClientRequest
	envelopeClientCommand
)

// expiry ends Session unless it was renewed more often than Renewals.
type expiry struct{ Session, Renewals uint64 }

// relay is a message of the order between partitions on its way into a partition's own order. It counts only behind
// Prev, the one relayed before it.
type relay struct {
	Prev, At place
	Dest     []uint16
	Payload  []byte
}

func (e *envelope) encode() []byte {
	b := varint.AppendInt(make([]byte, 0, len(e.Request)+len(e.Relay.Payload)+64), int64(e.Time))
	if e.Client != nil {
		return e.encodeClient(b)
	}
	b = append(b, byte(e.Kind))
	switch e.Kind {
	case envelopeRequest:
		return append(b, e.Request...)
	case envelopeExpire:
		return varint.AppendUint(varint.AppendUint(b, e.Expire.Session), e.Expire.Renewals)
	case envelopeRelay:
		b = ask.AppendPosition(ask.AppendPosition(b, e.Relay.Prev), e.Relay.At)
		return append(appendPartitions(b, e.Relay.Dest), e.Relay.Payload...)
	case envelopeDecide:
		b = varint.AppendUint(ask.AppendPosition(b, e.At), uint64(len(e.Votes)))
		for _, v := range e.Votes {
			b = varint.AppendBytes(b, v)
		}
	case envelopeForget:
		b = varint.AppendUint(b, uint64(len(e.Forget)))
		for _, at := range e.Forget {
			b = ask.AppendPosition(b, at)
		}
	case envelopeCommand:
		return append(varint.AppendUint(b, e.From), e.Request...)
	case envelopePost:
		b = varint.AppendUint(varint.AppendUint(b, e.From), e.Number)
		return append(e.Vector.Append(b), e.Command...)
	}
	return b
}

// encodeClient encodes a request or a command of a Client.
func (e *envelope) encodeClient(b []byte) []byte {
	if e.Kind == envelopeRequest {
		b = ask.AppendClient(append(b, byte(envelopeClientRequest)), e.Client)
	} else {
		b = ask.AppendClient(append(b, byte(envelopeClientCommand)), e.Client)
		b = varint.AppendUint(b, e.From)
	}
	return append(b, e.Request...)
}

func decodeEnvelope(b []byte) (envelope, error) {
	r := varint.NewReader(b)
	e := envelope{Time: posix.Time(r.Int()), Kind: envelopeKind(r.Uint8())}
	switch e.Kind {
	case envelopeRequest:
		e.Request = r.Rest()
	case envelopeExpire:
		e.Expire = expiry{Session: r.Uint64(), Renewals: r.Uint64()}
	case envelopeRelay:
		e.Relay = relay{Prev: ask.ReadPosition(r), At: ask.ReadPosition(r), Dest: readPartitions(r)}
		e.Relay.Payload = r.Rest()
	case envelopeDecide:
		e.At = ask.ReadPosition(r)
		for n := r.Count(); n > 0 && r.Err() == nil; n-- {
			e.Votes = append(e.Votes, r.Bytes())
		}
	case envelopeForget:
		for n := r.Count(); n > 0 && r.Err() == nil; n-- {
			e.Forget = append(e.Forget, ask.ReadPosition(r))
		}
	case envelopeCommand:
		e.From = r.Uint16()
		e.Request = r.Rest()
	case envelopePost:
		e.From, e.Number, e.Vector = r.Uint16(), r.Uint64(), ask.ReadVector(r)
		e.Command = r.Rest()
	case envelopeClientRequest:
		e.Kind, e.Client = envelopeRequest, ask.ReadClient(r)
		e.Request = r.Rest()
	case envelopeClientCommand:
		e.Kind, e.Client = envelopeCommand, ask.ReadClient(r)
		e.From = r.Uint16()
		e.Request = r.Rest()
	case envelopeReap, envelopeBarrier:
	default:
		return e, fmt.Errorf("envelope: unknown kind %d", e.Kind)
	}
	return e, r.Done()
}

func appendPartitions(b []byte, partitions []uint16) []byte {
	b = varint.AppendUint(b, uint64(len(partitions)))
	for _, p := range partitions {
		b = varint.AppendUint(b, p)
	}
	return b
}

func readPartitions(r *varint.Reader) (partitions []uint16) {
	for n := r.Count(); n > 0 && r.Err() == nil; n-- {
		partitions = append(partitions, r.Uint16())
	}
	return partitions
}
