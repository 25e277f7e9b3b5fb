package transport

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/test/bubble"
	"github.com/stretchr/testify/require"
)

// TestLocalDelays: frames arrive exactly after the delay, in order also when the delay shrinks.
func TestLocalDelays(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var ms atomic.Int64
		l := NewLocal(func(from, to multicast.ProcessID) time.Duration {
			return time.Duration(ms.Load()) * time.Millisecond
		})
		sender := boot(t, localWorld{l}, 1, 1)
		receiver := open(t, localWorld{l}, 2, 1)
		require.NoError(t, sender.send(2, 0))
		synctest.Wait()
		var into [10]multicast.Frame
		n, err := receiver.links.Receive(t.Context(), into[:])
		require.NoError(t, err)
		require.Equal(t, []multicast.Frame{{Peer: 1}}, into[:n])

		start := time.Now()
		for i, delay := range []int64{50, 10, 80} {
			ms.Store(delay)
			require.NoError(t, sender.links.Send(2, []byte{byte(i)}))
		}
		n, err = receiver.links.Receive(t.Context(), into[:])
		require.NoError(t, err)
		require.Equal(t, 50*time.Millisecond, time.Since(start))
		require.Equal(t, []multicast.Frame{{Peer: 1, Data: []byte{0}}, {Peer: 1, Data: []byte{1}}}, into[:n])
		n, err = receiver.links.Receive(t.Context(), into[:])
		require.NoError(t, err)
		require.Equal(t, 80*time.Millisecond, time.Since(start))
		require.Equal(t, []multicast.Frame{{Peer: 1, Data: []byte{2}}}, into[:n])

		receiver.endpoint.(*localEndpoint).Serve(echo)
		ms.Store(30)
		start = time.Now()
		_, err = sender.endpoint.Call(t.Context(), 2, nil)
		require.NoError(t, err)
		require.Equal(t, 60*time.Millisecond, time.Since(start), "there and back")
		sender.stop()
		require.NoError(t, l.Close())
	})
}
