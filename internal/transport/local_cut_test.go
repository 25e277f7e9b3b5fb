package transport

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/test/bubble"
	"github.com/stretchr/testify/require"
)

// TestLocalCut: over a cut link nothing passes, not even frames under way. After the cut the link starts
// again and calls pass. Other links are not affected.
func TestLocalCut(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := NewLocal(func(multicast.ProcessID, multicast.ProcessID) time.Duration { return 10 * time.Millisecond })
		a, b, c := open(t, localWorld{l}, 1, 1), open(t, localWorld{l}, 2, 1), open(t, localWorld{l}, 3, 1)
		b.endpoint.Serve(echo)
		received := func(r *process) []multicast.Frame {
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			var into [10]multicast.Frame
			n, err := r.links.Receive(ctx, into[:])
			if err != nil {
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
			for _, f := range into[:n] {
				if len(f.Data) == 0 {
					r.links.Accept(f.Peer)
				}
			}
			return into[:n]
		}
		start := func(peer multicast.ProcessID) multicast.Frame { return multicast.Frame{Peer: peer} }
		frame := func(peer multicast.ProcessID, b byte) multicast.Frame {
			return multicast.Frame{Peer: peer, Data: []byte{b}}
		}

		require.NoError(t, a.links.Send(2, []byte{0}))
		require.NoError(t, a.links.Send(3, []byte{0}))
		require.Equal(t, []multicast.Frame{start(2), start(3)}, received(a))
		require.Equal(t, []multicast.Frame{start(1)}, received(b))
		require.Equal(t, []multicast.Frame{start(1)}, received(c))
		require.NoError(t, a.links.Send(2, []byte{1})) // on its way
		l.Cut(func(x, y multicast.ProcessID) bool { return x == 2 || y == 2 })
		require.NoError(t, a.links.Send(2, []byte{2}))
		require.NoError(t, a.links.Send(3, []byte{3}))
		require.Empty(t, received(b))
		require.Equal(t, []multicast.Frame{frame(1, 3)}, received(c))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := a.endpoint.Call(ctx, 2, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)

		l.Cut(nil)
		require.Equal(t, []multicast.Frame{start(1)}, received(b))
		require.Equal(t, []multicast.Frame{start(2)}, received(a))
		require.NoError(t, a.links.Send(2, []byte{4}))
		require.Equal(t, []multicast.Frame{frame(1, 4)}, received(b))
		_, err = a.endpoint.Call(t.Context(), 2, nil)
		require.NoError(t, err)
		require.NoError(t, l.Close())
	})
}
