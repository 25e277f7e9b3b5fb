package replica

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/ask"
	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/pkg/multicast"
)

func FuzzDecodeEnvelope(f *testing.F) {
	at := place{Final: 7, ID: multicast.MessageID{Sender: 2, Seq: 9}}
	for _, e := range []envelope{
		{Time: 5, Kind: envelopeRequest, Request: []byte("r")}, {Kind: envelopeExpire, Expire: expiry{1, 2}}, {Kind: envelopeReap},
		{Kind: envelopeRelay, Relay: relay{Prev: at, At: at, Dest: []uint16{0, 3}, Payload: []byte("p")}},
		{Kind: envelopeDecide, At: at, Votes: [][]byte{{1}, {2, 3}}}, {Kind: envelopeForget, Forget: []place{at, at}},
		{Kind: envelopeBarrier}, {Kind: envelopeCommand, From: 3, Request: []byte("r")},
		{Kind: envelopePost, From: 3, Number: 8, Command: []byte("c")},
		{Kind: envelopeRequest, Request: []byte("r"), Client: someClient("a", 1000)},
		{Kind: envelopeCommand, From: 3, Request: []byte("r"), Client: &ask.Client{Name: "b", Authority: posix.Everybody()}},
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
