package ask

import (
	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// AppendPosition appends the encoding of p. The zero position takes one byte. (The records of primcast
// encode positions in another way.)
func AppendPosition(b []byte, p multicast.Position) []byte {
	b = varint.AppendUint(b, uint64(p.Final))
	if p.Final == 0 {
		return b
	}
	b = varint.AppendUint(b, uint32(p.ID.Sender))
	return varint.AppendUint(b, p.ID.Seq)
}

// ReadPosition reads a position that AppendPosition has written. After an error of r it returns the zero
// position.
func ReadPosition(r *varint.Reader) (p multicast.Position) {
	if p.Final = multicast.Timestamp(r.Uint64()); p.Final != 0 {
		p.ID = multicast.MessageID{Sender: multicast.ProcessID(r.Uint32()), Seq: r.Uint64()}
	}
	return p
}

// AppendProgress appends the encoding of p.
func AppendProgress(b []byte, p multicast.Progress) []byte {
	return varint.AppendBytes(b, p.Append(nil))
}

// ReadProgress reads a progress that AppendProgress has written. If the bytes are malformed, r.Err reports
// it.
func ReadProgress(r *varint.Reader) multicast.Progress {
	p, err := multicast.DecodeProgress(r.Bytes())
	if err != nil {
		r.Fail()
	}
	return p
}
