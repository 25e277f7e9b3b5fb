package transport

import (
	"bytes"
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/buffers"
	"github.com/globalfs/globalfs/test/bubble"
)

// The memory of long calls is used again only if their handler keeps nothing of them.
func TestMemoryOfCalls(t *testing.T) {
	const length = 300_000
	long := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, length) }
	bubble.Test(t, func(t *testing.T) {
		w := newTCPWorld(t, newAuthority(t, "prod").server("n1"))
		var kept [][]byte
		w.endpoint(1).Serve(func(_ context.Context, request []byte) ([]byte, error) {
			kept = append(kept, request)
			return nil, nil
		})
		w.endpoint(2).ServeAndForget(func(_ context.Context, request []byte) ([]byte, error) {
			reply := buffers.Take(len(request))
			copy(reply, request)
			return reply, nil
		})
		c := w.dial(w.credentials)
		for i := range 40 {
			_, err := c.Call(t.Context(), 1, long(i))
			require.NoError(t, err)
		}
		var calls sync.WaitGroup
		for caller := range 4 {
			calls.Go(func() {
				for i := range 40 {
					want := long(caller*40 + i)
					reply, err := c.Call(t.Context(), 2, want)
					require.NoError(t, err)
					require.True(t, bytes.Equal(want, reply))
				}
			})
		}
		calls.Wait()
		require.NoError(t, c.Close())
		w.close()
		for i, request := range kept {
			require.True(t, bytes.Equal(long(i), request))
		}
	})
}
