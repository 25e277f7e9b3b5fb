package links

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/varint"
	"github.com/globalfs/globalfs/pkg/multicast"
)

// Packets wait for the start of the link, and leave once, in a frame of their own memory.
func TestFlush(t *testing.T) {
	var l Link
	var out multicast.Output
	l.Frame = append(l.Frame, 1, 2)
	l.Flush(7, &out)
	require.Empty(t, out.Frames)
	require.True(t, l.Receive(nil, nil))
	l.Flush(7, &out)
	l.Flush(7, &out)
	require.Equal(t, []multicast.Frame{{Peer: 7, Data: []byte{1, 2}}}, out.Frames)
	l.Frame = append(l.Frame, 9, 9)
	require.Equal(t, []byte{1, 2}, out.Frames[0].Data)
	l.Frame = make([]byte, 2*maxScratch)
	l.Flush(7, &out)
	require.Zero(t, cap(l.Frame))
}

// Packets are taken up to the first one that cannot be.
func TestReceive(t *testing.T) {
	var l Link
	var taken []uint8
	take := func(r *varint.Reader) bool {
		x := r.Uint8()
		if r.Err() == nil && x != 3 {
			taken = append(taken, x)
		}
		return x != 3
	}
	require.True(t, l.Receive([]byte{1, 2}, take))
	require.False(t, l.Receive([]byte{4, 3, 5}, take))
	require.False(t, l.Receive([]byte{6, 200, 200}, take), "cut short")
	require.Equal(t, []uint8{1, 2, 4, 6}, taken)
}
