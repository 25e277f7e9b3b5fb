package replica

import (
	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/order"
	"github.com/globalfs/globalfs/internal/session"
	"github.com/globalfs/globalfs/internal/turn"
	"github.com/globalfs/globalfs/internal/varint"
)

// Kinds of entries of this package; package cross defines others. The values are stable: they are in logs.
const (
	entryRequest order.Kind = 1 + iota // a client's request
	entryExpire                        // ends a session whose client was silent for too long
	entryReap                          // continues to remove unlinked inodes
	entryBarrier                       // queries wait until it is executed
)

// encodeRequest returns the body of entryRequest.
func encodeRequest(call turn.Call) []byte {
	b := varint.AppendUint(make([]byte, 0, len(call.Data)+64), varint.Bit(call.From != nil))
	if call.From != nil {
		b = ask.AppendClient(b, call.From)
	}
	return append(b, call.Data...)
}

func decodeRequest(body []byte) (q ask.Request, from *ask.Client, err error) {
	r := varint.NewReader(body)
	if r.Uint(1) != 0 {
		from = ask.ReadClient(r)
	}
	data := r.Rest()
	if err = r.Err(); err == nil {
		q, err = ask.DecodeRequest(data)
		q.Merge()
	}
	return q, from, err
}

func encodeExpiry(e session.Expiry) []byte {
	return varint.AppendUint(varint.AppendUint(nil, e.Session), e.Renewals)
}

func decodeExpiry(body []byte) (e session.Expiry, err error) {
	r := varint.NewReader(body)
	e = session.Expiry{Session: r.Uint64(), Renewals: r.Uint64()}
	return e, r.Done()
}
