package replica

import (
	"fmt"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// envelope is the payload of a multicast message: a client's request, or what
// a replica itself wants ordered, with the time at which it was proposed.
type envelope struct {
	Time    posix.Time
	Request []byte // a client's; nil if one of the following is set
	Expire  expiry // end a session that was silent
	Reap    bool   // go on reaping
}

// expiry ends Session unless it was renewed more often than Renewals.
type expiry struct{ Session, Renewals uint64 }

const (
	envelopeRequest = 1 + iota
	envelopeExpire
	envelopeReap
)

func (e *envelope) encode() []byte {
	b := varint.AppendInt(make([]byte, 0, len(e.Request)+12), int64(e.Time))
	switch {
	case e.Request != nil:
		return append(append(b, envelopeRequest), e.Request...)
	case e.Reap:
		return append(b, envelopeReap)
	}
	b = append(b, envelopeExpire)
	return varint.AppendUint(varint.AppendUint(b, e.Expire.Session), e.Expire.Renewals)
}

func decodeEnvelope(b []byte) (envelope, error) {
	r := varint.NewReader(b)
	e := envelope{Time: posix.Time(r.Int())}
	switch kind := r.Uint8(); kind {
	case envelopeRequest:
		e.Request = b[len(b)-r.Len():]
		return e, r.Err()
	case envelopeExpire:
		e.Expire = expiry{Session: r.Uint64(), Renewals: r.Uint64()}
	case envelopeReap:
		e.Reap = true
	default:
		return e, fmt.Errorf("envelope: unknown kind %d", kind)
	}
	return e, r.Done()
}
