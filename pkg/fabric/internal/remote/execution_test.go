package remote

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/fabric"
)

// TestWordsAreWhole: fabric M2 for a write that arrives in pieces of any size, from any place: of each word
// that the write covers, the target has the old content or the new one.
func TestWordsAreWhole(t *testing.T) {
	const size = 96
	fresh, old := bytes.Repeat([]byte{1}, 8), make([]byte, 8)
	for at := range 17 {
		for length := range size - at + 1 {
			for piece := 1; piece < 20; piece += 3 {
				var regions Regions
				r, err := regions.Register(1, size)
				require.NoError(t, err)
				require.NoError(t, regions.Grant(1, 2, fabric.Writable))
				x := NewExecution(2, &regions)
				data := bytes.Repeat([]byte{1}, length)
				x.Begin(&fabric.Op{Region: 1, At: at}, length)
				for len(data) > 0 {
					n := min(piece, len(data))
					x.Piece(data[:n])
					data = data[n:]
					for word := (at + 7) / 8 * 8; word+8 <= at+length; word += 8 {
						if got := r.bytes[word : word+8]; !bytes.Equal(got, old) && !bytes.Equal(got, fresh) {
							require.Fail(t, "a torn word", "%d bytes at %d in pieces of %d: %v", length, at, piece, r.bytes)
						}
					}
				}
				status, landed, err := x.End()
				require.NoError(t, err)
				require.Equal(t, fabric.OK, status)
				require.Equal(t, fabric.Landed{From: 2, Region: 1, At: at, Length: length}, landed)
				want := make([]byte, size)
				copy(want[at:], bytes.Repeat([]byte{1}, length))
				require.Equal(t, want, r.bytes, "%d bytes at %d in pieces of %d", length, at, piece)
			}
		}
	}
}

// TestRevokedBetweenPieces: the rest of a write that is under way is refused.
func TestRevokedBetweenPieces(t *testing.T) {
	var regions Regions
	r, err := regions.Register(1, 32)
	require.NoError(t, err)
	require.NoError(t, regions.Grant(1, 2, fabric.Writable))
	x := NewExecution(2, &regions)
	x.Begin(&fabric.Op{Region: 1}, 32)
	x.Piece(bytes.Repeat([]byte{1}, 13)) // of which five wait for the rest of their word
	require.NoError(t, regions.Revoke(1, 2, fabric.Writable))
	x.Piece(bytes.Repeat([]byte{1}, 19))
	status, _, err := x.End()
	require.NoError(t, err)
	require.Equal(t, fabric.Denied, status)
	require.Equal(t, append(bytes.Repeat([]byte{1}, 8), make([]byte, 24)...), r.bytes)
}

// TestBrokenQueuesAreBounded: a peer cannot fill the memory with queues that it breaks.
func TestBrokenQueuesAreBounded(t *testing.T) {
	var regions Regions
	x := NewExecution(2, &regions)
	for i := range fabric.RegionID(maxRefused) {
		_, _, err := x.Read(&fabric.Op{Region: i}, 8)
		require.NoError(t, err)
	}
	_, _, err := x.Read(&fabric.Op{Region: maxRefused}, 8)
	require.ErrorContains(t, err, "broken queues")
}
