package replica

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/pkg/multicast"
)

func TestRequestRoundTrip(t *testing.T) {
	for _, q := range []Request{
		{Kind: Query, Vector: counts(1, 0, 3), Command: []byte("c")},
		{Kind: Update, Session: 7, Seq: 5, Done: 3, Vector: counts(9), Command: []byte("c")},
		{Kind: Update, Session: 7, Seq: 5, Done: 3, Dest: []uint16{0, 2}, Fresh: true, Command: []byte("c")},
		{Kind: AskStatus},
		{Kind: RenewSession, Session: 1<<48 - 1, Held: []posix.Ino{1, posix.MakeIno(3, 9)}, Horizon: 1 << 40},
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
		"one":     {Kind: Update, Session: 1, Seq: 1, Dest: []uint16{1}},
		"order":   {Kind: Update, Session: 1, Seq: 1, Dest: []uint16{2, 1}},
		"twice":   {Kind: Update, Session: 1, Seq: 1, Dest: []uint16{1, 1}},
		"window":  {Kind: Update, Session: 1, Seq: MaxOutstanding + 1},
	} {
		_, err := DecodeRequest(q.Append(nil))
		require.Error(t, err, name)
	}
}

func TestVector(t *testing.T) {
	v := counts(1, 5)
	v = v.Merge(counts(2, 3, 4))
	require.Equal(t, counts(2, 5, 4), v)
	require.Zero(t, v.Of(9))
	v[1].Cross = multicast.Position{Final: 8, ID: multicast.MessageID{Sender: 3, Seq: 1 << 33}}
	require.False(t, counts(9, 9, 9)[1].Covers(v[1]))
	back, err := ParseToken(v.Token())
	require.NoError(t, err)
	require.Equal(t, v, back)
	_, err = ParseToken("no token")
	require.Error(t, err)
}

// counts is a vector without commands of several partitions.
func counts(of ...uint64) (v Vector) {
	for _, n := range of {
		v = append(v, Seen{Count: n})
	}
	return v
}

func FuzzDecodeRequest(f *testing.F) {
	f.Add((&Request{Kind: Update, Session: 7, Seq: 5, Done: 3, Vector: counts(9), Command: []byte("c")}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if q, err := DecodeRequest(b); err == nil {
			again, err := DecodeRequest(q.Append(nil))
			require.NoError(t, err)
			require.Equal(t, q, again)
		}
	})
}

func FuzzDecodeReply(f *testing.F) {
	f.Add((&Reply{Status: Answered, Vector: counts(1), Result: []byte("r")}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := DecodeReply(b); err == nil {
			again, err := DecodeReply(p.Append(nil))
			require.NoError(t, err)
			require.Equal(t, p, again)
		}
	})
}

func FuzzDecodeEnvelope(f *testing.F) {
	at := place{Final: 7, ID: multicast.MessageID{Sender: 2, Seq: 9}}
	for _, e := range []envelope{
		{Time: 5, Kind: envelopeRequest, Request: []byte("r")}, {Kind: envelopeExpire, Expire: expiry{1, 2}}, {Kind: envelopeReap},
		{Kind: envelopeRelay, Relay: relay{Prev: at, At: at, Dest: []uint16{0, 3}, Payload: []byte("p")}},
		{Kind: envelopeDecide, At: at, Votes: [][]byte{{1}, {2, 3}}}, {Kind: envelopeForget, Forget: []place{at, at}},
		{Kind: envelopeBarrier}, {Kind: envelopeCommand, From: 3, Request: []byte("r")},
		{Kind: envelopePost, From: 3, Number: 8, Command: []byte("c")},
		{Kind: envelopeRequest, Request: []byte("r"), Client: someClient("a", 1000)},
		{Kind: envelopeCommand, From: 3, Request: []byte("r"), Client: &Client{Name: "b", Authority: posix.Everybody()}},
	} {
		f.Add(e.encode())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := decodeEnvelope(b); err == nil {
			again, err := decodeEnvelope(e.encode())
			require.NoError(t, err)
			require.Equal(t, e, again)
		}
	})
}
