package order

import (
	"errors"
	"fmt"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/internal/varint"
)

// ErrVersion is the cause of an error about an entry that another version of the program has made. A replica
// that receives such an entry must stop. If it skipped the entry, its state would differ from the states of
// the replicas that understand the entry.
var ErrVersion = errors.New("made by another version of globalfs: run that version, or a newer one")

// Kind distinguishes the entries of an order. The packages that make entries define the values.
type Kind uint8

// Entry is the payload of a message.
type Entry struct {
	Time posix.Time // by the proposer's clock, when it proposed the entry
	Kind Kind
	Body []byte
	// Durable sets multicast.Message.Durable of the message; it is not encoded in the payload.
	Durable bool
	// Backup is the number of the newest backup that the proposer knew; 0: none (backup.go).
	Backup uint64
}

// The versions of the encoding of entries and of all bodies. An entry of versionBackup has the number of a
// backup before its body.
const (
	version       = 2
	versionBackup = 3
)

// FormatVersion is the version of the encoding, for 'globalfs version'.
const FormatVersion = version

func (e *Entry) encode() []byte {
	b := append(make([]byte, 0, len(e.Body)+24), version)
	b = varint.AppendUint(varint.AppendInt(b, int64(e.Time)), e.Kind)
	if e.Backup > 0 {
		b[0], b = versionBackup, varint.AppendUint(b, e.Backup)
	}
	return append(b, e.Body...)
}

// DecodeEntry decodes the payload of a delivery. Body of the result aliases b. The error is or wraps
// ErrVersion.
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
