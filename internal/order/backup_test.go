package order

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/pkg/multicast"
)

// The number of a backup comes with a frame, before the messages in it, and goes out with each frame.
func TestFramesCarryABackup(t *testing.T) {
	var f frames
	f.data = map[multicast.ProcessID][]byte{}
	f.add(2, sectionMessage, []byte("message"))
	out := f.flush(nil, 300)
	require.Len(t, out, 1)
	var o Orders
	o.frames.data = map[multicast.ProcessID][]byte{}
	received := 0
	require.True(t, o.split(multicast.Frame{Peer: 1, Data: out[0].Data}, func(_ multicast.ProcessID, message []byte) {
		received++
		require.Equal(t, "message", string(message))
		require.Equal(t, uint64(300), o.Backup())
	}))
	require.Equal(t, 1, received)
	o.learnSection([]byte{0xff})
	o.LearnBackup(5)
	require.Equal(t, uint64(300), o.Backup())
	require.Equal(t, []byte("as it is"), carry(0, []byte("as it is")))
}
