package order

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A kind is written as a byte, and read as a varint.
func TestEveryKindRoundTrips(t *testing.T) {
	for _, kind := range []Kind{127, 128, 255} {
		e := Entry{Time: 1, Kind: kind, Body: []byte("b")}
		got, err := DecodeEntry(e.encode())
		require.NoError(t, err, "kind %d", kind)
		require.Equal(t, e, got)
	}
}
