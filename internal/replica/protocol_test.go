package replica

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/posix"
)

func TestRequestRoundTrip(t *testing.T) {
	for _, q := range []Request{
		{Kind: Query, Vector: Vector{1, 0, 3}, Command: []byte("c")},
		{Kind: Update, Session: 7, Seq: 5, Done: 3, Vector: Vector{9}, Command: []byte("c")},
		{Kind: RenewSession, Session: 1<<48 - 1, Held: []posix.Ino{1, posix.MakeIno(3, 9)}},
	} {
		got, err := DecodeRequest(q.Append(nil))
		require.NoError(t, err)
		require.Equal(t, q, got)
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	for name, q := range map[string]Request{
		"kind":    {Kind: kindEnd},
		"session": {Kind: Update, Seq: 1},
		"done":    {Kind: Update, Session: 1, Seq: 3, Done: 3},
		"window":  {Kind: Update, Session: 1, Seq: MaxOutstanding + 1},
	} {
		_, err := DecodeRequest(q.Append(nil))
		require.Error(t, err, name)
	}
}

func TestVector(t *testing.T) {
	v := Vector{1, 5}
	v = v.Merge(Vector{2, 3, 4})
	require.Equal(t, Vector{2, 5, 4}, v)
	require.Zero(t, v.Of(9))
}

func FuzzDecodeRequest(f *testing.F) {
	f.Add((&Request{Kind: Update, Session: 7, Seq: 5, Done: 3, Vector: Vector{9}, Command: []byte("c")}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if q, err := DecodeRequest(b); err == nil {
			again, err := DecodeRequest(q.Append(nil))
			require.NoError(t, err)
			require.Equal(t, q, again)
		}
	})
}

func FuzzDecodeReply(f *testing.F) {
	f.Add((&Reply{Status: Answered, Vector: Vector{1}, Result: []byte("r")}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := DecodeReply(b); err == nil {
			again, err := DecodeReply(p.Append(nil))
			require.NoError(t, err)
			require.Equal(t, p, again)
		}
	})
}

func FuzzDecodeEnvelope(f *testing.F) {
	for _, e := range []envelope{{Time: 5, Request: []byte("r")}, {Expire: expiry{1, 2}}, {Reap: true}} {
		f.Add(e.encode())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := decodeEnvelope(b); err == nil && len(e.Request) > 0 {
			again, err := decodeEnvelope(e.encode())
			require.NoError(t, err)
			require.Equal(t, e, again)
		}
	})
}
