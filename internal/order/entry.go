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
	// Backup is the newest backup that the proposer had heard of; 0: of none (backup.go).
	Backup uint64
}

// Versions of the encoding of entries and of all bodies. An entry of the second one has the number of a
// backup before its body.
const (
	version       = 2
	versionBackup = 3
)

// FormatVersion is that version, for people.
const FormatVersion = version

func (e *Entry) encode() []byte {
	b := append(make([]byte, 0, len(e.Body)+24), version)
	b = varint.AppendUint(varint.AppendInt(b, int64(e.Time)), e.Kind)
	if e.Backup > 0 {
		b[0], b = versionBackup, varint.AppendUint(b, e.Backup)
	}
	return append(b, e.Body...)
}

// DecodeEntry reads the payload of a delivery. Body aliases b. The error is ErrVersion, or wraps it.
func DecodeEntry(b []byte) (Entry, error) {
	r := varint.NewReader(b)
	v := r.Uint8()
	e := Entry{Time: posix.Time(r.Int()), Kind: Kind(r.Uint8())}
	if v == versionBackup {
		e.Backup = r.Uint64()
	}
	e.Body = r.Rest()
	if r.Err() != nil || v != version && v != versionBackup {
		return e, fmt.Errorf("entry of %d bytes, version %d: %w", len(b), v, ErrVersion)
	}
	return e, nil
}
