package transport

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/globalfs/globalfs/internal/posix"
	"github.com/globalfs/globalfs/pkg/multicast"
	"github.com/globalfs/globalfs/test/bubble"
	"github.com/globalfs/globalfs/test/logged"
)

// held counts the descriptors of this process, and its mappings of shared memory.
func held(t *testing.T) string {
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	return fmt.Sprintf("%d descriptors, %d mappings", len(fds), strings.Count(string(maps), "globalfs-shm"))
}

// Neither end keeps descriptors or memory of connections that have ended, at either end first.
func TestSharedMemoryLeavesNothing(t *testing.T) {
	var log logged.Text
	certs := newAuthority(t, "prod")
	s := listening(t, certs.server("n1"), &log)
	round := func(end func(d *Client)) {
		d := Dial(Config{Credentials: certs.client("c", posix.Everybody()), SharedMemory: true, Logger: log.Logger(),
			Resolve: func(multicast.ProcessID) (string, bool) { return s.Address(), true }})
		_, err := d.Call(t.Context(), 1, make([]byte, 100_000))
		require.NoError(t, err)
		require.Contains(t, held(t), " 2 mappings")
		end(d)
		require.NoError(t, d.Close())
		require.Eventually(t, func() bool { return strings.Contains(held(t), " 0 mappings") }, 10*time.Second, time.Millisecond)
	}
	byClient := func(*Client) {}
	byServer := func(*Client) {
		s.framed.mu.Lock()
		defer s.framed.mu.Unlock()
		for c := range s.framed.sessions {
			go c.fail(ErrClosed)
		}
	}
	round(byClient) // opens what stays, such as the poller
	before := held(t)
	for range 10 {
		round(byClient)
		round(byServer)
	}
	require.Eventually(t, func() bool { return held(t) == before }, 10*time.Second, time.Millisecond, "%s before, %s now", before, held(t))
}

// A peer that stays alive and takes nothing loses its connection, and holds nobody up.
func TestSharedMemoryOfPeerThatTakesNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newSharedWorld(t)
		w.servers[0].Endpoint(3).Serve(echo)
		d := Dial(Config{Resolve: w.resolve, Credentials: w.credentials, dial: w.pipes.dial, SharedMemory: true, sharing: w.sharing})
		p := newFramedProvider(d.pool.cfg)
		c, err := p.connect(t.Context(), address(0)) // nobody reads
		require.NoError(t, err)
		require.True(t, c.shared)
		for i := range uint64(16) {
			c.post(append(callStart(nil, i+1, 3, 0, make([]byte, 100_000)), make([]byte, 100_000)...))
			synctest.Wait()
			reply, err := d.Call(t.Context(), 3, []byte("x"))
			require.NoError(t, err)
			require.Equal(t, "echo x", string(reply))
		}
		shared, _ := sharedConns(w.servers[0])
		require.Equal(t, 2, shared)
		for range 4 {
			c.post(appendHead(nil, kindPing, 0, 0))
			time.Sleep(probeTime)
		}
		require.Eventually(t, func() bool { shared, _ := sharedConns(w.servers[0]); return shared == 1 }, 2*probeTime, time.Second)
		c.fail(ErrClosed)
		require.NoError(t, p.close())
		require.NoError(t, d.Close())
		w.close()
	})
}
