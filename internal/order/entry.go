package order

import (
	"errors"
	"fmt"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// ErrVersion is the cause of an error about an entry that another version of the program has made. A replica
// that meets one must stop: skipping the entry would make it differ from the replicas that understand it.
var ErrVersion = errors.New("made by another version of globalfs: run that version, or a newer one")

// Kind tells the entries of an order apart. The packages that make entries number them.
type Kind uint8

// Entry is the payload of a message.
type Entry struct {
	Time posix.Time // at which it was proposed, by the proposer's clock
	Kind Kind
	Body []byte
	// Durable is multicast.Message.Durable. It is not a part of the payload.
	Durable bool
}

// version of the encoding of entries and of all bodies.
const version = 2

func (e *Entry) encode() []byte {
	b := append(make([]byte, 0, len(e.Body)+12), version)
	return append(varint.AppendUint(varint.AppendInt(b, int64(e.Time)), e.Kind), e.Body...)
}

// DecodeEntry reads the payload of a delivery. Body aliases b. The error is ErrVersion, or wraps it.
func DecodeEntry(b []byte) (Entry, error) {
	r := varint.NewReader(b)
	v := r.Uint8()
	e := Entry{Time: posix.Time(r.Int()), Kind: Kind(r.Uint8()), Body: r.Rest()}
	if r.Err() != nil || v != version {
		return e, fmt.Errorf("entry of %d bytes, version %d: %w", len(b), v, ErrVersion)
	}
	return e, nil
}
