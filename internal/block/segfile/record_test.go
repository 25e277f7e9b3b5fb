package segfile

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/posix"
)

func TestRecordRoundTrip(t *testing.T) {
	r := Record{ID: posix.MakeBlockID(1, 2, 3), Length: 70000, Sum: 0xdeadbeef}
	b := r.Header()
	require.Equal(t, "47424b31"+"00010000000000020000000000000003"+"70110100"+"efbeadde", fmt.Sprintf("%x", b[:28]), "the bytes are for ever")
	got, ok := ParseHeader(&b)
	require.True(t, ok)
	require.Equal(t, r, got)
	for i := range b {
		b[i] ^= 4
		_, ok := ParseHeader(&b)
		require.False(t, ok, "byte %d", i)
		b[i] ^= 4
	}
}
